//! The runtime's own PTX, executed on the emulator of PTX through the emulated GPU: against plain loops, with NaN, wrapping integers and narrow floats.

use cuda::driver::{Address, Driver, Shape};
use cuda::emulated::{Behaviour, EmulatedGpu};
use cuda::kernels::{Kernel, Loops, THREADS, Work, module};
use half::bf16;
use ir::DType;
use ir::op::Reducer;

/// A GPU with buffers of bytes; executes one kernel and gives the buffers back.
fn execute(kernel: &Kernel, buffers: &mut [Vec<u8>], (first, last): (u64, u64)) {
    let gpu = EmulatedGpu::new(Behaviour::default());
    let text = module(std::slice::from_ref(kernel));
    let loaded = gpu.load(&text).unwrap_or_else(|e| panic!("{e:?}\n{text}"));
    let function = gpu.function(loaded, "k0", 0).unwrap();
    let stream = gpu.stream(false).unwrap();
    let addresses: Vec<Address> = buffers.iter().map(|b| gpu.allocate(b.len()).unwrap()).collect();
    let parameters: Vec<u64> = addresses.iter().copied().chain([first, last]).collect();
    let shape = Shape { grid: [((last - first) as u32).div_ceil(THREADS), 1, 1], block: [THREADS, 1, 1], shared: 0 };
    // SAFETY: buffers are as long as the copies say, and kernels stay inside them or the emulator says so.
    unsafe {
        for (b, a) in buffers.iter().zip(&addresses) {
            gpu.upload(stream, b.as_ptr(), *a, b.len()).unwrap();
        }
        gpu.launch(stream, function, shape, &parameters).unwrap();
        for (b, a) in buffers.iter_mut().zip(&addresses) {
            gpu.download(stream, *a, b.as_mut_ptr(), b.len()).unwrap();
        }
        gpu.synchronize(stream).unwrap();
    }
}

fn offsets(loops: &[(u64, i64)]) -> Vec<usize> {
    let mut out = vec![0i64];
    for &(n, s) in loops {
        out = out.iter().flat_map(|o| (0..n as i64).map(move |i| o + i * s)).collect();
    }
    out.into_iter().map(|o| o as usize).collect()
}

#[test]
fn copies_follow_their_strides() {
    let (from, to): (Loops, Loops) = (vec![(3, 100), (5, 1), (7, 6)], vec![(3, 35), (5, 7), (7, 1)]);
    for bytes in [1usize, 2, 4, 8] {
        let kernel = Kernel { work: Work::Move(bytes as u32), sources: 1, targets: 1, from: from.clone(), to: to.clone() };
        let source: Vec<u8> = (0..300 * bytes).map(|i| (i * 31 % 251) as u8).collect();
        let mut want = vec![0u8; 110 * bytes];
        for (f, t) in offsets(&from).into_iter().zip(offsets(&to)) {
            want[t * bytes..(t + 1) * bytes].copy_from_slice(&source[f * bytes..(f + 1) * bytes]);
        }
        let mut buffers = [source, vec![0u8; 110 * bytes]];
        execute(&kernel, &mut buffers, (0, kernel.elements()));
        assert_eq!(buffers[1], want, "{bytes} bytes");
    }
}

#[test]
fn fills_store_the_element() {
    for (bytes, bits) in [(2u32, 0x3F80u64), (4, 0xC049_0FDB), (8, 0xBFF0_0000_0000_0001)] {
        let kernel = Kernel { work: Work::Fill(bytes, bits), sources: 0, targets: 1, from: vec![], to: vec![(300, 1)] };
        let mut buffers = [vec![0u8; 304 * bytes as usize]];
        execute(&kernel, &mut buffers, (0, 300));
        let element = &bits.to_le_bytes()[..bytes as usize];
        assert!(buffers[0].chunks(bytes as usize).take(300).all(|e| e == element), "{bytes} bytes");
        assert!(buffers[0].chunks(bytes as usize).skip(300).all(|e| e.iter().all(|b| *b == 0)), "nothing behind");
    }
}

/// Combines three sources into two targets, in part; `fold` is what the processor does.
fn combined<T: Copy + PartialEq + std::fmt::Debug, const N: usize>(dtype: DType, reducer: Reducer, values: [T; 3], to_bytes: fn(T) -> [u8; N], want: T) {
    let kernel = Kernel { work: Work::Combine(reducer, dtype), sources: 3, targets: 2, from: vec![(10, 3)], to: vec![(10, 1)] };
    let whole = |v: T, n: usize| (0..n).flat_map(|_| to_bytes(v)).collect::<Vec<u8>>();
    let mut buffers = [whole(values[0], 32), whole(values[1], 32), whole(values[2], 32), vec![0; 16 * N], vec![0; 16 * N]];
    execute(&kernel, &mut buffers, (2, 9));
    for target in &buffers[3..] {
        for (i, element) in target.chunks(N).enumerate() {
            let expected = if (2..9).contains(&i) { to_bytes(want) } else { [0; N] };
            assert_eq!(element, expected, "{dtype} {reducer:?}, element {i}");
        }
    }
}

#[test]
fn collectives_combine_as_the_processor_does() {
    let (big, small) = (16_777_216.0f32, 1.0f32);
    // In order: (2^24 + 1) + 1 loses both, 1 + 1 + 2^24 none.
    combined(DType::F32, Reducer::Add, [big, small, small], f32::to_le_bytes, big);
    combined(DType::F32, Reducer::Add, [small, small, big], f32::to_le_bytes, big + 2.0);
    combined(DType::F32, Reducer::Max, [1.0, -5.0, 3.0], f32::to_le_bytes, 3.0);
    combined(DType::F32, Reducer::Min, [1.0, -5.0, 3.0], f32::to_le_bytes, -5.0);
    combined(DType::F64, Reducer::Mul, [1.5, -2.0, 3.0], f64::to_le_bytes, -9.0);
    // Summed in f32 and rounded once: 256 + 1 + 1 is 258, where bf16 would stay at 256.
    let b = bf16::from_f32;
    combined(DType::BF16, Reducer::Add, [b(256.0), b(1.0), b(1.0)], bf16::to_le_bytes, b(258.0));
    let h = half::f16::from_f32;
    combined(DType::F16, Reducer::Add, [h(2048.0), h(1.0), h(1.0)], half::f16::to_le_bytes, h(2050.0));
    combined(DType::I32, Reducer::Add, [i32::MAX, 1, -3], i32::to_le_bytes, i32::MAX.wrapping_add(1).wrapping_sub(3));
    combined(DType::I8, Reducer::Min, [-7i8, 5, 100], i8::to_le_bytes, -7);
    combined(DType::UI8, Reducer::Max, [200u8, 5, 100], u8::to_le_bytes, 200);
    combined(DType::UI64, Reducer::Max, [u64::MAX, 5, 100], u64::to_le_bytes, u64::MAX);
    combined(DType::UI32, Reducer::Xor, [0xF0F0u32, 0xFF, 1], u32::to_le_bytes, 0xF0F0 ^ 0xFF ^ 1);
    combined(DType::I1, Reducer::Or, [0u8, 1, 0], u8::to_le_bytes, 1);
}

#[test]
fn nan_is_kept_and_what_cannot_be_combined_is_not_made() {
    let kernel = Kernel { work: Work::Combine(Reducer::Max, DType::F32), sources: 2, targets: 1, from: vec![(4, 1)], to: vec![(4, 1)] };
    let f = |v: [f32; 4]| v.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let mut buffers = [f([f32::NAN, 1.0, 2.0, 3.0]), f([0.0, f32::NAN, 5.0, -1.0]), vec![0; 16]];
    execute(&kernel, &mut buffers, (0, 4));
    let got: Vec<f32> = buffers[2].chunks(4).map(|c| f32::from_le_bytes(c.try_into().unwrap())).collect();
    assert!(got[0].is_nan() && got[1].is_nan() && got[2..] == [5.0, 3.0], "{got:?}");
    let of = |reducer, dtype| Kernel { work: Work::Combine(reducer, dtype), ..kernel.clone() }.entry("k");
    assert!(of(Reducer::Max, DType::F64).is_none() && of(Reducer::Add, DType::I1).is_none() && of(Reducer::And, DType::F32).is_none());
    assert!(Kernel { sources: 600, ..kernel.clone() }.entry("k").is_none(), "parameters have 4 KiB");
}
