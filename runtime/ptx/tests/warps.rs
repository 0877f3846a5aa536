//! What a warp, a block and a grid do together: divergence, shuffles, votes, reductions, atomics, counts; and `.approx` within its bounds.

mod support;

use ptx::{Counts, Grid, Memory, Module, Options, launch};
use support::{evaluate_with, module, one_block, operands, run_words};

/// The body with the thread's number in `%t` and `out + 4·t` in `%o`, storing `%r`.
fn each_thread(body: &str) -> String {
    format!(
        ".reg .b64 %o;\n.reg .b32 %t, %r, %x, %y, %z, %i;\n.reg .pred %p, %q;\nld.param.u64 %o, [k_0];\nmov.u32 %t, %tid.x;\nmad.wide.u32 %o, %t, 4, %o;\n\
         mov.u32 %r, 0;\n{body}\nst.global.u32 [%o], %r;"
    )
}

fn results(body: &str, threads: u32) -> Vec<u32> {
    let mut out = [vec![0; threads as usize]];
    run_words(&each_thread(body), &mut out, one_block(threads), &Options { checks: true, ..Options::default() }).unwrap_or_else(|f| panic!("{f}\n{body}"));
    let [out] = out;
    out
}

fn check(body: &str, threads: u32, f: impl Fn(u32) -> u32) {
    let got = results(body, threads);
    let want: Vec<u32> = (0..threads).map(f).collect();
    assert_eq!(got, want, "{body}");
}

#[test]
fn lanes_part_and_meet() {
    // Loops of different lengths inside a branch, with an early way out.
    check(
        "and.b32 %x, %t, 3;\nsetp.eq.u32 %p, %x, 0;\n@%p bra SKIP;\nmov.u32 %i, 0;\nLOOP: setp.ge.u32 %q, %i, %t;\n@%q bra DONE;\nadd.u32 %r, %r, %i;\n\
         setp.gt.u32 %q, %r, 50;\n@%q bra OUT;\nadd.u32 %i, %i, 1;\nbra LOOP;\nOUT: add.u32 %r, %r, 1000;\nDONE: add.u32 %r, %r, 1;\nbra.uni END;\n\
         SKIP: mov.u32 %r, 7;\nEND: activemask.b32 %x;\nsetp.ne.u32 %p, %x, -1;\n@%p mov.u32 %r, 9999;",
        64,
        |t| {
            if t % 4 == 0 {
                return 7;
            }
            let mut r = 0;
            for i in 0..t {
                r += i;
                if r > 50 {
                    return r + 1001;
                }
            }
            r + 1
        },
    );
    check("setp.gt.u32 %p, %t, 20;\n@%p bra A;\nmov.u32 %r, 1;\nst.global.u32 [%o], %r;\nexit;\nA: mov.u32 %r, 2;", 48, |t| if t > 20 { 2 } else { 1 });
}

#[test]
fn branches_by_index() {
    check(
        "and.b32 %x, %t, 3;\nts: .branchtargets A, B, C, A;\nbrx.idx %x, ts;\nA: mov.u32 %r, 10;\nbra E;\nB: mov.u32 %r, 11;\nbra E;\nC: mov.u32 %r, 12;\nE: add.u32 %r, %r, %t;",
        64,
        |t| [10, 11, 12, 10][t as usize % 4] + t,
    );
}

#[test]
fn lanes_meet_before_a_shuffle_whatever_unreachable_path_leaves() {
    check("setp.lt.u32 %p, %t, 6;\n@%p bra J;\nsetp.lt.u32 %p, %t, 64;\n@%p bra J;\nexit;\nJ: shfl.sync.bfly.b32 %r, %t, 1, 31, -1;", 64, |t| t ^ 1);
}

#[test]
fn shuffles() {
    check("shfl.sync.bfly.b32 %r, %t, 1, 31, -1;", 64, |t| t ^ 1);
    check("shfl.sync.down.b32 %r|%p, %t, 4, 31, -1;\n@!%p mov.u32 %r, 99;", 32, |t| if t + 4 < 32 { t + 4 } else { 99 });
    check("shfl.sync.up.b32 %r, %t, 3, 0, -1;", 32, |t| if t >= 3 { t - 3 } else { t });
    check("shfl.sync.idx.b32 %r, %t, 5, 31, -1;", 64, |t| t / 32 * 32 + 5);
    // Segments of eight lanes.
    check("shfl.sync.idx.b32 %r, %t, 2, 0x181F, -1;", 32, |t| t / 8 * 8 + 2);
    check("shfl.sync.down.b32 %r, %t, 1, 0x181F, -1;", 32, |t| if t % 8 == 7 { t } else { t + 1 });
    // A sum over the warp.
    let steps: String = [16, 8, 4, 2, 1].iter().map(|n| format!("shfl.sync.bfly.b32 %x, %r, {n}, 31, -1;\nadd.u32 %r, %r, %x;\n")).collect();
    check(&format!("mov.u32 %r, %t;\n{steps}"), 32, |_| 31 * 16);
}

#[test]
fn votes_and_reductions() {
    check("setp.gt.u32 %p, %t, 15;\nvote.sync.ballot.b32 %r, %p, -1;", 32, |_| 0xFFFF_0000);
    check("setp.gt.u32 %p, %t, 15;\nvote.sync.any.pred %q, %p, -1;\nselp.u32 %r, 1, 0, %q;", 64, |_| 1);
    check("setp.gt.u32 %p, %t, 15;\nvote.sync.all.pred %q, !%p, -1;\nselp.u32 %r, 1, 0, %q;", 64, |_| 0);
    check("redux.sync.add.u32 %r, %t, -1;", 32, |_| 496);
    check("sub.u32 %x, %t, 5;\nredux.sync.min.s32 %r, %x, -1;", 32, |_| -5i32 as u32);
    check("mov.u32 %r, %lanemask_lt;\npopc.b32 %r, %r;\nmov.u32 %x, %warpid;\nmad.lo.u32 %r, %x, 100, %r;", 64, |t| t / 32 * 100 + t % 32);
}

#[test]
fn atomics_of_all_blocks() {
    let body = ".reg .b64 %o;\n.reg .b32 %x;\n.reg .f32 %f;\nld.param.u64 %o, [k_0];\natom.global.add.u32 %x, [%o], 1;\nred.global.add.f32 [%o+4], 0f3F000000;\n\
        red.global.max.s32 [%o+8], %x;\natom.global.cas.b32 %x, [%o+12], 0, 5;\nred.gpu.global.or.b32 [%o+16], 6;\natom.global.inc.u32 %x, [%o+20], 9;\n\
        atom.global.exch.b32 %x, [%o+24], 3;\nred.relaxed.gpu.global.add.noftz.f16x2 [%o+28], 0x3C003C00;";
    let mut out = [vec![0; 8]];
    let grid = Grid { grid: [5, 2, 1], block: [33, 1, 2], dynamic_shared: 0 };
    run_words(body, &mut out, grid, &Options::default()).unwrap();
    assert_eq!(out[0], [660, 330f32.to_bits(), 659, 5, 6, 0, 3, 0x6128_6128]);
}

#[test]
fn shared_memory_that_comes_with_the_launch() {
    let text = ".version 8.0\n.target sm_80\n.address_size 64\n.extern .shared .align 16 .b8 dyn[];\n.const .align 4 .b32 table[4] = {10, 20, 30, 40};\n\
        .visible .entry k(.param .u64 p) {\n.shared .align 4 .b32 one[3];\n.reg .b64 %p, %g, %s;\n.reg .b32 %t, %v, %o;\nld.param.u64 %p, [p];\nmov.u32 %t, %tid.x;\n\
        mov.u64 %s, dyn;\ncvta.shared.u64 %g, %s;\nmad.wide.u32 %g, %t, 4, %g;\nst.u32 [%g], %t;\nbar.sync 0;\nxor.b32 %o, %t, 63;\nshl.b32 %o, %o, 2;\nmov.b32 %v, dyn;\n\
        add.u32 %o, %o, %v;\nld.shared.u32 %v, [%o];\nand.b32 %o, %t, 3;\nmov.u64 %g, table;\nmad.wide.u32 %g, %o, 4, %g;\nld.const.u32 %o, [%g];\nadd.u32 %v, %v, %o;\n\
        cvta.to.global.u64 %p, %p;\nmad.wide.u32 %p, %t, 4, %p;\nst.global.u32 [%p], %v;\nst.shared.u32 [one+4], 1;\nret;\n}\n";
    let module = Module::parse(text).unwrap();
    let mut out = vec![0u32; 64];
    let mut memory = Memory::new();
    let address = memory.register_slice("out", &mut out).address();
    let grid = Grid { grid: [1, 1, 1], block: [64, 1, 1], dynamic_shared: 256 };
    // Every thread stores the same to `one`: of one warp that is no race, of two it is.
    let options = Options::default();
    launch(&module, module.entry("k").unwrap(), grid, &[address], &memory, &options).unwrap();
    assert!(out.iter().enumerate().all(|(t, v)| *v as usize == (63 - t) + (t % 4 + 1) * 10), "{out:?}");
    let race = launch(&module, module.entry("k").unwrap(), grid, &[address], &memory, &Options { checks: true, ..options }).unwrap_err();
    assert!(race.message.contains("(byte 4 of `one`)"), "{race}");
    let short = launch(&module, module.entry("k").unwrap(), Grid { dynamic_shared: 128, ..grid }, &[address], &memory, &options).unwrap_err();
    assert_eq!(short.kind, ptx::FaultKind::OutOfBounds);
}

/// `b[i] = 2·a[i]` over a grid, with four values a thread.
const SCALE: &str = ".reg .b64 %a, %b, %n;\n.reg .b32 %t, %x, %y;\n.reg .f32 %f<4>;\nld.param.u64 %a, [k_0];\nld.param.u64 %b, [k_1];\nmov.u32 %t, %tid.x;\nmov.u32 %x, %ctaid.x;\n\
    mov.u32 %y, %ntid.x;\nmad.lo.u32 %t, %x, %y, %t;\nmad.wide.u32 %a, %t, 16, %a;\nmad.wide.u32 %b, %t, 16, %b;\nld.global.nc.L1::no_allocate.v4.f32 {%f0, %f1, %f2, %f3}, [%a];\n\
    add.f32 %f0, %f0, %f0;\nadd.f32 %f1, %f1, %f1;\nadd.f32 %f2, %f2, %f2;\nadd.f32 %f3, %f3, %f3;\nst.global.v4.f32 [%b], {%f0, %f1, %f2, %f3};";

#[test]
fn traffic_is_counted_in_sectors() {
    let n = 16 * 128 * 4;
    let mut buffers = [(0..n).map(|i| (i as f32).to_bits()).collect::<Vec<u32>>(), vec![0; n]];
    let grid = Grid { grid: [16, 1, 1], block: [128, 1, 1], dynamic_shared: 0 };
    let mut counts = Vec::new();
    for parallel in [false, true] {
        counts.push(run_words(SCALE, &mut buffers, grid, &Options { distinct: true, parallel, ..Options::default() }).unwrap());
    }
    assert_eq!(counts[0], counts[1]);
    let Counts { instructions, lanes, loads, stores, divergences, .. } = counts[0];
    assert_eq!((instructions, lanes, divergences), (16 * 4 * 15, 16 * 128 * 15, 0));
    let sectors = n as u64 * 4 / 32;
    assert_eq!((loads.requests, loads.bytes), (64, n as u64 * 4));
    assert!(loads.sectors >= sectors && loads.sectors <= sectors + 64 && loads.distinct - sectors <= 1, "{loads:?}");
    assert_eq!(stores.bytes, n as u64 * 4);
    assert!(buffers[1].iter().enumerate().all(|(i, v)| f32::from_bits(*v) == 2.0 * i as f32));
}

#[test]
fn approximations_stay_within_their_bounds() {
    let edges: Vec<u64> = [0.5f32, 1.0, 1.5, -2.25, 0.001, 3.0e-39, 17.0, -40.0, 100.5, 1e30].iter().map(|v| u64::from(v.to_bits())).collect();
    let finite = |o: &[u64; 3]| o[..2].iter().all(|v| f32::from_bits(*v as u32).is_finite());
    let ops: Vec<_> = operands(&edges, 2000).into_iter().filter(finite).collect();
    let f = |v: u64| f64::from(f32::from_bits(v as u32));
    let unit = |v: f64| f64::from((v.abs() as f32).next_up()) - f64::from(v.abs() as f32);
    type Exact = fn(f64, f64) -> f64;
    type Bound = fn(f64, f64, f64) -> f64;
    let power = |n: f64| n.exp2();
    let cases: [(&str, Exact, Bound, fn(f64) -> bool); 9] = [
        ("div.full.f32 %d, %a, %b;", |a, b| a / b, |_, _, u| 2.0 * u, |b| b.abs() > 1e-37),
        ("rcp.approx.f32 %d, %a;", |a, _| 1.0 / a, |_, _, u| u, |_| true),
        ("sqrt.approx.f32 %d, %a;", |a, _| a.sqrt(), |y, _, _| y * (-23f64).exp2(), |_| true),
        ("rsqrt.approx.f32 %d, %a;", |a, _| 1.0 / a.sqrt(), |y, _, _| y * (-22.9f64).exp2(), |_| true),
        ("ex2.approx.f32 %d, %a;", |a, _| a.exp2(), |_, _, u| 2.0 * u, |_| true),
        ("lg2.approx.f32 %d, %a;", |a, _| a.log2(), |y, a, _| if a > 0.5 && a < 2.0 { (-22f64).exp2() } else { y.abs() * (-22f64).exp2() }, |_| true),
        ("sin.approx.f32 %d, %a;", |a, _| a.sin(), |_, _, _| (-20.5f64).exp2(), |_| true),
        ("cos.approx.f32 %d, %a;", |a, _| a.cos(), |_, _, _| (-20.5f64).exp2(), |_| true),
        ("tanh.approx.f32 %d, %a;", |a, _| a.tanh(), |y, _, _| y.abs() * (-11f64).exp2(), |_| true),
    ];
    assert_eq!(power(3.0), 8.0);
    for (text, exact, bound, applies) in cases {
        let nominal = evaluate_with(text, 'd', &ops, &Options::default());
        let seeded = |seed| evaluate_with(text, 'd', &ops, &Options { perturb: Some(seed), ..Options::default() });
        let (one, two) = (seeded(1), seeded(2));
        assert_eq!(one, seeded(1), "{text}: the same seed gives the same");
        let mut moved = 0;
        for (i, o) in ops.iter().enumerate() {
            let (a, b) = (f(o[0]), f(o[1]));
            let y = exact(a, b);
            for (v, seeded) in [(nominal[i], false), (one[i], true), (two[i], true)] {
                let got = f(v);
                moved += usize::from(seeded && v != nominal[i]);
                if y.is_nan() {
                    assert!(got.is_nan(), "{text} of {a:e} {b:e}: {got:e}");
                } else if applies(b) && y.abs() < 3.4e38 {
                    assert!((got - y).abs() <= bound(y, a, unit(y)).max(unit(0.0)), "{text} of {a:e} {b:e}: {got:e}, exactly {y:e}");
                }
            }
        }
        assert!(moved > ops.len() / 20, "{text}: perturbed results differ ({moved} of {})", ops.len());
    }
}

/// How fast it is; says so rather than failing, since machines differ.
#[test]
fn it_is_fast() {
    let body = ".reg .b64 %o;\n.reg .b32 %t, %i;\n.reg .f32 %f, %g;\n.reg .pred %p;\nld.param.u64 %o, [k_0];\nmov.u32 %t, %tid.x;\nmad.wide.u32 %o, %t, 4, %o;\nmov.f32 %f, 0f3F800000;\n\
        mov.u32 %i, 0;\nL: fma.rn.f32 %f, %f, 0f3F7FFFFE, 0f00000000;\nadd.f32 %g, %f, 0f3F800000;\nmul.f32 %g, %g, %f;\nmax.f32 %f, %f, 0f00000000;\nadd.u32 %i, %i, 1;\n\
        setp.lt.u32 %p, %i, 2000;\n@%p bra L;\nst.global.f32 [%o], %f;";
    let mut out = [vec![0; 256]];
    let begun = std::time::Instant::now();
    let counts =
        run_words(body, &mut out, Grid { grid: [8, 1, 1], block: [256, 1, 1], dynamic_shared: 0 }, &Options { parallel: false, ..Options::default() }).unwrap();
    println!("{:.0} million lane-instructions a second on one thread", counts.lanes as f64 / begun.elapsed().as_secs_f64() / 1e6);
    assert!(counts.lanes > 28_000_000);
    let _ = module(0, "");
}
