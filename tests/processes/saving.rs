//! Checkpoints of runs in several processes: killed at any moment, on a full disk, damaged, and continued under other plans.

use crate::{PATIENCE, Running, broken, bury, comes_to, done, exists, lines, passing_files, plan, processes_of, run, signal, timeless};
use runtime::checkpoint::store::{checkpoints, unfinished};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

fn saved_steps(folder: &Path) -> Vec<u64> {
    checkpoints(folder).unwrap_or_default().into_iter().map(|c| c.0).collect()
}

/// Killed when the victim's own record says that it is at a given step and communication: a rank, or the one that started them all.
#[test]
fn a_run_that_is_killed_at_any_moment_says_it_leaves_nothing_and_continues() {
    const SEEDS: u32 = 20;
    const EVERY: u64 = 3;
    const LAUNCHER: u32 = 4;
    // As JSON losses have all their digits; as text errors have their form.
    let reference = timeless(&lines(plan(0), &["--json", "--steps", "40"]));
    let shown = lines(plan(0), &["--steps", "40"]);
    let (next, resumed) = (AtomicU32::new(0), AtomicU32::new(0));
    let moment = |seed: u32| {
        let mut state = u64::from(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let (victim, at) = (random(5) as u32, (1 + random(12), random(50)));
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        std::fs::create_dir(path("tmp")).expect("made");
        let (saved, logs, every) = (path("ckpt").display().to_string(), path("logs").display().to_string(), EVERY.to_string());
        let keeping = ["-n", "4", "--save", &saved, "--save-every", &every];
        let mut command = run(plan(0), &[&keeping[..], &["--steps", "100000", "--log-dir", &logs, "--fault-timeout", "20"]].concat());
        let running = Running::start({
            command.env("TMPDIR", path("tmp"));
            command
        });
        assert!(comes_to(&path("logs"), victim % LAUNCHER, at), "seed {seed}: step {} within {PATIENCE:?}", at.0);
        let pids = processes_of(running.child.id());
        let passing: Vec<PathBuf> = pids.iter().flat_map(|p| passing_files(*p, &path("tmp"))).collect();
        signal(if victim == LAUNCHER { running.child.id() } else { pids[victim as usize] }, "KILL");
        let (ended, took) = running.end(Vec::new());
        let context = format!("seed {seed}, {victim} at {at:?}: {}", ended.told);
        assert!(took < Duration::from_secs(60), "{took:?}: {context}");
        if victim == LAUNCHER {
            bury(&pids);
        } else {
            assert_eq!(ended.code, 1, "{context}");
            let named = if victim == 0 { "E0684]: the process of rank 0 was killed by signal 9".to_string() } else { format!("E0680]: rank {victim} died") };
            assert!(ended.told.contains(&named), "{context}");
            assert_eq!(ended.told.matches("error[").count(), 1, "one message: {context}");
            assert!(ended.told.contains("was waiting") || ended.told.contains("was not waiting"), "{context}");
            assert!(pids.iter().all(|p| !exists(*p)), "nothing is left behind: {context}");
            let flight = Command::new(env!("CARGO_BIN_EXE_shardwright")).args(["flight", &logs]).output().expect("it runs");
            let text = String::from_utf8_lossy(&flight.stdout).into_owned();
            assert!(flight.status.success() && text.contains(&format!("rank {victim} (stage 0, ended without a word)")), "{text}");
        }
        assert!(passing.iter().all(|p| !p.exists()), "{passing:?}");
        assert_eq!(std::fs::read_dir(path("tmp")).expect("a folder").count(), 0, "no temporary file is left: {context}");
        // What was told is the unbroken run's, and at most so many of these steps are in no checkpoint.
        let told = &ended.lines;
        assert!(told.len() < shown.len() && *told == shown[..told.len()], "{context}");
        let newest = saved_steps(Path::new(&saved)).first().copied().unwrap_or(0);
        assert!((told.len() as u64).saturating_sub(newest) <= EVERY, "{} steps, saved {newest}: {context}", told.len());
        if newest > 0 {
            resumed.fetch_add(1, Ordering::SeqCst);
            let upto = newest as usize + 2;
            let rest = lines(plan(0), &[&keeping[..], &["--json", "--steps", &upto.to_string(), "--resume", &saved]].concat());
            assert_eq!(timeless(&rest), reference[newest as usize..upto], "{context}");
            assert!(unfinished(Path::new(&saved)).expect("a folder").is_empty(), "{context}");
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from).min(3) {
            scope.spawn(|| {
                while let Some(seed) = Some(next.fetch_add(1, Ordering::SeqCst)).filter(|n| *n < SEEDS) {
                    moment(seed);
                }
            });
        }
    });
    let resumed = resumed.into_inner();
    assert!(resumed >= SEEDS / 2, "most had a checkpoint to continue from: {resumed}");
}

/// A rank that dies while its part of a checkpoint is awaited: nobody waits for that part.
#[test]
fn a_rank_that_dies_while_all_wait_for_its_part_is_told_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let saved = folder.path().join("ckpt").display().to_string();
    // Every step is saved, so that at nearly every moment a part is awaited.
    for (victim, after) in [(1, 1), (2, 3), (3, 6)] {
        let place = format!("{saved}-{victim}");
        let (ended, pids, took) = broken(plan(2), &["--save", &place, "--save-every", "1", "--fault-timeout", "20"], victim, after, "KILL");
        assert!(ended.code == 1 && ended.told.contains(&format!("E0680]: rank {victim} died")), "{}", ended.told);
        assert!(took < Duration::from_secs(20), "{took:?}: {}", ended.told);
        assert!(pids.iter().all(|p| !exists(*p)));
    }
}

#[test]
fn a_full_disk_is_told_by_the_processes_and_harms_no_earlier_checkpoint() {
    let folder = tempfile::tempdir().expect("a folder");
    let saved = folder.path().join("ckpt").display().to_string();
    let expected = lines(plan(2), &["--steps", "6"]);
    let begun = lines(plan(2), &["-n", "4", "--steps", "2", "--save", &saved, "--save-every", "1"]);
    assert_eq!(begun, expected[..2]);
    let size = |step: &str| -> u64 {
        let entries = std::fs::read_dir(Path::new(&saved).join(step)).expect("a folder");
        entries.map(|e| e.expect("an entry").metadata().expect("known").len().next_multiple_of(4096)).sum()
    };
    let disk = folder.path().join("disk");
    std::fs::create_dir(&disk).expect("made");
    // Room for the two checkpoints that are there and half of a third.
    let options = format!("size={}", size("step-00000001") + size("step-00000002") * 3 / 2 + 4 * 4096);
    if !Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(&disk).output().is_ok_and(|o| o.status.success()) {
        eprintln!("left out: no file system may be mounted here");
        return;
    }
    let on_disk = disk.join("ckpt").display().to_string();
    let checked = std::panic::catch_unwind(|| {
        assert!(Command::new("cp").args(["-r", &saved, &on_disk]).status().is_ok_and(|s| s.success()));
        let all = ["-n", "4", "--steps", "5", "--save", &on_disk, "--save-every", "1", "--keep", "9", "--resume", &on_disk];
        let ended = done(run(plan(2), &all));
        assert_eq!((ended.code, ended.lines.as_slice()), (1, &expected[2..5]), "training goes on: {}", ended.told);
        assert!(ended.told.contains("W0660") && ended.told.contains("No space left") && ended.told.contains("E0665"), "{}", ended.told);
        assert_eq!(saved_steps(Path::new(&on_disk)), [2, 1], "{}", ended.told);
        assert!(unfinished(Path::new(&on_disk)).expect("a folder").is_empty(), "what was written of a third is removed");
        let rest = lines(plan(2), &["-n", "4", "--steps", "6", "--resume", &on_disk]);
        assert_eq!(rest, expected[2..]);
    });
    let unmounted = Command::new("umount").arg(&disk).status();
    assert!(unmounted.is_ok_and(|s| s.success()));
    checked.unwrap_or_else(|e| std::panic::resume_unwind(e));
}

#[test]
fn a_flipped_byte_in_a_shard_is_passed_over_by_all_processes() {
    let folder = tempfile::tempdir().expect("a folder");
    let saved = folder.path().join("ckpt").display().to_string();
    let whole = timeless(&lines(plan(0), &["-n", "4", "--json", "--steps", "4", "--save", &saved, "--save-every", "2"]));
    assert_eq!(saved_steps(Path::new(&saved)), [4, 2]);
    let shard = Path::new(&saved).join("step-00000004/rank-0002.safetensors");
    let mut bytes = std::fs::read(&shard).expect("rank 2 writes");
    let last = bytes.len() - 5;
    bytes[last] ^= 1;
    std::fs::write(&shard, bytes).expect("written");
    let rest = lines(plan(0), &["-n", "4", "--json", "--steps", "4", "--resume", &saved]);
    assert_eq!(timeless(&rest), whole[2..]);
    let ended = done(run(plan(0), &["-n", "4", "--steps", "4", "--resume", &saved]));
    assert_eq!((ended.code, ended.lines.len()), (0, 2), "{}", ended.told);
    assert!(ended.told.contains("W0661") && ended.told.contains("rank-0002.safetensors is damaged") && ended.told.contains("Resumed step 2"), "{}", ended.told);
    assert_eq!(ended.told.matches("W0661").count(), 1, "one process says it: {}", ended.told);
}

/// Another mesh, other stages, another number of devices, one after the other in one folder.
#[test]
fn a_run_continues_under_four_plans_with_their_processes() {
    let folder = tempfile::tempdir().expect("a folder");
    let saved = folder.path().join("ckpt").display().to_string();
    let loss = |line: &String| -> f64 {
        let value: serde_json::Value = serde_json::from_str(line).expect("JSON");
        value["outputs"].as_object().expect("outputs").values().next().expect("a loss").as_f64().expect("a number")
    };
    let expected: Vec<f64> = lines(plan(2), &["--json", "--steps", "10"]).iter().map(loss).collect();
    let mut got: Vec<f64> = Vec::new();
    for (number, processes) in [(2, "4"), (0, "4"), (3, "2"), (1, "2"), (2, "4")] {
        let steps = (got.len() + 2).to_string();
        let mut flags = vec!["-n", processes, "--json", "--steps", &steps, "--save", &saved, "--save-every", "2"];
        if !got.is_empty() {
            flags.extend(["--resume", &saved]);
        }
        let ended = done(run(plan(number), &flags));
        assert_eq!((ended.code, ended.lines.len()), (0, 2), "plan {number}: {}", ended.told);
        got.extend(ended.lines.iter().map(loss));
    }
    for (got, want) in got.iter().zip(&expected) {
        assert!((got - want).abs() <= 1e-4 * want.abs(), "{got} and {want}");
    }
    assert_eq!(got.len(), expected.len());
    assert_eq!(got[..2], expected[..2], "the first plan is the unbroken run's own");
}
