//! `iopddl FILE SECONDS`: reads a contest problem (`.json`, plain or gzipped), searches until the time is up or the
//! optimum is proven, tells progress on stderr and prints the choice as the last line of stdout.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use solver::{Options, Outcome, Progress, contest, solve};

fn main() -> ExitCode {
    let begin = Instant::now();
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (path, seconds) = match &args[..] {
        [path, seconds] => match seconds.parse::<f64>() {
            Ok(s) if s > 0.0 && s < 1e8 => (PathBuf::from(path), s),
            _ => return usage(&format!("`{seconds}` is not a number of seconds")),
        },
        _ => return usage("a file and a number of seconds are expected"),
    };
    let mut err = std::io::stderr();
    let problem = match contest::read(&path) {
        Ok(problem) => problem,
        Err(error) => {
            let _ = writeln!(err, "error: {error}");
            return ExitCode::from(2);
        }
    };
    let _ = writeln!(
        err,
        "{:8.2}s read      {} nodes, {} edges, {} moments",
        begin.elapsed().as_secs_f64(),
        problem.nodes.len(),
        problem.edges.len(),
        problem.limits.len()
    );
    // The rest covers lifting, printing and the end of a step under way.
    let reserve = (0.02 * seconds).clamp(0.05, 1.5);
    let progress = move |p: &Progress| {
        let show = |v: Option<i128>| v.map_or_else(|| "-".to_owned(), |v| v.to_string());
        let line = format!("{:8.2}s {:<15} cost {}  bound {}", begin.elapsed().as_secs_f64(), p.phase, show(p.objective), show(p.bound));
        let _ = writeln!(std::io::stderr(), "{line}");
    };
    let options = Options {
        work: u64::MAX / 4,
        deadline: Some(begin + Duration::from_secs_f64(seconds - reserve)),
        threads: std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
        progress: Some(Arc::new(progress)),
        ..Options::default()
    };
    // Whichever comes first: the solver's answer, or the end of the time with the best choice told so far.
    let latest: Arc<Mutex<Option<Vec<u32>>>> = Arc::default();
    let keep = Arc::clone(&latest);
    let options = Options {
        found: Some(Arc::new(move |_, choice: &[u32]| {
            *keep.lock().unwrap_or_else(PoisonError::into_inner) = Some(choice.to_vec());
        })),
        ..options
    };
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::spawn(move || send.send(solve(&problem, &options)));
    let last = Duration::from_secs_f64(seconds - 0.3 * reserve).saturating_sub(begin.elapsed());
    let answer = match receive.recv_timeout(last) {
        Ok(answer) => answer,
        Err(_) => {
            let Some(choice) = latest.lock().unwrap_or_else(PoisonError::into_inner).take() else {
                let _ = writeln!(err, "no solution found in time");
                let _ = writeln!(std::io::stdout(), "[]");
                return ExitCode::from(1);
            };
            let _ = writeln!(err, "{:8.2}s the time is up", begin.elapsed().as_secs_f64());
            return print(&choice);
        }
    };
    let solved = match answer {
        Ok(Outcome::Solved(solved)) => solved,
        Ok(Outcome::Infeasible(core)) => {
            let _ = writeln!(err, "no solution: {} nodes cannot hold together within {} moments", core.nodes.len(), core.moments.len());
            if let Some(limit) = core.limit {
                let _ = writeln!(err, "a solution is known for a limit of {limit}");
            }
            let _ = writeln!(std::io::stdout(), "[]");
            return ExitCode::from(1);
        }
        Ok(Outcome::Unknown { bound, .. }) => {
            let _ = writeln!(err, "no solution found in time; bound {bound:?}");
            let _ = writeln!(std::io::stdout(), "[]");
            return ExitCode::from(1);
        }
        Err(error) => {
            let _ = writeln!(err, "error: {error}");
            return ExitCode::from(2);
        }
    };
    let _ = writeln!(
        err,
        "{:8.2}s {:?} cost {} bound {} gap {:.4}%",
        begin.elapsed().as_secs_f64(),
        solved.status,
        solved.objective,
        solved.bound,
        100.0 * solved.gap
    );
    print(&solved.choice)
}

fn print(choice: &[u32]) -> ExitCode {
    let list: Vec<String> = choice.iter().map(u32::to_string).collect();
    match writeln!(std::io::stdout(), "[{}]", list.join(", ")) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(1),
    }
}

fn usage(problem: &str) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "error: {problem}\nusage: iopddl FILE SECONDS");
    ExitCode::from(2)
}
