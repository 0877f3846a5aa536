//! Cluster files: TOML to [`Cluster`], every mistake reported at once with its place.
//!
//! A file starts from `base` (a preset) and states what differs, or states the cluster whole. Invariants: every key that is read is in
//! `KEYS` and in `docs/clusters.md`; a key that is not read is an error that names the nearest known one.

mod device;
mod measured;

use crate::cluster::{Cluster, Link, Network, NodeGroup, Racks};
use crate::device::BytesPerSecond;
use crate::links::Pairs;
use crate::measured::Measurements;
use crate::presets;
use ir::diagnostic::{Span, nearest};
use ir::{Bytes, Diagnostic, Diagnostics, Result, Seconds};
use std::sync::Arc;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Every table with its keys.
pub(crate) const KEYS: &[(&str, &[&str])] = &[
    (
        "",
        &[
            "base",
            "name",
            "nodes",
            "devices_per_node",
            "collective_launch",
            "solo_speedup",
            "two_level",
            "pair_trees",
            "host_update",
            "storage_bandwidth",
            "price",
            "device",
            "link",
            "network",
            "racks",
            "measured",
        ],
    ),
    ("measured", &["cluster", "step", "product", "copy", "collective", "message"]),
    ("measured.product", &["dtype", "batch", "m", "n", "k", "seconds"]),
    ("measured.copy", &["bytes", "seconds"]),
    ("measured.collective", &["kind", "size", "bytes", "seconds"]),
    ("measured.message", &["bytes", "seconds"]),
    ("nodes", &["count", "device", "link", "price"]),
    ("racks", &["nodes", "oversubscription"]),
    (
        "device",
        &[
            "base",
            "name",
            "units",
            "peak",
            "f32_as_tf32",
            "vector",
            "memory",
            "overhead",
            "memory_bandwidth",
            "memory_efficiency",
            "cache",
            "cache_bandwidth",
            "host_bandwidth",
            "launch",
            "narrow",
            "wide",
            "tail",
            "exposed",
            "alignment",
            "misaligned",
            "power",
            "attention",
        ],
    ),
    ("device.peak", &["f64", "f32", "tf32", "f16", "bf16", "f8", "i8"]),
    ("device.narrow", &["tiles", "ramp", "in_flight"]),
    ("device.wide", &["tiles", "ramp", "in_flight"]),
    ("device.tiles", &["m", "n", "efficiency"]),
    ("device.power", &["limit", "idle", "joule_f32", "joule_f16", "joule_f8"]),
    ("device.attention", &["kernel", "product_share", "wide_share", "scores"]),
    (
        "link",
        &[
            "name",
            "bandwidth",
            "efficiency",
            "latency",
            "bulk_latency",
            "low_latency_share",
            "turn",
            "switched",
            "pairs",
            "host_bandwidth",
            "in_switch_reduction",
            "in_switch_share",
        ],
    ),
    ("network", &["name", "bandwidth", "adapters", "efficiency", "latency", "bulk_latency", "in_network_reduction"]),
];

/// Reads a cluster file's text.
pub(crate) fn read(file: &str, text: &str) -> Result<Cluster> {
    let mut reader = Reader { file, text, errors: Vec::new() };
    let root = reader.parse()?;
    let cluster = reader.cluster(Section { path: "", at: root.span().start, table: root.get_ref() });
    let cluster = reader.finish(cluster)?;
    cluster.check().map_err(|Diagnostics(list)| {
        let whole = reader.place(0, 1);
        Diagnostics(list.into_iter().map(|d| if d.span.is_some() { d } else { d.at(Span { text: None, ..whole.clone() }) }).collect())
    })?;
    Ok(cluster)
}

/// Reads a table of measurements: a cluster file of which only `[measured]` is there.
pub(crate) fn read_measured(file: &str, text: &str) -> Result<Measurements> {
    let mut reader = Reader { file, text, errors: Vec::new() };
    let root = reader.parse()?;
    for key in root.get_ref().keys().filter(|k| k.get_ref() != "measured") {
        let message = format!("unknown key `{}` in a table of measurements", key.get_ref());
        reader.wrong("E0304", key.span(), message, "only [measured] stands in it; `cluster measure` writes such tables");
    }
    let section = Section { path: "", at: root.span().start, table: root.get_ref() };
    let measured = reader.measured(section);
    if measured.is_none() && !root.get_ref().contains_key("measured") {
        reader.missing(section, "measured", "`cluster measure --cluster local:N -o FILE` writes a table");
    }
    reader.finish(measured)
}

/// One table of the file.
#[derive(Clone, Copy)]
struct Section<'t> {
    path: &'static str,
    at: usize,
    table: &'t DeTable<'t>,
}

impl Section<'_> {
    fn key(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_string() } else { format!("{}.{key}", self.path) }
    }
}

struct Reader<'a> {
    file: &'a str,
    text: &'a str,
    errors: Vec<Diagnostic>,
}

impl<'a> Reader<'a> {
    fn parse(&self) -> Result<Spanned<DeTable<'a>>> {
        DeTable::parse(self.text).map_err(|e| {
            let at = e.span().map_or(0, |s| s.start);
            Diagnostic::input("E0303", format!("this cluster file is not TOML: {}", e.message().lines().next().unwrap_or("")))
                .at(self.place(at, 1))
                .with_help("see docs/clusters.md for the format and examples/clusters for files")
                .into()
        })
    }

    /// What was read, if nothing was wrong with it; otherwise everything that was, in the file's order.
    fn finish<T>(&mut self, read: Option<T>) -> Result<T> {
        match read {
            Some(read) if self.errors.is_empty() => Ok(read),
            _ => {
                self.errors.sort_by_key(|d| d.span.as_ref().map(|s| (s.line, s.column)));
                Err(Diagnostics(std::mem::take(&mut self.errors)))
            }
        }
    }

    fn place(&self, at: usize, length: usize) -> Span {
        let at = (0..=at.min(self.text.len())).rev().find(|&i| self.text.is_char_boundary(i)).unwrap_or(0);
        let start = self.text[..at].rfind('\n').map_or(0, |i| i + 1);
        let line = self.text[start..].lines().next().unwrap_or("");
        Span {
            file: self.file.into(),
            line: self.text[..start].matches('\n').count() as u32 + 1,
            column: self.text[start..at].chars().count() as u32 + 1,
            length: length.clamp(1, 80) as u32,
            text: (line.len() <= 200).then(|| line.to_string()),
        }
    }

    fn wrong(&mut self, code: &str, at: std::ops::Range<usize>, message: String, help: impl Into<String>) {
        let span = self.place(at.start, at.len());
        self.errors.push(Diagnostic::input(code, message).at(span).with_help(help));
    }

    fn missing(&mut self, section: Section<'_>, key: &str, help: &str) {
        self.wrong("E0306", section.at..section.at + 1, format!("`{}` is missing", section.key(key)), help);
    }

    /// Reports the keys of a table that are not known.
    fn known(&mut self, section: Section<'_>) {
        let known = KEYS.iter().find(|(path, _)| *path == section.path).expect("invariant: every section is listed").1;
        for key in section.table.keys().filter(|k| !known.contains(&k.get_ref().as_ref())) {
            let help = match nearest(key.get_ref(), known.iter().copied()) {
                Some(k) => format!("did you mean `{k}`?"),
                None => format!("known here are {}", known.iter().map(|k| format!("`{k}`")).collect::<Vec<_>>().join(", ")),
            };
            self.wrong("E0304", key.span(), format!("unknown key `{}`", section.key(key.get_ref())), help);
        }
    }

    fn text(&mut self, section: Section<'_>, key: &str) -> Option<String> {
        let value = section.table.get(key)?;
        let text = value.get_ref().as_str().map(str::to_string);
        if text.is_none() {
            self.mistyped(section, key, value, "text in quotes");
        }
        text
    }

    fn flag(&mut self, section: Section<'_>, key: &str) -> Option<bool> {
        let value = section.table.get(key)?;
        let flag = value.get_ref().as_bool();
        if flag.is_none() {
            self.mistyped(section, key, value, "`true` or `false`");
        }
        flag
    }

    fn number(&mut self, section: Section<'_>, key: &str) -> Option<f64> {
        let value = section.table.get(key)?;
        let number = match value.get_ref() {
            DeValue::Integer(i) => integer(i).map(|v| v as f64),
            DeValue::Float(f) => f.as_str().parse().ok(),
            _ => None,
        };
        match number {
            Some(n) if n < 0.0 || !n.is_finite() => {
                self.wrong("E0305", value.span(), format!("`{}` is {n}", section.key(key)), "write a finite number that is not negative");
                None
            }
            Some(n) => Some(n),
            None => {
                self.mistyped(section, key, value, "a number");
                None
            }
        }
    }

    fn count(&mut self, section: Section<'_>, key: &str) -> Option<u32> {
        let value = section.table.get(key)?;
        let count = match value.get_ref() {
            DeValue::Integer(i) => integer(i),
            _ => None,
        };
        match count.map(u32::try_from) {
            Some(Ok(0)) => {
                self.wrong("E0302", value.span(), format!("`{}` is 0", section.key(key)), "write a count of at least 1");
                None
            }
            Some(Ok(n)) => Some(n),
            Some(Err(_)) => {
                self.wrong("E0305", value.span(), format!("`{}` is out of range", section.key(key)), "write a count of at least 1");
                None
            }
            None => {
                self.mistyped(section, key, value, "a whole number");
                None
            }
        }
    }

    fn size(&mut self, section: Section<'_>, key: &str) -> Option<Bytes> {
        let value = section.table.get(key)?;
        match value.get_ref() {
            DeValue::String(s) => match s.parse() {
                Ok(bytes) => Some(bytes),
                Err(message) => {
                    self.wrong("E0305", value.span(), format!("`{}`: {message}", section.key(key)), "write for example \"80GiB\"");
                    None
                }
            },
            _ => self.number(section, key).map(|n| Bytes(n as u64)),
        }
    }

    fn mistyped(&mut self, section: Section<'_>, key: &str, value: &Spanned<DeValue<'_>>, expected: &str) {
        let found = value.get_ref().type_str();
        self.wrong("E0305", value.span(), format!("`{}` is {found}, and {expected} is expected", section.key(key)), format!("write {expected}"));
    }

    /// The table under `key`, its keys checked.
    fn section<'t>(&mut self, parent: Section<'t>, key: &str, path: &'static str) -> Option<Section<'t>> {
        let value = parent.table.get(key)?;
        let Some(table) = value.get_ref().as_table() else {
            self.mistyped(parent, key, value, "a table");
            return None;
        };
        let section = Section { path, at: value.span().start, table };
        self.known(section);
        Some(section)
    }

    fn cluster(&mut self, root: Section<'_>) -> Option<Cluster> {
        self.known(root);
        let base = match self.text(root, "base") {
            None => None,
            Some(spec) => match presets::cluster(&spec) {
                Ok(cluster) => Some(cluster),
                Err(Diagnostics(list)) => {
                    let at = root.table.get("base").map_or(0..1, Spanned::span);
                    let place = self.place(at.start, at.len());
                    self.errors.extend(list.into_iter().map(|d| d.at(place.clone())));
                    return None;
                }
            },
        };
        let stem = self.file.rsplit(['/', '\\']).next().unwrap_or(self.file);
        let name = self.text(root, "name").unwrap_or_else(|| stem.strip_suffix(".toml").unwrap_or(stem).to_string());
        let grouped = root.table.get("nodes").is_some_and(|v| v.get_ref().is_array());
        let counted = if grouped { None } else { self.count(root, "nodes").or(base.as_ref().map(|b| b.nodes)) };
        let per_node = self.count(root, "devices_per_node").or(base.as_ref().map(|b| b.devices_per_node));
        for (key, value) in [("nodes", counted), ("devices_per_node", per_node)] {
            if value.is_none() && !root.table.contains_key(key) {
                self.missing(root, key, "state it, or start from a preset: base = \"dgx-a100:4\"");
            }
        }
        let kinds = if grouped { self.kinds(root, base.as_ref())? } else { Vec::new() };
        let device = match kinds.iter().map(|k| k.device.clone()).reduce(|a, b| a.weaker(&b)) {
            Some(weakest) => Some(weakest),
            None => self.device(root, base.as_ref().map(|b| &b.device)),
        };
        let slowest = kinds.iter().map(|k| &k.intra).reduce(|a, b| if b.bandwidth.0 * b.efficiency < a.bandwidth.0 * a.efficiency { b } else { a });
        let link = match slowest {
            Some(link) => Some(link.clone()),
            None => self.link(root, base.as_ref().map(|b| &b.intra)),
        };
        let nodes = if grouped { Some(kinds.iter().map(|k| k.count).fold(0u32, u32::saturating_add)) } else { counted };
        let network = self.network(root, base.as_ref().map(|b| &b.inter), nodes == Some(1), link.as_ref());
        let launch = self.number(root, "collective_launch").map(Seconds).or(base.as_ref().map(|b| b.collective_launch)).unwrap_or(Seconds(20e-6));
        let solo_speedup = self.number(root, "solo_speedup").or(base.as_ref().map(|b| b.solo_speedup)).unwrap_or(1.0);
        let cluster = Cluster {
            name,
            nodes: nodes?,
            devices_per_node: per_node?,
            device: device?,
            intra: link?,
            inter: network?,
            collective_launch: launch,
            solo_speedup,
            pair_trees: self.flag(root, "pair_trees").or(base.as_ref().map(|b| b.pair_trees)).unwrap_or(true),
            host_update: self.number(root, "host_update").map(BytesPerSecond).or(base.as_ref().map(|b| b.host_update)).unwrap_or(presets::HOST_UPDATE),
            storage_bandwidth: self
                .number(root, "storage_bandwidth")
                .map(BytesPerSecond)
                .or(base.as_ref().map(|b| b.storage_bandwidth))
                .unwrap_or(presets::STORAGE),
            two_level: self.flag(root, "two_level").or(base.as_ref().map(|b| b.two_level)).unwrap_or(false),
            racks: self.racks(root).or(base.as_ref().and_then(|b| b.racks.clone())),
            price: self.number(root, "price").or(base.as_ref().and_then(|b| b.price)),
            kinds,
            measured: self.measured(root).map(Arc::new),
        };
        Some(cluster)
    }

    /// `[[nodes]]`: consecutive nodes of one kind each.
    fn kinds(&mut self, root: Section<'_>, base: Option<&Cluster>) -> Option<Vec<NodeGroup>> {
        let value = root.table.get("nodes")?;
        let list = value.get_ref().as_array()?;
        if list.is_empty() {
            self.mistyped(root, "nodes", value, "a count, or at least one table [[nodes]]");
        }
        let top = match root.table.get("link") {
            Some(_) => self.link(root, base.map(|b| &b.intra)),
            None => base.map(|b| b.intra.clone()),
        };
        let device = if root.table.contains_key("device") { self.device(root, base.map(|b| &b.device)) } else { base.map(|b| b.device.clone()) };
        let price = self.number(root, "price");
        let mut kinds = Vec::new();
        for item in list.iter() {
            let Some(table) = item.get_ref().as_table() else {
                self.mistyped(root, "nodes", item, "a table with `count` and `device`");
                continue;
            };
            let section = Section { path: "nodes", at: item.span().start, table };
            self.known(section);
            let count = self.count(section, "count");
            if count.is_none() && !table.contains_key("count") {
                self.missing(section, "count", "state how many nodes are of this kind");
            }
            let device = self.device(section, device.as_ref());
            let intra = self.link(section, top.as_ref());
            let price = self.number(section, "price").or(price);
            if let (Some(count), Some(device), Some(intra)) = (count, device, intra) {
                kinds.push(NodeGroup { count, device, intra, price });
            }
        }
        (!kinds.is_empty()).then_some(kinds)
    }

    fn racks(&mut self, root: Section<'_>) -> Option<Racks> {
        let s = self.section(root, "racks", "racks")?;
        let nodes = self.count(s, "nodes");
        if nodes.is_none() && !s.table.contains_key("nodes") {
            self.missing(s, "nodes", "state how many nodes a rack has");
        }
        Some(Racks { nodes: nodes?, oversubscription: self.number(s, "oversubscription").unwrap_or(1.0) })
    }

    fn link(&mut self, parent: Section<'_>, base: Option<&Link>) -> Option<Link> {
        let Some(s) = self.section(parent, "link", "link") else {
            if base.is_none() && !parent.table.contains_key("link") {
                self.missing(parent, "link", "add a table [link] with `bandwidth` in bytes per second, or start from a preset with `base`");
            }
            return base.cloned();
        };
        let bandwidth = self.number(s, "bandwidth").map(BytesPerSecond).or(base.map(|b| b.bandwidth));
        if bandwidth.is_none() && !s.table.contains_key("bandwidth") {
            self.missing(s, "bandwidth", "state bytes per second that one device sends");
        }
        let bandwidth = bandwidth?;
        let latency = self.number(s, "latency").map(Seconds);
        let bulk = self.number(s, "bulk_latency").map(Seconds);
        let switched = self.flag(s, "switched");
        let pairs = self.pairs(s);
        Some(Link {
            name: self.text(s, "name").or(base.map(|b| b.name.clone())).unwrap_or_else(|| "link".into()),
            efficiency: self.number(s, "efficiency").or(base.map(|b| b.efficiency)).unwrap_or(0.8),
            // Chunks are taken to be three times as slow as lines where only one of the two is known.
            bulk_latency: bulk.or(latency.map(|l| l * 3.0)).or(base.map(|b| b.bulk_latency)).unwrap_or(Seconds(9e-6)),
            latency: latency.or(base.map(|b| b.latency)).unwrap_or(Seconds(3e-6)),
            low_latency_share: self.number(s, "low_latency_share").or(base.map(|b| b.low_latency_share)).unwrap_or(0.7),
            turn: self.number(s, "turn").or(base.map(|b| b.turn)).unwrap_or(0.0),
            pairs: pairs.clone().or(base.and_then(|b| b.pairs.clone())).filter(|_| switched != Some(true)),
            switched: switched.or(pairs.map(|_| false)).or(base.map(|b| b.switched)).unwrap_or(true),
            host_bandwidth: self
                .number(s, "host_bandwidth")
                .map(BytesPerSecond)
                .or(base.map(|b| b.host_bandwidth))
                .unwrap_or(bandwidth.min(BytesPerSecond(10e9))),
            in_switch_reduction: self.flag(s, "in_switch_reduction").or(base.map(|b| b.in_switch_reduction)).unwrap_or(false),
            in_switch_share: self.number(s, "in_switch_share").or(base.map(|b| b.in_switch_share)).unwrap_or(0.5),
            bandwidth,
        })
    }

    /// `pairs = [[0, 2, …], …]`: links of every device to every other.
    fn pairs(&mut self, s: Section<'_>) -> Option<Pairs> {
        let value = s.table.get("pairs")?;
        let row = |row: &Spanned<DeValue<'_>>| -> Option<Vec<u32>> {
            let list = row.get_ref().as_array()?;
            list.iter().map(|v| v.get_ref().as_integer().and_then(integer).and_then(|i| u32::try_from(i).ok())).collect()
        };
        let rows: Option<Vec<Vec<u32>>> = value.get_ref().as_array().and_then(|rows| rows.iter().map(row).collect());
        let Some(rows) = rows else {
            self.mistyped(s, "pairs", value, "a list of rows of link counts");
            return None;
        };
        match Pairs::new(rows) {
            Ok(pairs) => Some(pairs),
            Err(message) => {
                self.wrong("E0305", value.span(), format!("`link.pairs` has {message}"), "write a symmetric matrix of link counts, 0 from a device to itself");
                None
            }
        }
    }

    fn network(&mut self, root: Section<'_>, base: Option<&Network>, single: bool, link: Option<&Link>) -> Option<Network> {
        let Some(s) = self.section(root, "network", "network") else {
            if base.is_some() || root.table.contains_key("network") {
                return base.cloned();
            }
            if !single {
                self.missing(root, "network", "several nodes need a table [network] with `bandwidth` in bytes per second");
                return None;
            }
            // One node never uses it.
            return link.map(|l| Network {
                name: "none".into(),
                bandwidth: l.bandwidth,
                adapters: 1,
                efficiency: l.efficiency,
                latency: l.latency,
                bulk_latency: l.bulk_latency,
                in_network_reduction: false,
            });
        };
        let bandwidth = self.number(s, "bandwidth").map(BytesPerSecond).or(base.map(|b| b.bandwidth));
        if bandwidth.is_none() && !s.table.contains_key("bandwidth") {
            self.missing(s, "bandwidth", "state bytes per second of one network adapter");
        }
        let latency = self.number(s, "latency").map(Seconds);
        let bulk = self.number(s, "bulk_latency").map(Seconds);
        Some(Network {
            name: self.text(s, "name").or(base.map(|b| b.name.clone())).unwrap_or_else(|| "network".into()),
            adapters: self.count(s, "adapters").or(base.map(|b| b.adapters)).unwrap_or(1),
            efficiency: self.number(s, "efficiency").or(base.map(|b| b.efficiency)).unwrap_or(0.85),
            bulk_latency: bulk.or(latency.map(|l| l * 3.0)).or(base.map(|b| b.bulk_latency)).unwrap_or(Seconds(30e-6)),
            latency: latency.or(base.map(|b| b.latency)).unwrap_or(Seconds(10e-6)),
            in_network_reduction: self.flag(s, "in_network_reduction").or(base.map(|b| b.in_network_reduction)).unwrap_or(false),
            bandwidth: bandwidth?,
        })
    }
}

fn integer(i: &toml::de::DeInteger<'_>) -> Option<i64> {
    i64::from_str_radix(i.as_str(), i.radix()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(text: &str) -> Vec<(String, u32, u32)> {
        let Err(Diagnostics(list)) = read("c.toml", text) else { return Vec::new() };
        list.iter().map(|d| (d.code.clone(), d.span.as_ref().map_or(0, |s| s.line), d.span.as_ref().map_or(0, |s| s.column))).collect()
    }

    #[test]
    fn a_file_may_start_from_a_preset() {
        let c = read("folder/mine.toml", "base = \"dgx-a100:2\"\nnodes = 3\n[device]\nmemory = \"40GiB\"\n").expect("a cluster");
        assert_eq!((c.name.as_str(), c.nodes, c.device.memory, c.intra.bandwidth.0), ("mine", 3, Bytes(40 << 30), 300e9));
    }

    #[test]
    fn a_file_may_state_everything() {
        let text = "nodes = 1\ndevices_per_node = 2\n[device]\nmemory = \"1GiB\"\nmemory_bandwidth = 1e10\npeak = { f32 = 1e11, bf16 = 2e11 }\n[link]\nbandwidth = 5_000_000_000\n";
        let c = read("c.toml", text).expect("a cluster");
        assert_eq!((c.devices(), c.device.peak.f16.0, c.intra.bandwidth.0), (2, 2e11, 5e9));
    }

    #[test]
    fn every_mistake_is_reported_with_its_place() {
        let text = "base = \"dgx-a100:2\"\nnods = 3\ndevices_per_node = 0\n[link]\nbandwidth = -1\n[device]\nmemory = \"lots\"\nunits = \"many\"\n";
        let found = codes(text);
        let e = |code: &str, line, column| (code.to_string(), line, column);
        assert_eq!(found, [e("E0304", 2, 1), e("E0302", 3, 20), e("E0305", 5, 13), e("E0305", 7, 10), e("E0305", 8, 9)]);
        let Err(Diagnostics(list)) = read("c.toml", text) else { panic!("this file is wrong") };
        assert_eq!(list[0].help.as_deref(), Some("did you mean `nodes`?"));
    }

    #[test]
    fn what_is_missing_is_said() {
        assert_eq!(codes("").iter().map(|c| c.0.as_str()).collect::<Vec<_>>(), ["E0306"; 5]);
        assert_eq!(codes("a = [1,\n b = 2"), [("E0303".to_string(), 2, 4)]);
        assert_eq!(codes("base = \"dgx-b100:2\""), [("E0301".to_string(), 1, 8)]);
        assert_eq!(codes("base = \"dgx-a100:2\"\ndevice = \"A100\""), [("E0308".to_string(), 2, 10)]);
        assert_eq!(codes("base = \"local:2\"\nsolo_speedup = 0.1"), [("E0305".to_string(), 1, 1)]);
    }

    #[test]
    fn every_key_is_documented() {
        let doc = include_str!("../../docs/clusters.md");
        for (path, keys) in KEYS {
            for key in *keys {
                assert!(doc.contains(&format!("`{key}`")), "docs/clusters.md does not describe `{key}` of [{path}]");
            }
        }
    }

    #[test]
    fn nodes_may_be_of_several_kinds() {
        let text = "base = \"dgx-a100:1\"\nprice = 2\n[[nodes]]\ncount = 2\ndevice = \"H100-SXM-80GB\"\nprice = 4\n[[nodes]]\ncount = 3\n[nodes.device]\nmemory = \"40GiB\"\n";
        let c = read("mixed.toml", text).expect("a cluster");
        assert_eq!((c.nodes, c.devices(), c.device.memory, c.price_per_hour()), (5, 40, Bytes(40 << 30), Some(8.0 * (2.0 * 4.0 + 3.0 * 2.0))));
        assert_eq!((c.device_of(15).name.as_str(), c.device_of(16).name.as_str()), ("H100-SXM-80GB", "A100-SXM-80GB"));
        assert_eq!(c.device.peak.bf16.0, 312e12);
        let parts = c.parts();
        assert_eq!(parts.iter().map(|p| (p.first_rank, p.cluster.nodes)).collect::<Vec<_>>(), [(0, 2), (16, 3)]);
        assert!(parts.iter().all(|p| p.cluster.check().is_ok()));
        assert_eq!(codes("base = \"dgx-a100:1\"\n[[nodes]]\nnumber = 3\n").iter().map(|c| c.0.as_str()).collect::<Vec<_>>(), ["E0306", "E0304"]);
    }

    #[test]
    fn links_and_racks_may_be_stated() {
        let text = "base = \"dgx-a100:4\"\ndevices_per_node = 4\n[link]\npairs = [[0, 2, 2, 2], [2, 0, 2, 2], [2, 2, 0, 2], [2, 2, 2, 0]]\n[racks]\nnodes = 2\noversubscription = 2\n";
        let c = read("c.toml", text).expect("a cluster");
        assert_eq!((c.intra.switched, c.racks.as_ref().map(|r| r.nodes), c.rack_of(9)), (false, Some(2), 1));
        assert_eq!(codes("base = \"dgx-a100:1\"\n[link]\npairs = [[0, 1], [2, 0]]\n"), [("E0305".to_string(), 3, 9)]);
    }

    #[test]
    fn the_example_reads_and_equals_its_preset() {
        let c = read("a100.toml", include_str!("../../examples/clusters/a100.toml")).expect("the example is right");
        let preset = Cluster::parse("dgx-a100:4").expect("a preset");
        assert_eq!(Cluster { name: preset.name.clone(), ..c }, preset);
    }
}
