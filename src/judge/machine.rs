//! A row's hardware columns as a cluster: a preset by its device, the network by what the interconnect's text states.

use cost_model::{BytesPerSecond, Cluster};

/// The cluster of a row, or what of it is not known.
pub(super) fn cluster(gpu: &str, memory: Option<f64>, interconnect: &str, per_node: u32, devices: u32) -> Result<Cluster, String> {
    let (gpu, text) = (gpu.to_lowercase(), interconnect.to_lowercase());
    let memory = memory.unwrap_or(0.0);
    let omni_path = text.contains("omni-path");
    let name = match () {
        () if gpu.contains("gb300") => "gb300-nvl72",
        () if gpu.contains("gb200") => "gb200-nvl72",
        () if gpu.contains("b300") => "dgx-b300",
        () if gpu.contains("b200") => "dgx-b200",
        () if gpu.contains("h200") => "hgx-h200",
        () if gpu.contains("h100") && (gpu.contains("500w") || memory == 96.0) => "grand-teton",
        () if gpu.contains("h100") => "dgx-h100",
        () if (gpu.contains("a100") || gpu.contains("a800")) && omni_path => "jean-zay-a100",
        () if (gpu.contains("a100") || gpu.contains("a800")) && memory == 40.0 => "dgx-a100-40gb",
        () if gpu.contains("a100") || gpu.contains("a800") => "dgx-a100",
        () if gpu.contains("v100") && omni_path => "jean-zay-v100",
        () if gpu.contains("v100") && memory == 32.0 => "p3dn.24xlarge",
        () if gpu.contains("v100") => "dgx-1",
        () => return Err(format!("there is no device `{gpu}` in the catalogue")),
    };
    let mut c = Cluster::parse(name).map_err(|e| e.to_string())?;
    if name == "jean-zay-v100" && memory == 16.0 {
        c.device.memory = ir::Bytes(16 << 30);
    }
    if gpu.contains("a800") {
        // NVLink at 400 GB/s in both directions, where an A100 has 600.
        c.intra.bandwidth = c.intra.bandwidth.scaled(2.0 / 3.0);
    }
    let switched = name.ends_with("nvl72");
    if switched {
        // One domain of switches holds 72; jobs take as much of each as divides them.
        c.devices_per_node = (1..=devices.clamp(1, 72)).rev().find(|d| devices.is_multiple_of(*d)).unwrap_or(1);
        c.inter.adapters = c.devices_per_node;
    } else if c.intra.pairs.is_none() && per_node > 0 && per_node < c.devices_per_node {
        c.devices_per_node = per_node;
    }
    c.nodes = devices.div_ceil(c.devices_per_node).max(1);
    if let Some((adapters, gigabits)) = network(&text, c.devices_per_node)
        && !switched
    {
        c.inter.adapters = adapters;
        c.inter.bandwidth = BytesPerSecond(gigabits * 1e9 / 8.0);
    }
    c.name = format!("{name}:{}", c.nodes);
    c.check().map_err(|e| e.to_string())?;
    Ok(c)
}

/// Adapters of a node and the gigabits a second of each, where the text states them: `8x200Gb`, `1600 Gbps/node`, `400 Gb/s per GPU`, `8x50 GB/s`.
fn network(text: &str, per_node: u32) -> Option<(u32, f64)> {
    // A number before "gb" that is about nodes or adapters, not about memory.
    let bytes: Vec<char> = text.chars().collect();
    let mut at = 0;
    while at < bytes.len() {
        if !bytes[at].is_ascii_digit() {
            at += 1;
            continue;
        }
        let start = at;
        while at < bytes.len() && bytes[at].is_ascii_digit() {
            at += 1;
        }
        let number: f64 = bytes[start..at].iter().collect::<String>().parse().ok()?;
        let rest: String = bytes[at..].iter().collect();
        let unit = rest.trim_start();
        if let Some(after) = unit.strip_prefix('x').filter(|a| a.starts_with(|c: char| c.is_ascii_digit())) {
            // `8x200gb`: the number of adapters, then the rate of each.
            let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
            let rate: f64 = digits.parse().ok()?;
            let unit = after[digits.len()..].trim_start();
            if unit.starts_with("gb/s") && rate <= 64.0 {
                return Some((number as u32, rate * 8.0));
            }
            if unit.starts_with("gb") {
                return Some((number as u32, rate));
            }
            at += 1;
            continue;
        }
        if unit.starts_with("gb/s") || unit.starts_with("gbps") || unit.starts_with("gbit") {
            let after = &unit[4..];
            let of_node = after.trim_start().starts_with("per node") || after.starts_with("/node");
            return Some(if of_node { split(number, per_node) } else { (per_node, number) });
        }
    }
    None
}

/// A node's rate as adapters of at most 400 Gb/s, one a device if that is enough.
fn split(total: f64, per_node: u32) -> (u32, f64) {
    let adapters = if total / f64::from(per_node) >= 100.0 { per_node } else { ((total / 200.0).ceil() as u32).max(1) };
    (adapters, total / f64::from(adapters))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_read_from_what_people_write() {
        let of = |text: &str| network(&text.to_lowercase(), 8);
        assert_eq!(of("Selene: DGX A100, NVLink3, 8x200Gb HDR IB per node"), Some((8, 200.0)));
        assert_eq!(of("NVLink3 in node; 1600 Gbps/node RoCE"), Some((8, 200.0)));
        assert_eq!(of("NVLink in node; 800 Gb/s per node (repo config)"), Some((8, 100.0)));
        assert_eq!(of("NVLink4; IB 8x50 GB/s"), Some((8, 400.0)));
        assert_eq!(of("V100-SXM2 NVLink2; 1x100Gb IB per node"), Some((1, 100.0)));
        assert_eq!(of("8xH100/node NVLink4; backend RDMA 400 Gb/s per GPU"), Some((8, 400.0)));
        assert_eq!(of("NVLink4 in node; inter-node fabric not stated"), None);
    }

    #[test]
    fn machines_are_known_by_their_devices() {
        let of = |gpu: &str, memory, text: &str, n| cluster(gpu, memory, text, 8, n).expect("a cluster");
        assert_eq!(of("V100", Some(16.0), "", 16).nodes, 2);
        assert_eq!(of("GB200", Some(186.0), "NVL72 NVLink5", 256).devices_per_node, 64);
        assert_eq!(of("A100", Some(80.0), "4x100Gb Omni-Path per node", 384).inter.name, "Omni-Path 100 Gb/s");
        assert!(cluster("TPU", None, "", 4, 8).is_err());
    }
}
