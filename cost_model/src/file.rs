//! Cluster files: TOML to [`Cluster`], every mistake reported at once with its place.
//!
//! A file starts from `base` (a preset) and states what differs, or states the cluster whole. Invariants: every key that is read is in
//! `KEYS` and in `docs/cluster.md`; a key that is not read is an error that names the nearest known one.

use crate::cluster::{Cluster, Link, Network};
use crate::device::{BytesPerSecond, DeviceKind, FlopsPerSecond, PeakRates, Tile};
use crate::presets;
use ir::diagnostic::{Span, nearest};
use ir::{Bytes, Diagnostic, Diagnostics, Result, Seconds};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Every table with its keys.
pub(crate) const KEYS: &[(&str, &[&str])] = &[
    ("", &["base", "name", "nodes", "devices_per_node", "collective_launch", "solo_speedup", "device", "link", "network"]),
    (
        "device",
        &[
            "base",
            "name",
            "units",
            "peak",
            "vector",
            "memory",
            "overhead",
            "memory_bandwidth",
            "memory_efficiency",
            "cache",
            "cache_bandwidth",
            "launch",
            "tiles",
            "ramp",
            "alignment",
        ],
    ),
    ("device.peak", &["f64", "f32", "f16", "bf16", "f8", "i8"]),
    ("device.tiles", &["m", "n", "efficiency"]),
    ("link", &["name", "bandwidth", "efficiency", "latency", "low_latency_share", "switched", "in_switch_reduction"]),
    ("network", &["name", "bandwidth", "adapters", "efficiency", "latency"]),
];

/// Reads a cluster file's text.
pub(crate) fn read(file: &str, text: &str) -> Result<Cluster> {
    let mut reader = Reader { file, text, errors: Vec::new() };
    let root = DeTable::parse(text).map_err(|e| {
        let at = e.span().map_or(0, |s| s.start);
        Diagnostic::input("E0303", format!("this cluster file is not TOML: {}", e.message().lines().next().unwrap_or("")))
            .at(reader.place(at, 1))
            .with_help("see docs/cluster.md for the format and examples/clusters for files")
    })?;
    let cluster = reader.cluster(Section { path: "", at: root.span().start, table: root.get_ref() });
    match cluster {
        Some(cluster) if reader.errors.is_empty() => {
            cluster.check().map_err(|Diagnostics(list)| {
                let whole = reader.place(0, 1);
                Diagnostics(list.into_iter().map(|d| if d.span.is_some() { d } else { d.at(Span { text: None, ..whole.clone() }) }).collect())
            })?;
            Ok(cluster)
        }
        _ => {
            reader.errors.sort_by_key(|d| d.span.as_ref().map(|s| (s.line, s.column)));
            Err(Diagnostics(reader.errors))
        }
    }
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

impl Reader<'_> {
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
        let nodes = self.count(root, "nodes").or(base.as_ref().map(|b| b.nodes));
        let per_node = self.count(root, "devices_per_node").or(base.as_ref().map(|b| b.devices_per_node));
        for (key, value) in [("nodes", nodes), ("devices_per_node", per_node)] {
            if value.is_none() && !root.table.contains_key(key) {
                self.missing(root, key, "state it, or start from a preset: base = \"dgx-a100:4\"");
            }
        }
        let device = self.device(root, base.as_ref().map(|b| &b.device));
        let link = self.link(root, base.as_ref().map(|b| &b.intra));
        let network = self.network(root, base.as_ref().map(|b| &b.inter), nodes == Some(1), link.as_ref());
        let launch = self.number(root, "collective_launch").map(Seconds).or(base.as_ref().map(|b| b.collective_launch)).unwrap_or(Seconds(20e-6));
        let solo_speedup = self.number(root, "solo_speedup").or(base.as_ref().map(|b| b.solo_speedup)).unwrap_or(1.0);
        Some(Cluster {
            name,
            nodes: nodes?,
            devices_per_node: per_node?,
            device: device?,
            intra: link?,
            inter: network?,
            collective_launch: launch,
            solo_speedup,
        })
    }

    fn link(&mut self, root: Section<'_>, base: Option<&Link>) -> Option<Link> {
        let Some(s) = self.section(root, "link", "link") else {
            if base.is_none() && !root.table.contains_key("link") {
                self.missing(root, "link", "add a table [link] with `bandwidth` in bytes per second, or start from a preset with `base`");
            }
            return base.cloned();
        };
        let bandwidth = self.number(s, "bandwidth").map(BytesPerSecond).or(base.map(|b| b.bandwidth));
        if bandwidth.is_none() && !s.table.contains_key("bandwidth") {
            self.missing(s, "bandwidth", "state bytes per second that one device sends");
        }
        Some(Link {
            name: self.text(s, "name").or(base.map(|b| b.name.clone())).unwrap_or_else(|| "link".into()),
            efficiency: self.number(s, "efficiency").or(base.map(|b| b.efficiency)).unwrap_or(0.8),
            latency: self.number(s, "latency").map(Seconds).or(base.map(|b| b.latency)).unwrap_or(Seconds(3e-6)),
            low_latency_share: self.number(s, "low_latency_share").or(base.map(|b| b.low_latency_share)).unwrap_or(0.55),
            switched: self.flag(s, "switched").or(base.map(|b| b.switched)).unwrap_or(true),
            in_switch_reduction: self.flag(s, "in_switch_reduction").or(base.map(|b| b.in_switch_reduction)).unwrap_or(false),
            bandwidth: bandwidth?,
        })
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
            return link.map(|l| Network { name: "none".into(), bandwidth: l.bandwidth, adapters: 1, efficiency: l.efficiency, latency: l.latency });
        };
        let bandwidth = self.number(s, "bandwidth").map(BytesPerSecond).or(base.map(|b| b.bandwidth));
        if bandwidth.is_none() && !s.table.contains_key("bandwidth") {
            self.missing(s, "bandwidth", "state bytes per second of one network adapter");
        }
        Some(Network {
            name: self.text(s, "name").or(base.map(|b| b.name.clone())).unwrap_or_else(|| "network".into()),
            adapters: self.count(s, "adapters").or(base.map(|b| b.adapters)).unwrap_or(1),
            efficiency: self.number(s, "efficiency").or(base.map(|b| b.efficiency)).unwrap_or(0.85),
            latency: self.number(s, "latency").map(Seconds).or(base.map(|b| b.latency)).unwrap_or(Seconds(10e-6)),
            bandwidth: bandwidth?,
        })
    }

    /// `device = "NAME"`, or a table that may start from one.
    fn device(&mut self, root: Section<'_>, base: Option<&DeviceKind>) -> Option<DeviceKind> {
        let Some(value) = root.table.get("device") else {
            if base.is_none() {
                self.missing(root, "device", "name a device (device = \"A100-SXM-80GB\") or describe one in a table [device]");
            }
            return base.cloned();
        };
        if value.get_ref().is_str() {
            return self.named_device(root, "device");
        }
        let s = self.section(root, "device", "device")?;
        let named = if s.table.contains_key("base") { Some(self.named_device(s, "base")?) } else { None };
        let start = match named.or_else(|| base.cloned()) {
            Some(device) => device,
            None => self.unnamed_device(s)?,
        };
        Some(self.overridden(s, start))
    }

    fn named_device(&mut self, section: Section<'_>, key: &str) -> Option<DeviceKind> {
        let name = self.text(section, key)?;
        let device = presets::device(&name);
        if device.is_none() {
            let at = section.table.get(key).map_or(0..1, Spanned::span);
            let help = match nearest(&name, presets::device_presets()) {
                Some(k) => format!("did you mean `{k}`?"),
                None => format!("known are {}", presets::device_presets().collect::<Vec<_>>().join(", ")),
            };
            self.wrong("E0308", at, format!("`{name}` is not a known device"), help);
        }
        device
    }

    /// A device described from nothing: three figures are needed, the others follow from them until stated.
    fn unnamed_device(&mut self, s: Section<'_>) -> Option<DeviceKind> {
        let peak = s.table.get("peak").and_then(|v| v.get_ref().as_table()).map(|table| Section { path: "device.peak", at: s.at, table });
        let f32_peak = peak.and_then(|p| self.number(p, "f32"));
        if f32_peak.is_none() && peak.is_none_or(|p| !p.table.contains_key("f32")) {
            self.missing(s, "peak.f32", "a device without `base` states its peak of f32 matrix products in FLOP/s");
        }
        for key in ["memory", "memory_bandwidth"] {
            if !s.table.contains_key(key) {
                self.missing(s, key, "a device without `base` states `memory`, `memory_bandwidth` and `peak.f32`");
            }
        }
        let (memory, bandwidth) = (self.size(s, "memory"), self.number(s, "memory_bandwidth").map(BytesPerSecond));
        let f32_peak = FlopsPerSecond(f32_peak?);
        let narrow = peak.and_then(|p| self.number(p, "bf16").or_else(|| self.number(p, "f16"))).map_or(f32_peak, FlopsPerSecond);
        Some(DeviceKind {
            name: "device".into(),
            units: 1,
            peak: PeakRates { f64: FlopsPerSecond(f32_peak.0 / 2.0), f32: f32_peak, f16: narrow, bf16: narrow, f8: narrow, i8: narrow },
            vector: f32_peak,
            memory: memory?,
            overhead: Bytes(0),
            memory_bandwidth: bandwidth?,
            memory_efficiency: 0.85,
            cache: Bytes(0),
            cache_bandwidth: bandwidth?,
            launch: Seconds(4e-6),
            tiles: vec![Tile { m: 64, n: 64, efficiency: 0.8 }],
            ramp: 64.0,
            alignment: 1,
        })
    }

    fn overridden(&mut self, s: Section<'_>, mut d: DeviceKind) -> DeviceKind {
        if let Some(peak) = self.section(s, "peak", "device.peak") {
            let p = &mut d.peak;
            for (key, rate) in [("f64", &mut p.f64), ("f32", &mut p.f32), ("f16", &mut p.f16), ("bf16", &mut p.bf16), ("f8", &mut p.f8), ("i8", &mut p.i8)] {
                *rate = self.number(peak, key).map_or(*rate, FlopsPerSecond);
            }
        }
        d.name = self.text(s, "name").unwrap_or(d.name);
        d.units = self.count(s, "units").unwrap_or(d.units);
        d.vector = self.number(s, "vector").map_or(d.vector, FlopsPerSecond);
        d.memory = self.size(s, "memory").unwrap_or(d.memory);
        d.overhead = self.size(s, "overhead").unwrap_or(d.overhead);
        d.memory_bandwidth = self.number(s, "memory_bandwidth").map_or(d.memory_bandwidth, BytesPerSecond);
        d.memory_efficiency = self.number(s, "memory_efficiency").unwrap_or(d.memory_efficiency);
        d.cache = self.size(s, "cache").unwrap_or(d.cache);
        d.cache_bandwidth = self.number(s, "cache_bandwidth").map_or(d.cache_bandwidth, BytesPerSecond);
        d.launch = self.number(s, "launch").map_or(d.launch, Seconds);
        d.ramp = self.number(s, "ramp").unwrap_or(d.ramp);
        d.alignment = self.count(s, "alignment").map_or(d.alignment, u64::from);
        if let Some(tiles) = self.tiles(s) {
            d.tiles = tiles;
        }
        d
    }

    fn tiles(&mut self, s: Section<'_>) -> Option<Vec<Tile>> {
        let value = s.table.get("tiles")?;
        let Some(list) = value.get_ref().as_array().filter(|a| !a.is_empty()) else {
            self.mistyped(s, "tiles", value, "a list of at least one { m, n, efficiency }");
            return None;
        };
        let mut tiles = Vec::new();
        for item in list.iter() {
            let Some(table) = item.get_ref().as_table() else {
                self.mistyped(s, "tiles", item, "a table { m, n, efficiency }");
                continue;
            };
            let section = Section { path: "device.tiles", at: item.span().start, table };
            self.known(section);
            for key in ["m", "n", "efficiency"].into_iter().filter(|k| !table.contains_key(*k)) {
                self.missing(section, key, "a tile is { m = ROWS, n = COLUMNS, efficiency = SHARE }");
            }
            let (m, n, efficiency) = (self.count(section, "m"), self.count(section, "n"), self.number(section, "efficiency"));
            if let Some(e) = efficiency.filter(|e| !(*e > 0.0 && *e <= 1.0)) {
                self.wrong("E0305", item.span(), format!("`device.tiles.efficiency` is {e}"), "write a share above 0 and at most 1");
            }
            if let (Some(m), Some(n), Some(efficiency)) = (m, n, efficiency) {
                tiles.push(Tile { m: m.into(), n: n.into(), efficiency });
            }
        }
        Some(tiles)
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
        let doc = include_str!("../../docs/cluster.md");
        for (path, keys) in KEYS {
            for key in *keys {
                assert!(doc.contains(&format!("`{key}`")), "docs/cluster.md does not describe `{key}` of [{path}]");
            }
        }
    }

    #[test]
    fn the_example_reads_and_equals_its_preset() {
        let c = read("a100.toml", include_str!("../../examples/clusters/a100.toml")).expect("the example is right");
        let preset = Cluster::parse("dgx-a100:4").expect("a preset");
        assert_eq!(Cluster { name: preset.name.clone(), ..c }, preset);
    }
}
