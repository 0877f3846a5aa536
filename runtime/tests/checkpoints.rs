//! Checkpoints of plans written by hand: every element is saved once, whatever is cut, padded or replicated, and comes back under any plan.
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod support;

use ir::plan::{Interface, Plan};
use ir::program::ScheduleKind;
use ir::{DType, Diagnostic, TensorType};
use runtime::binding::Block;
use runtime::checkpoint::layout::shards;
use runtime::checkpoint::store::{checkpoints, unfinished};
use runtime::checkpoint::writer::RankWriter;
use runtime::checkpoint::{Checkpoint, Failed, Manifest, SaveOptions, Saved, Saving, Store};
use runtime::device::{Device, Position, Region, Seat};
use runtime::worker::program_of;
use runtime::{Arguments, Options, Session, Tensor};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use support::*;

/// State of three kinds, over a mesh of `mesh`: a matrix cut in both dimensions (padded where they do not divide), a vector that is replicated and doubled
/// by every step where `x` has two devices, and a `bf16` matrix cut in its second dimension.
fn stage(s: u32, first_rank: u32, mesh: &[u32]) -> Builder {
    let mut b = Builder::new(s, mesh, first_rank);
    let (x, y) = (u64::from(mesh[0]), u64::from(mesh[1]));
    let w = b.buffer("w", DType::F32, &[5u64.div_ceil(x), 7u64.div_ceil(y)], 1);
    let v = b.buffer("v", DType::F32, &[6], 1);
    let h = b.buffer("h", DType::BF16, &[3, 4u64.div_ceil(y)], 1);
    b.add(3, all_reduce(&[0], DType::F32, &[(v, 6)]), &[v], &[v]);
    b.input(0, w, &[5, 7], false, &[&[0], &[1]]);
    b.input(1, v, &[6], false, &[&[]]);
    b.input(2, h, &[3, 4], false, &[&[], &[1]]);
    b.output(0, w, &[5, 7], false, &[&[0], &[1]]);
    b.output(1, v, &[6], false, &[&[]]);
    b.output(2, h, &[3, 4], false, &[&[], &[1]]);
    b
}

fn types() -> Vec<TensorType> {
    vec![f32s(&[5, 7]), f32s(&[6]), TensorType::new(DType::BF16, [3, 4])]
}

fn plan_of(mesh: &[u32]) -> Arc<Plan> {
    let mut plan = plan(vec![stage(0, 0, mesh).program], &types(), &types(), ScheduleKind::GPipe, 1);
    plan.interface = Interface { state: vec![(0, 0), (1, 1), (2, 2)], parameters: vec![0], ..Interface::default() };
    Arc::new(plan)
}

fn given() -> Arguments {
    let h = Tensor { ty: types()[2].clone(), bytes: (0..24).collect() };
    Arguments::from([(0, tensor(&[5, 7], &numbers(35, 3))), (1, tensor(&[6], &numbers(6, 4))), (2, Arc::new(h))])
}

fn open(plan: &Arc<Plan>) -> Session {
    let mut session = Session::open(plan, &Options::default()).unwrap();
    session.set_inputs(&given()).unwrap();
    session
}

fn save_to(session: &mut Session, folder: &Path, keep: usize) {
    let (store, _) = Store::open(folder, keep, None).unwrap();
    session.save_to(store, Duration::from_secs(60)).unwrap();
}

#[test]
fn every_element_is_written_once() {
    for mesh in [[1, 1], [2, 2], [4, 1], [3, 2], [1, 4], [8, 1]] {
        let plan = plan_of(&mesh);
        let mut held = [vec![0u8; 35], vec![0u8; 6], vec![0u8; 12]];
        for rank in 0..plan.ranks() {
            for s in shards(&plan, rank).unwrap() {
                let strides = ir::dtype::row_major_strides(&s.view);
                let count: u64 = s.extent.iter().product();
                for i in 0..count {
                    let (mut rest, mut at) = (i, 0);
                    for d in (0..s.view.len()).rev() {
                        at += (s.start[d] + rest % s.extent[d]) * strides[d];
                        rest /= s.extent[d];
                    }
                    held[s.argument as usize][at as usize] += 1;
                }
            }
        }
        assert!(held.iter().flatten().all(|n| *n == 1), "{mesh:?}: {held:?}");
    }
    // Replicas take turns.
    let plan = plan_of(&[2, 2]);
    let writers = (0..4).filter(|r| !shards(&plan, *r).unwrap().is_empty()).count();
    assert_eq!(writers, 4);
}

#[test]
fn what_was_saved_comes_back_under_any_mesh_and_in_the_middle_of_a_run() {
    for from in [[2, 2], [1, 1], [3, 2]] {
        let folder = tempfile::tempdir().unwrap();
        let plan = plan_of(&from);
        let mut session = open(&plan);
        save_to(&mut session, folder.path(), 2);
        assert!(session.memory().iter().map(|m| m.snapshot).sum::<usize>() >= 35 * 4 + 6 * 4 + 12 * 2);
        session.save().unwrap();
        assert!(session.saved(true).is_none(), "before the first step there is nothing to save");
        let mut states = vec![];
        for step in 1..=4u64 {
            session.step(&Arguments::new()).unwrap();
            states.push(session.state().unwrap());
            session.save().unwrap();
            let (of, saved) = session.saved(true).unwrap();
            assert_eq!((of, saved.unwrap().bytes), (step, 35 * 4 + 6 * 4 + 12 * 2));
        }
        let steps: Vec<u64> = checkpoints(folder.path()).unwrap().into_iter().map(|c| c.0).collect();
        assert_eq!(steps, [4, 3], "the last two are kept");
        assert!(unfinished(folder.path()).unwrap().is_empty());
        for to in [[2, 2], [1, 1], [1, 4]] {
            for (step, state) in [(4, &states[3]), (3, &states[2])] {
                let (checkpoint, notes) = Checkpoint::newest(&folder.path().join(format!("step-0000000{step}"))).unwrap();
                assert!(notes.is_empty());
                let plan = plan_of(&to);
                let mut session = Session::open(&plan, &Options::default()).unwrap();
                session.restore(&checkpoint).unwrap();
                assert_eq!(&session.state().unwrap(), state, "{from:?} to {to:?}");
                assert_eq!(session.step(&Arguments::new()).unwrap().step, step);
            }
        }
    }
}

#[test]
fn the_next_step_runs_while_a_checkpoint_is_written_and_a_failed_one_harms_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan_of(&[2, 1]);
    let mut session = open(&plan);
    save_to(&mut session, folder.path(), 1);
    session.step(&Arguments::new()).unwrap();
    session.save().unwrap();
    assert!(session.saved(true).unwrap().1.is_ok());
    // Writing to this pipe ends only when somebody reads it.
    let parts = folder.path().join(".step-00000002.part");
    std::fs::create_dir(&parts).unwrap();
    let pipe = parts.join("rank-0001.safetensors");
    let name = std::ffi::CString::new(pipe.to_str().unwrap()).unwrap();
    // SAFETY: a C string that outlives the call.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    session.step(&Arguments::new()).unwrap();
    session.save().unwrap();
    let before = session.state().unwrap();
    session.step(&Arguments::new()).unwrap();
    assert!(session.saved(false).is_none(), "it is being written");
    assert_ne!(session.state().unwrap(), before, "and a step was done");
    std::fs::read(&pipe).unwrap();
    // A pipe cannot be synced, so this one fails.
    let (step, failed) = session.saved(true).unwrap();
    let warning = failed.unwrap_err();
    assert_eq!((step, warning.code.as_str()), (2, "W0660"));
    assert!(warning.message.contains("rank-0001.safetensors"), "{warning}");
    assert!(unfinished(folder.path()).unwrap().is_empty(), "nothing is left of it");
    assert_eq!(Checkpoint::newest(folder.path()).unwrap().0.manifest.step, 1);
    session.save().unwrap();
    assert!(session.saved(true).unwrap().1.is_ok(), "the next one is written");
    assert_eq!(Checkpoint::newest(folder.path()).unwrap().0.manifest.step, 3);
}

#[test]
fn a_session_that_ends_finishes_what_it_began_to_save() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan_of(&[2, 2]);
    let mut session = open(&plan);
    save_to(&mut session, folder.path(), 1);
    session.step(&Arguments::new()).unwrap();
    session.save().unwrap();
    drop(session);
    assert_eq!(Checkpoint::newest(folder.path()).unwrap().0.manifest.step, 1);
}

#[test]
fn every_flipped_byte_is_seen() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan_of(&[2, 1]);
    let mut session = open(&plan);
    save_to(&mut session, folder.path(), 1);
    session.step(&Arguments::new()).unwrap();
    session.save().unwrap();
    drop(session);
    let place = folder.path().join("step-00000001");
    let check = || Checkpoint::open(&place).and_then(|c| c.verify());
    check().unwrap();
    for name in ["manifest.json", "rank-0000.safetensors", "rank-0001.safetensors"] {
        let path = place.join(name);
        let whole = std::fs::read(&path).unwrap();
        for i in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[i] ^= 1 << (i % 8);
            std::fs::write(&path, &bytes).unwrap();
            let why = check().expect_err(&format!("byte {i} of {name}"));
            assert!(why.contains(name), "{why}");
        }
        for length in [0, 1, whole.len() / 2, whole.len() - 1] {
            std::fs::write(&path, &whole[..length]).unwrap();
            assert!(check().is_err(), "{length} bytes of {name}");
        }
        std::fs::write(&path, &whole).unwrap();
    }
    check().unwrap();
    std::fs::remove_file(place.join("rank-0001.safetensors")).unwrap();
    assert_eq!(check().unwrap_err(), "rank-0001.safetensors is missing");
}

#[test]
fn another_model_is_refused_by_its_first_difference() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan_of(&[1, 1]);
    let mut session = open(&plan);
    save_to(&mut session, folder.path(), 1);
    session.step(&Arguments::new()).unwrap();
    session.save().unwrap();
    drop(session);
    let (checkpoint, _) = Checkpoint::newest(folder.path()).unwrap();
    let refused = |change: &dyn Fn(&mut Plan)| {
        let mut other = (*plan).clone();
        change(&mut other);
        let d = checkpoint.check(&other).unwrap_err().0.remove(0);
        assert_eq!(d.code, "E0662");
        d.message
    };
    let graph = |p: &mut Plan| p.source.functions[0].inputs[1];
    let shape = refused(&|p| {
        let v = graph(p);
        p.source.functions[0].values[v].ty = f32s(&[7]);
    });
    assert!(shape.contains("arg1") && shape.contains("tensor<6xf32> in it and tensor<7xf32>"), "{shape}");
    let missing = refused(&|p| p.interface.state.truncate(2));
    assert!(missing.contains("arg2") && missing.contains("no state"), "{missing}");
    let other = refused(&|p| p.interface.state[1].1 = 0);
    assert!(other.contains("arg1"), "{other}");
    // Names are compared where both say something.
    let mut named = checkpoint.clone();
    named.manifest.tensors[0].name = "params['w']".into();
    named.check(&plan).unwrap();
    let mut plan = (*plan).clone();
    let w = plan.source.functions[0].inputs[0];
    plan.source.functions[0].values[w].name = "params['b']".into();
    let d = named.check(&plan).unwrap_err();
    assert!(d.0[0].message.contains("params['w'] in it and params['b']"), "{d}");
}

#[test]
fn a_folder_belongs_to_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan_of(&[1, 1]);
    let code = |from: Option<&Checkpoint>| Store::open(folder.path(), 2, from).map(|_| ()).map_err(|e| e.0[0].code.clone());
    {
        let mut session = open(&plan);
        save_to(&mut session, folder.path(), 9);
        assert_eq!(code(None).unwrap_err(), "E0664", "the folder is taken");
        for _ in 0..3 {
            session.step(&Arguments::new()).unwrap();
            session.save().unwrap();
            session.saved(true).unwrap().1.unwrap();
        }
    }
    assert_eq!(code(None).unwrap_err(), "E0663");
    let at = |step: u64| Checkpoint::open(&folder.path().join(format!("step-0000000{step}"))).unwrap();
    assert_eq!(code(Some(&at(2))).unwrap_err(), "E0663", "a whole checkpoint would be lost");
    code(Some(&at(3))).unwrap();
    // A damaged one after the step that is continued from gives its name up.
    std::fs::write(folder.path().join("step-00000003/rank-0000.safetensors"), b"short").unwrap();
    std::fs::create_dir(folder.path().join(".step-00000004.part")).unwrap();
    let (newest, notes) = Checkpoint::newest(folder.path()).unwrap();
    assert_eq!(newest.manifest.step, 2);
    let text = notes.iter().map(ToString::to_string).collect::<String>();
    assert!(text.contains(".step-00000004.part") && text.contains("not finished") && text.contains("rank-0000.safetensors has 5 bytes"), "{text}");
    let (_, notes) = Store::open(folder.path(), 2, Some(&newest)).unwrap();
    assert_eq!(notes[0].code, "N0660");
    assert!(folder.path().join("damaged-step-00000003").exists() && !folder.path().join(".step-00000004.part").exists());
}

/// A rank's memory, without anything that computes.
struct Memory(Vec<u8>);

impl Device for Memory {
    fn arena(&self) -> Region {
        Region { address: self.0.as_ptr().cast_mut(), bytes: self.0.len() }
    }
    fn execute(&mut self, _: Position) -> ir::Result<()> {
        Ok(())
    }
    fn write(&mut self, offset: usize, bytes: &[u8]) {
        self.0[offset..offset + bytes.len()].copy_from_slice(bytes);
    }
    fn read(&self, offset: usize, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self.0[offset..offset + bytes.len()]);
    }
    fn scratch_bytes(&self) -> usize {
        0
    }
}

fn never() -> Failed {
    Box::new(|| false)
}

/// What a process of some ranks does after a step, sharing nothing with the others but the folder.
fn process(plan: &Plan, options: SaveOptions) -> (u64, Result<Saved, Diagnostic>) {
    let ranks = options.ranks.clone();
    let (mut saving, tell) = Saving::new(plan, options).unwrap();
    let parts = saving.begin(1);
    let writers: Vec<RankWriter> = ranks
        .map(|rank| {
            let (program, device) = program_of(&plan.programs, rank).unwrap();
            let mut memory = Memory(vec![0xaa; program.arena.0 as usize]);
            let mut staging = vec![0; 4096];
            for binding in &program.inputs {
                let block = Block::new(program, binding, &Seat::new(program, device, 1)).unwrap();
                block.scatter(Some(&given()[&binding.index].bytes), &mut staging, |offset, bytes| memory.write(offset, bytes));
            }
            let tell = tell.clone();
            let mut writer = RankWriter::new(plan, rank, move |step, part| tell.send((rank, step, part)).unwrap()).unwrap();
            writer.snapshot(&memory, 1, &parts);
            writer
        })
        .collect();
    let outcome = saving.finished(true).unwrap();
    drop(writers);
    outcome
}

#[test]
fn ranks_of_two_processes_make_one_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan_of(&[2, 2]);
    let timeout = Duration::from_secs(60);
    let first = SaveOptions { store: Store::open(folder.path(), 1, None).unwrap().0, ranks: 0..1, timeout, failed: never() };
    let second = SaveOptions { store: Store::join(folder.path()), ranks: 1..4, timeout, failed: never() };
    let told = std::thread::scope(|scope| {
        let threads = [first, second].map(|options| scope.spawn(|| process(&plan, options)));
        threads.map(|t| t.join().unwrap())
    });
    assert!(told.iter().all(|(step, outcome)| *step == 1 && outcome.is_ok()), "{told:?}");
    let (checkpoint, _) = Checkpoint::newest(folder.path()).unwrap();
    let files: Vec<_> = std::fs::read_dir(&checkpoint.folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    assert!(files.iter().all(|f| f == "manifest.json" || f.ends_with(".safetensors")), "{files:?}");
    for (i, t) in given() {
        assert_eq!(checkpoint.tensor(i).unwrap(), *t);
    }
}

#[test]
fn a_rank_that_never_writes_its_part_fails_the_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan_of(&[2, 1]);
    let store = Store::open(folder.path(), 1, None).unwrap().0;
    let (_, outcome) = process(&plan, SaveOptions { store, ranks: 0..1, timeout: Duration::from_secs(2), failed: never() });
    assert!(outcome.unwrap_err().message.contains("rank 1 did not write its part"));
    let store = Store::join(folder.path());
    let (_, outcome) = process(&plan, SaveOptions { store, ranks: 1..2, timeout: Duration::from_secs(2), failed: never() });
    assert!(outcome.unwrap_err().message.contains("the process of rank 0"));
}

/// As when its process was killed: nobody waits out the time that a slow disk would be given.
#[test]
fn a_run_that_failed_waits_for_no_part() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan_of(&[2, 1]);
    let forever = Duration::from_secs(1_000_000);
    for (ranks, store) in [(0..1, Store::open(folder.path(), 1, None).unwrap().0), (1..2, Store::join(folder.path()))] {
        let (_, outcome) = process(&plan, SaveOptions { store, ranks, timeout: forever, failed: Box::new(|| true) });
        let d = outcome.unwrap_err();
        assert!(d.code == "W0660" && d.to_string().contains("the run ends"), "{d}");
    }
}

#[test]
fn a_manifest_is_its_text() {
    let manifest = Manifest::of(&plan_of(&[2, 2]));
    assert_eq!(Manifest::from_text(&manifest.to_text()).unwrap_err(), "arg0 (%arg0) is not complete: 0 of 35 elements are there");
    let later = manifest.to_text().replace("\"format\": 1", "\"format\": 2");
    assert!(Manifest::from_text(&later).unwrap_err().contains("format 2"));
}

#[test]
fn two_stages_that_hold_one_tensor_write_it_once() {
    let programs = vec![stage(0, 0, &[2, 1]).program, stage(1, 2, &[2, 1]).program];
    let mut plan = plan(programs, &types(), &types(), ScheduleKind::GPipe, 1);
    plan.interface = Interface { state: vec![(0, 0), (1, 1), (2, 2)], ..Interface::default() };
    assert!((2..4).all(|rank| shards(&plan, rank).unwrap().is_empty()));
    assert!((0..2).all(|rank| !shards(&plan, rank).unwrap().is_empty()));
}
