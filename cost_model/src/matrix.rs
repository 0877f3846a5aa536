//! The topology of a node as `nvidia-smi topo -m` draws it: written for a cluster, read into a cluster file.
//!
//! Notation: `X` self, `NV#` so many NVLinks, `PIX`, `PXB`, `PHB`, `NODE`, `SYS` ever longer ways over PCI Express and the host.
//! Reading is forgiving about colours, affinity columns and legends, and strict about the matrix: square and symmetric, or it is refused.

use crate::catalogue;
use crate::cluster::Cluster;
use ir::diagnostic::{Span, nearest};
use ir::{Diagnostic, Result};
use std::fmt::Write;

/// Nodes of more devices are told in words.
const MOST_DRAWN: u32 = 16;
/// More links than a device has: a sum of pairs beyond it means that they go through switches.
const MOST_LINKS: u32 = 18;

/// The matrix of one node.
pub(crate) fn draw(cluster: &Cluster) -> String {
    let (n, adapters) = (cluster.devices_per_node, cluster.inter.adapters);
    let nics = if cluster.nodes > 1 { adapters.min(MOST_DRAWN) } else { 0 };
    if n > MOST_DRAWN {
        return format!("{n} devices a node, each joined to each: {}\n", cell(cluster, 0, 1));
    }
    let mut text = String::from("      ");
    let columns = (0..n).map(|i| format!("GPU{i}")).chain((0..nics).map(|i| format!("NIC{i}")));
    columns.for_each(|c| text += &format!(" {c:<5}"));
    text = text.trim_end().to_string() + "\n";
    for i in 0..n {
        let mut line = format!("{:<6}", format!("GPU{i}"));
        (0..n).for_each(|j| line += &format!(" {:<5}", cell(cluster, i, j)));
        for nic in 0..nics {
            // The adapters of the device's own rail are near it.
            let own = if adapters >= n { nic * n / adapters == i } else { i * adapters / n == nic };
            line += &format!(" {:<5}", if own { "PXB" } else { "SYS" });
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

fn cell(cluster: &Cluster, i: u32, j: u32) -> String {
    let link = &cluster.intra;
    if i == j {
        return " X".into();
    }
    match &link.pairs {
        Some(pairs) => match pairs.links()[i as usize][j as usize] {
            0 => "SYS".into(),
            n => format!("NV{n}"),
        },
        // Links of 25 GB/s up to the fourth generation, of 50 from the fifth.
        None if link.name.starts_with("NVLink") => {
            let one = if link.bandwidth.0 > 500e9 { 50e9 } else { 25e9 };
            format!("NV{}", (link.bandwidth.0 / one).round())
        }
        None if link.name.starts_with("PCIe") => "NODE".into(),
        None => "SYS".into(),
    }
}

/// What a pasted matrix says.
struct Matrix {
    /// NVLinks from each device to each.
    links: Vec<Vec<u32>>,
    adapters: u32,
}

/// Reads a pasted matrix and writes the cluster file of `nodes` such nodes, whose devices are `device` or what the links suggest.
///
/// # Errors
/// `E0309` when there is no matrix or it is damaged; `E0308` for an unknown device.
pub fn import_topology(file: &str, text: &str, device: Option<&str>, nodes: u32) -> Result<String> {
    if let Some(name) = device.filter(|name| catalogue::device(name).is_none()) {
        let help = match nearest(name, catalogue::device_presets()) {
            Some(k) => format!("did you mean `{k}`?"),
            None => format!("known are {}", catalogue::device_presets().collect::<Vec<_>>().join(", ")),
        };
        return Err(Diagnostic::input("E0308", format!("`{name}` is not a known device")).with_help(help).into());
    }
    let matrix = read(file, text)?;
    let n = matrix.links.len() as u32;
    let first = matrix.links[0].get(1).copied().unwrap_or(0);
    let equal = (0..n as usize).all(|i| (0..n as usize).all(|j| i == j || matrix.links[i][j] == first));
    let switched = equal && first * n.saturating_sub(1) > MOST_LINKS;
    let most = if switched { first } else { matrix.links.iter().map(|r| r.iter().sum()).max().unwrap_or(0) };
    // Links of a device by generation: 6, 12, 18.
    let (base, guess) = match most {
        0 => ("a100-pcie", "A100-PCIe-80GB"),
        1..=6 => ("dgx-1", "V100-SXM2-16GB"),
        7..=12 => ("dgx-a100", "A100-SXM-80GB"),
        _ => ("dgx-h100", "H100-SXM-80GB"),
    };
    let mut out = String::from("# From the output of `nvidia-smi topo -m` on one node.\n");
    if device.is_none() {
        out += "# The matrix does not name the devices: these have as many links. Correct `device` if they are others.\n";
    }
    let _ = write!(out, "base = \"{base}:1\"\nnodes = {nodes}\ndevices_per_node = {n}\ndevice = \"{}\"\n", device.unwrap_or(guess));
    if most > 0 {
        out += "\n[link]\n";
        if switched {
            out += "switched = true\n";
        } else {
            let row = |r: &Vec<u32>| format!("    [{}],\n", r.iter().map(u32::to_string).collect::<Vec<_>>().join(", "));
            // Links of 25 GB/s, as all that are wired without switches have been.
            let _ = write!(
                out,
                "bandwidth = {:e}\nin_switch_reduction = false\npairs = [\n{}]\n",
                25e9 * f64::from(most),
                matrix.links.iter().map(row).collect::<String>()
            );
        }
    }
    if matrix.adapters > 0 {
        let _ = write!(out, "\n[network]\nadapters = {}\n", matrix.adapters);
    }
    Ok(out)
}

fn read(file: &str, text: &str) -> Result<Matrix> {
    let plain = without_colours(text);
    let fault = |line: usize, message: String| -> ir::Diagnostics {
        let source = plain.lines().nth(line).unwrap_or("").to_string();
        let span = Span { file: file.into(), line: line as u32 + 1, column: 1, length: 1, text: (source.len() <= 200).then_some(source) };
        Diagnostic::input("E0309", message).at(span).with_help("paste what `nvidia-smi topo -m` prints, whole").into()
    };
    let Some((top, header)) = plain.lines().enumerate().find(|(_, l)| l.split_whitespace().next() == Some("GPU0") && l.split_whitespace().nth(1) != Some("X"))
    else {
        return Err(fault(0, "there is no line of column names that starts with `GPU0`".into()));
    };
    let columns: Vec<&str> = header.split_whitespace().take_while(|c| !matches!(*c, "CPU" | "NUMA" | "Affinity")).collect();
    let devices = columns.iter().take_while(|c| c.starts_with("GPU")).count();
    let adapters = columns.len() - devices;
    let mut links = Vec::new();
    for (number, line) in plain.lines().enumerate().skip(top + 1) {
        let mut cells = line.split_whitespace();
        if cells.next() != Some(format!("GPU{}", links.len()).as_str()) {
            if links.len() == devices || line.trim().is_empty() {
                continue;
            }
            return Err(fault(number, format!("the row of GPU{} is expected here", links.len())));
        }
        let row: Vec<&str> = cells.take(devices).collect();
        if row.len() < devices {
            return Err(fault(number, format!("this row has {} cells, and there are {devices} devices", row.len())));
        }
        let mut counts = Vec::new();
        for (j, cell) in row.iter().enumerate() {
            let count = match (*cell, cell.strip_prefix("NV").and_then(|n| n.parse::<u32>().ok())) {
                ("X", _) if j == links.len() => 0,
                (_, Some(n)) if j != links.len() && n <= 64 => n,
                ("PIX" | "PXB" | "PHB" | "NODE" | "SYS" | "SOC", _) if j != links.len() => 0,
                _ => return Err(fault(number, format!("`{cell}` is not a way from GPU{} to GPU{j}", links.len()))),
            };
            counts.push(count);
        }
        links.push(counts);
        if links.len() == devices {
            break;
        }
    }
    if links.len() < devices {
        return Err(fault(top, format!("there are {devices} columns of devices and {} rows", links.len())));
    }
    if let Some((i, j)) = (0..devices).flat_map(|i| (0..i).map(move |j| (i, j))).find(|&(i, j)| links[i][j] != links[j][i]) {
        return Err(fault(top + 1 + i, format!("GPU{i} has {} links to GPU{j}, which has {} back", links[i][j], links[j][i])));
    }
    Ok(Matrix { links, adapters: adapters as u32 })
}

/// `nvidia-smi` underlines its header.
fn without_colours(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c == '\u{1b}' {
            chars.by_ref().find(char::is_ascii_alphabetic);
        } else {
            plain.push(c);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::links::Wiring;

    #[test]
    fn what_is_drawn_reads_back() {
        for spec in ["dgx-1:2", "dgx-a100:2", "dgx-h100:4", "p4d.24xlarge:2", "jean-zay-v100:2"] {
            let cluster = Cluster::parse(spec).expect("a preset");
            let toml = import_topology("topo.txt", &draw(&cluster), Some(&cluster.device.name), cluster.nodes).expect("a matrix");
            let back = Cluster::from_toml("topo.toml", &toml).unwrap_or_else(|e| panic!("{spec}: {e}\n{toml}"));
            assert_eq!((back.nodes, back.devices_per_node, &back.device), (cluster.nodes, cluster.devices_per_node, &cluster.device), "{spec}");
            assert_eq!((&back.intra.pairs, back.intra.bandwidth, back.inter.adapters), (&cluster.intra.pairs, cluster.intra.bandwidth, cluster.inter.adapters));
        }
    }

    #[test]
    fn a_pasted_matrix_is_understood() {
        let pasted = "\t\u{1b}[4mGPU0\tGPU1\tGPU2\tGPU3\tmlx5_0\tmlx5_1\tCPU Affinity\tNUMA Affinity\u{1b}[0m\nGPU0\t X \tNV4\tNV4\tNV4\tPXB\tSYS\t0-31\t0\nGPU1\tNV4\t X \tNV4\tNV4\tPXB\tSYS\t0-31\t0\nGPU2\tNV4\tNV4\t X \tNV4\tSYS\tPXB\t32-63\t1\nGPU3\tNV4\tNV4\tNV4\t X \tSYS\tPXB\t32-63\t1\nmlx5_0\tPXB\tPXB\tSYS\tSYS\t X \tSYS\nmlx5_1\tSYS\tSYS\tPXB\tPXB\tSYS\t X \n\nLegend:\n\n  X    = Self\n";
        let toml = import_topology("topo.txt", pasted, None, 3).expect("a matrix");
        let c = Cluster::from_toml("topo.toml", &toml).unwrap_or_else(|e| panic!("{e}\n{toml}"));
        assert_eq!((c.devices(), c.device.name.as_str(), c.inter.adapters, c.intra.bandwidth.0), (12, "A100-SXM-80GB", 2, 300e9));
        // Three cycles of four, four links deep each way.
        let pairs = c.intra.pairs.expect("no switch");
        assert_eq!((pairs.wiring(4, 1), pairs.wiring(2, 1)), (Wiring::Rings(12), Wiring::Rings(4)));
    }

    #[test]
    fn damage_is_told_with_its_place() {
        let told = |text: &str| {
            let Err(ir::Diagnostics(list)) = import_topology("t", text, None, 1) else { panic!("accepted: {text}") };
            (list[0].code.clone(), list[0].span.as_ref().map(|s| s.line))
        };
        assert_eq!(told("nothing here"), ("E0309".into(), Some(1)));
        assert_eq!(told("      GPU0 GPU1\nGPU0  X NV2\n"), ("E0309".into(), Some(1)));
        assert_eq!(told("      GPU0 GPU1\nGPU0  X NV2\nGPU1 NV1 X\n"), ("E0309".into(), Some(3)));
        assert_eq!(told("      GPU0 GPU1\nGPU0  X NV?\nGPU1 NV1 X\n"), ("E0309".into(), Some(2)));
        assert_eq!(told("      GPU0 GPU1\nGPU0  X\nGPU1 NV1 X\n"), ("E0309".into(), Some(2)));
        let Err(ir::Diagnostics(list)) = import_topology("t", "", Some("A100"), 1) else { panic!("no such device") };
        assert_eq!(list[0].code, "E0308");
    }
}
