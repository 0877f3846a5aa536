//! The contest's JSON, plain or gzipped.
//!
//! Times run far past the number of distinct events, so they are renumbered: a moment is a maximal run of times in
//! which the same nodes are live.

use std::io::Read;
use std::path::Path;

use serde::Deserialize;

use crate::problem::{Problem, ProblemError};

/// Why a file could not be read as a problem.
#[derive(Debug, thiserror::Error)]
pub enum ContestError {
    /// The file could not be opened or read.
    #[error("cannot read {path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// What went wrong.
        source: std::io::Error,
    },
    /// The text is not the contest's JSON.
    #[error("{path} is not a contest problem: {source}")]
    Json {
        /// The file.
        path: String,
        /// What went wrong.
        source: serde_json::Error,
    },
    /// The lists of nodes, intervals, usages and costs do not fit each other.
    #[error("{0}")]
    Shape(String),
    /// The tables do not fit the nodes.
    #[error(transparent)]
    Problem(#[from] ProblemError),
}

#[derive(Deserialize)]
struct File {
    problem: Contest,
}

#[derive(Deserialize)]
struct Contest {
    nodes: Nodes,
    edges: Edges,
    usage_limit: Option<i64>,
}

#[derive(Deserialize)]
struct Nodes {
    intervals: Vec<[i64; 2]>,
    costs: Vec<Vec<i64>>,
    usages: Vec<Vec<i64>>,
}

#[derive(Deserialize)]
struct Edges {
    nodes: Vec<[u32; 2]>,
    costs: Vec<Vec<i64>>,
}

/// Reads a problem file; gzip is told by its first two bytes.
pub fn read(path: &Path) -> Result<Problem, ContestError> {
    let io = |source| ContestError::Io { path: path.display().to_string(), source };
    let bytes = std::fs::read(path).map_err(io)?;
    let text = if bytes.starts_with(&[0x1f, 0x8b]) {
        let mut out = Vec::new();
        flate2::read::MultiGzDecoder::new(&bytes[..]).read_to_end(&mut out).map_err(io)?;
        out
    } else {
        bytes
    };
    let json = |source| ContestError::Json { path: path.display().to_string(), source };
    let file: File = serde_json::from_slice(&text).map_err(json)?;
    convert(file.problem)
}

fn convert(contest: Contest) -> Result<Problem, ContestError> {
    let Contest { nodes, edges, usage_limit } = contest;
    let n = nodes.costs.len();
    if nodes.intervals.len() != n || nodes.usages.len() != n {
        let (i, u) = (nodes.intervals.len(), nodes.usages.len());
        return Err(ContestError::Shape(format!("{n} nodes have costs, {i} intervals, {u} usages")));
    }
    if edges.nodes.len() != edges.costs.len() {
        let (e, c) = (edges.nodes.len(), edges.costs.len());
        return Err(ContestError::Shape(format!("{e} edges have {c} cost tables")));
    }
    let mut problem = Problem::default();
    for costs in nodes.costs {
        problem.add_node(costs);
    }
    for ([a, b], costs) in edges.nodes.into_iter().zip(edges.costs) {
        if a == b && (a as usize) < n {
            // An edge from a node to itself is a node cost.
            let k = problem.nodes[a as usize].costs.len();
            if costs.len() == k * k {
                for (s, c) in problem.nodes[a as usize].costs.iter_mut().enumerate() {
                    *c = c.saturating_add(costs[s * k + s]);
                }
                continue;
            }
        }
        problem.add_edge(a, b, costs);
    }
    if let Some(limit) = usage_limit {
        let mut times: Vec<i64> = nodes.intervals.iter().filter(|i| i[0] < i[1]).flatten().copied().collect();
        times.sort_unstable();
        times.dedup();
        problem.limits = vec![limit; times.len().saturating_sub(1)];
        let moment = |t: i64| times.partition_point(|&x| x < t) as u32;
        for (k, (&[lo, hi], usage)) in nodes.intervals.iter().zip(nodes.usages).enumerate() {
            if lo < hi {
                problem.add_usage(k as u32, moment(lo), moment(hi), usage);
            }
        }
    }
    problem.check()?;
    Ok(problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"{"problem": {"name": "small", "nodes": {"intervals": [[0, 9], [3, 3], [5, 7]],
        "costs": [[4, 1], [2, 2], [0, 3]], "usages": [[1, 6], [9, 9], [5, 1]]},
        "edges": {"nodes": [[0, 1], [1, 2], [1, 0]], "costs": [[0, 5, 5, 0], [1, 2, 3, 4], [0, 0, 1000000000000000000, 7]]},
        "usage_limit": 7}}"#;

    #[test]
    fn reads_plain_and_gzipped() {
        let folder = std::env::temp_dir().join(format!("iopddl-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for the test");
        let (plain, packed) = (folder.join("small.json"), folder.join("small.json.gz"));
        std::fs::write(&plain, SMALL).expect("written");
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut encoder, SMALL.as_bytes()).expect("packed");
        std::fs::write(&packed, encoder.finish().expect("packed")).expect("written");
        let problem = read(&plain).expect("well formed");
        assert_eq!(problem, read(&packed).expect("well formed"));
        // Times 0, 5, 7, 9: three moments; the empty interval uses nothing.
        assert_eq!(problem.limits, vec![7, 7, 7]);
        assert_eq!(problem.usages.len(), 2);
        let solved = crate::solve(&problem, &crate::Options::default()).expect("well formed");
        let solution = solved.solution().expect("feasible");
        assert_eq!((solution.choice.clone(), solution.objective), (vec![0, 0, 0], 7));
        std::fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn refuses_lists_that_do_not_fit() {
        let text = SMALL.replace("\"costs\": [[4, 1], [2, 2], [0, 3]]", "\"costs\": [[4, 1], [2, 2]]");
        let file: File = serde_json::from_str(&text).expect("JSON");
        assert!(matches!(convert(file.problem), Err(ContestError::Shape(_))));
        let text = SMALL.replace("[1, 2, 3, 4]", "[1, 2, 3]");
        let file: File = serde_json::from_str(&text).expect("JSON");
        assert!(matches!(convert(file.problem), Err(ContestError::Problem(ProblemError::BadLength { .. }))));
    }
}
