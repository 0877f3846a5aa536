//! What a launcher says of this process by environment variables: which one of how many it is, and where rank 0 can be met.
//!
//! Nothing is guessed: variables that are set by half or make no sense are refused by name. Of several launchers the innermost counts (torchrun inside srun).

use ir::Diagnostic;

/// Who started this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launcher {
    /// `shardwright run -n`.
    Ours,
    /// torchrun, or whoever sets its variables.
    Torch,
    /// Open MPI's mpirun.
    OpenMpi,
    /// Another MPI's launcher (MPICH, Intel).
    Pmi,
    /// Slurm's srun.
    Slurm,
}

impl Launcher {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Launcher::Ours => "run -n",
            Launcher::Torch => "torchrun's variables",
            Launcher::OpenMpi => "mpirun (Open MPI)",
            Launcher::Pmi => "an MPI launcher (PMI)",
            Launcher::Slurm => "srun",
        }
    }
    /// Whether it is one of MPI's.
    pub fn is_mpi(self) -> bool {
        matches!(self, Launcher::OpenMpi | Launcher::Pmi)
    }
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Who started this process.
    pub launcher: Launcher,
    /// Its number.
    pub process: u32,
    /// How many there are.
    pub processes: u32,
    /// Whether all of them are on this host, where the launcher says so.
    pub one_host: bool,
    /// Where rank 0 listens, as `host:port`, where the launcher says so.
    pub rendezvous: Option<String>,
    /// What names the job on this host.
    pub job: String,
}

/// The variables of our own launcher.
pub mod ours {
    /// The process's number.
    pub const PROCESS: &str = "SHARDWRIGHT_PROCESS";
    /// How many.
    pub const PROCESSES: &str = "SHARDWRIGHT_PROCESSES";
    /// `host:port`.
    pub const RENDEZVOUS: &str = "SHARDWRIGHT_RENDEZVOUS";
    /// The socket that rank 0's process inherits.
    pub const LISTENER: &str = "SHARDWRIGHT_LISTENER";
    /// The secret, of every launcher.
    pub const SECRET: &str = "SHARDWRIGHT_SECRET";
}

/// Looks for a launcher in the variables that `variable` gives; `parent` is the parent process's number.
///
/// # Errors
/// `E0650` when a launcher's variables are set by half or make no sense.
pub fn detect(variable: &dyn Fn(&str) -> Option<String>, parent: u32) -> Result<Option<Found>, Diagnostic> {
    let look = Look { variable };
    let job = |names: &[&str]| names.iter().find_map(|n| variable(n)).unwrap_or_else(|| format!("parent {parent}"));
    if let Some((process, processes)) = look.pair(&[ours::PROCESS], &[ours::PROCESSES])? {
        let rendezvous = Some(look.needed(ours::RENDEZVOUS, ours::PROCESS)?);
        return Ok(Some(Found { launcher: Launcher::Ours, process, processes, one_host: true, rendezvous, job: String::new() }));
    }
    let master = look.master()?;
    if let Some((process, processes)) = look.pair(&["RANK"], &["WORLD_SIZE"])? {
        let rendezvous = match master {
            Some(m) => m,
            None => return Err(look.half("RANK", "MASTER_ADDR")),
        };
        if let Some(local) = look.number("LOCAL_RANK")?
            && local > process
        {
            return Err(nonsense(format!("LOCAL_RANK is {local} and RANK is {process}: a rank on one host is not above that of all")));
        }
        let one_host = look.number("LOCAL_WORLD_SIZE")? == Some(processes);
        // The address names the job; processes started by hand have different parents.
        let job = format!("{} {rendezvous}", variable("TORCHELASTIC_RUN_ID").unwrap_or_default());
        return Ok(Some(Found { launcher: Launcher::Torch, process, processes, one_host, rendezvous: Some(rendezvous), job }));
    }
    let ranks = ["OMPI_COMM_WORLD_RANK"];
    if let Some((process, processes)) = look.pair(&ranks, &["OMPI_COMM_WORLD_SIZE"])? {
        let one_host = look.number("OMPI_COMM_WORLD_LOCAL_SIZE")? == Some(processes);
        let job = job(&["PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"]);
        return Ok(Some(Found { launcher: Launcher::OpenMpi, process, processes, one_host, rendezvous: master, job }));
    }
    if let Some((process, processes)) = look.pair(&["PMI_RANK"], &["PMI_SIZE"])? {
        let local = look.number("MPI_LOCALNRANKS")?.or(look.number("PMI_LOCAL_SIZE")?);
        let job = job(&["PMI_JOBID", "PMI_ID_JOB"]);
        return Ok(Some(Found { launcher: Launcher::Pmi, process, processes, one_host: local == Some(processes), rendezvous: master, job }));
    }
    // A batch script has a task number too; only inside a step do the others exist.
    let in_step = variable("SLURM_STEP_NODELIST").or(variable("SLURM_STEP_NUM_TASKS")).is_some() || variable("SLURM_STEP_ID").is_some();
    if in_step && let Some((process, processes)) = look.pair(&["SLURM_PROCID"], &["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"])? {
        if let (Some(node), Some(nodes)) = (look.number("SLURM_NODEID")?, look.number("SLURM_STEP_NUM_NODES")?.or(look.number("SLURM_NNODES")?))
            && node >= nodes
        {
            return Err(nonsense(format!("SLURM_NODEID is {node} and there are {nodes} nodes, which count from 0")));
        }
        let nodes = variable("SLURM_STEP_NODELIST").or(variable("SLURM_NODELIST"));
        let first = match &nodes {
            Some(list) => Some(first_host(list).ok_or_else(|| nonsense(format!("SLURM_STEP_NODELIST={list} is no list of hosts")))?),
            None => None,
        };
        let count = look.number("SLURM_STEP_NUM_NODES")?.or(look.number("SLURM_NNODES")?);
        let one_host = count == Some(1);
        let job = format!("{}.{}", variable("SLURM_JOB_ID").unwrap_or_default(), variable("SLURM_STEP_ID").unwrap_or_default());
        // Every task can work out the same port; the first task of a step runs on its first host.
        let port = 20_000 + u32::from_le_bytes(blake3::hash(job.as_bytes()).as_bytes()[..4].try_into().expect("invariant: four bytes")) % 12_000;
        let rendezvous = master.or(first.filter(|_| !one_host).map(|host| format!("{host}:{port}")));
        return Ok(Some(Found { launcher: Launcher::Slurm, process, processes, one_host, rendezvous, job }));
    }
    Ok(None)
}

/// The first host of Slurm's short form: `node[03-07,9],gpu1` gives `node03`.
fn first_host(list: &str) -> Option<String> {
    let name = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_'));
    match list.find(['[', ',']) {
        Some(at) if list.as_bytes()[at] == b'[' => {
            let inside = list[at + 1..].split(']').next().filter(|_| list[at..].contains(']'))?;
            let number = inside.split([',', '-']).next().filter(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))?;
            let after = list[at..].split_once(']')?.1.split(',').next().unwrap_or("");
            let host = format!("{}{number}{after}", &list[..at]);
            name(&host).then_some(host)
        }
        Some(at) => name(&list[..at]).then(|| list[..at].to_string()),
        None => name(list).then(|| list.to_string()),
    }
}

struct Look<'a> {
    variable: &'a dyn Fn(&str) -> Option<String>,
}

impl Look<'_> {
    fn number(&self, name: &str) -> Result<Option<u32>, Diagnostic> {
        let Some(text) = (self.variable)(name) else { return Ok(None) };
        let number = text.trim().parse().map_err(|_| nonsense(format!("{name}={text} is no number")))?;
        Ok(Some(number))
    }
    /// A rank and how many there are, each by the first of its names that is set.
    fn pair(&self, ranks: &[&str], sizes: &[&str]) -> Result<Option<(u32, u32)>, Diagnostic> {
        let first = |names: &[&str]| names.iter().find(|n| (self.variable)(n).is_some()).map(ToString::to_string);
        match (first(ranks), first(sizes)) {
            (None, None) => Ok(None),
            (Some(rank), None) => Err(self.half(&rank, sizes[0])),
            (None, Some(size)) => Err(self.half(&size, ranks[0])),
            (Some(rank), Some(size)) => {
                let (Some(r), Some(n)) = (self.number(&rank)?, self.number(&size)?) else { return Ok(None) };
                if r >= n {
                    return Err(nonsense(format!("{rank} is {r} and {size} is {n}: ranks count from 0 to one less than their number")));
                }
                Ok(Some((r, n)))
            }
        }
    }
    fn needed(&self, name: &str, because: &str) -> Result<String, Diagnostic> {
        (self.variable)(name).ok_or_else(|| self.half(because, name))
    }
    fn half(&self, set: &str, missing: &str) -> Diagnostic {
        let value = (self.variable)(set).unwrap_or_default();
        nonsense(format!("{set}={value} is set and {missing} is not"))
    }
    /// `MASTER_ADDR:MASTER_PORT`, which other launchers' users set too.
    fn master(&self) -> Result<Option<String>, Diagnostic> {
        match ((self.variable)("MASTER_ADDR"), (self.variable)("MASTER_PORT")) {
            (Some(host), Some(port)) => match port.trim().parse::<u16>() {
                Ok(1..) if !host.trim().is_empty() => Ok(Some(format!("{}:{}", bracketed(host.trim()), port.trim()))),
                _ => Err(nonsense(format!("MASTER_ADDR={host} with MASTER_PORT={port} is no address"))),
            },
            (Some(_), None) if (self.variable)("RANK").is_some() => Err(self.half("MASTER_ADDR", "MASTER_PORT")),
            (None, Some(_)) if (self.variable)("RANK").is_some() => Err(self.half("MASTER_PORT", "MASTER_ADDR")),
            _ => Ok(None),
        }
    }
}

/// An IPv6 address as it is written before a port.
fn bracketed(host: &str) -> String {
    if host.contains(':') && !host.starts_with('[') { format!("[{host}]") } else { host.to_string() }
}

fn nonsense(what: String) -> Diagnostic {
    Diagnostic::input("E0650", format!("the launcher's variables make no sense: {what}"))
        .with_help("start all ranks with the same launcher, or remove these variables to run all ranks in this process")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Result<Option<Found>, Diagnostic> {
        detect(&|name| variables.iter().find(|(n, _)| *n == name).map(|(_, v)| v.to_string()), 7)
    }

    #[test]
    fn launchers_are_told_apart() {
        let torch = [("RANK", "1"), ("WORLD_SIZE", "4"), ("LOCAL_RANK", "1"), ("MASTER_ADDR", "::1"), ("MASTER_PORT", "29500")];
        let found = of(&torch).unwrap().unwrap();
        assert_eq!((found.launcher, found.process, found.processes, found.rendezvous.as_deref()), (Launcher::Torch, 1, 4, Some("[::1]:29500")));
        let slurm = [
            ("SLURM_PROCID", "5"),
            ("SLURM_NTASKS", "8"),
            ("SLURM_NODEID", "1"),
            ("SLURM_NNODES", "2"),
            ("SLURM_STEP_NODELIST", "gpu[07-08,11]"),
            ("SLURM_JOB_ID", "42"),
            ("SLURM_STEP_ID", "0"),
        ];
        let found = of(&slurm).unwrap().unwrap();
        assert_eq!((found.launcher, found.process, found.processes), (Launcher::Slurm, 5, 8));
        assert!(found.rendezvous.unwrap().starts_with("gpu07:"));
        let both: Vec<_> = slurm.iter().chain(&torch).copied().collect();
        assert_eq!(of(&both).unwrap().unwrap().launcher, Launcher::Torch, "the innermost counts");
        let found = of(&[("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "2"), ("OMPI_COMM_WORLD_LOCAL_SIZE", "2")]).unwrap().unwrap();
        assert_eq!((found.launcher, found.one_host, found.job.as_str()), (Launcher::OpenMpi, true, "parent 7"));
        assert_eq!(of(&[("PMI_RANK", "1"), ("PMI_SIZE", "2")]).unwrap().unwrap().launcher, Launcher::Pmi);
        // A batch script outside any step, and a shell with an address that nobody asked for.
        assert_eq!(of(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "8"), ("MASTER_ADDR", "here")]).unwrap(), None);
    }

    #[test]
    fn half_of_the_variables_is_refused_by_name() {
        for (variables, says) in [
            (vec![("RANK", "1")], "WORLD_SIZE is not"),
            (vec![("RANK", "1"), ("WORLD_SIZE", "2")], "MASTER_ADDR is not"),
            (vec![("RANK", "1"), ("WORLD_SIZE", "2"), ("MASTER_ADDR", "a")], "MASTER_PORT is not"),
            (vec![("RANK", "1"), ("WORLD_SIZE", "2"), ("MASTER_ADDR", "a"), ("MASTER_PORT", "99999")], "no address"),
            (vec![("RANK", "4"), ("WORLD_SIZE", "4"), ("MASTER_ADDR", "a"), ("MASTER_PORT", "1")], "RANK is 4"),
            (vec![("OMPI_COMM_WORLD_RANK", "x"), ("OMPI_COMM_WORLD_SIZE", "2")], "OMPI_COMM_WORLD_RANK=x"),
            (vec![("OMPI_COMM_WORLD_SIZE", "2")], "OMPI_COMM_WORLD_RANK is not"),
            (vec![("SLURM_PROCID", "0"), ("SLURM_NTASKS", "2"), ("SLURM_STEP_NODELIST", "[]")], "no list of hosts"),
        ] {
            let d = of(&variables).unwrap_err();
            assert!(d.code == "E0650" && d.message.contains(says), "{variables:?}: {d}");
        }
    }

    #[test]
    fn the_first_host_of_a_short_list() {
        for (list, host) in [("a1,b2", "a1"), ("n[3,5]", "n3"), ("n[01-04]x.y,z", "n01x.y"), ("solo", "solo")] {
            assert_eq!(first_host(list).as_deref(), Some(host));
        }
        for list in ["", "[", "n[", "n[a]", "a b"] {
            assert_eq!(first_host(list), None, "{list}");
        }
    }
}
