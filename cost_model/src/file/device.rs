//! The `[device]` table: a named device, one described from nothing, and what overrides either.

use super::{KEYS, Reader, Section};
use crate::catalogue;
use crate::device::{BytesPerSecond, DeviceKind, FlopsPerSecond, FusedAttention, FusedKernel, PeakRates, PowerLimit, ProductEngine, Tile};
use ir::diagnostic::nearest;
use ir::{Bytes, Seconds};
use toml::Spanned;

impl Reader<'_> {
    /// `device = "NAME"`, or a table that may start from one.
    pub(super) fn device(&mut self, root: Section<'_>, base: Option<&DeviceKind>) -> Option<DeviceKind> {
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
        let device = catalogue::device(&name);
        if device.is_none() {
            let at = section.table.get(key).map_or(0..1, Spanned::span);
            let help = match nearest(&name, catalogue::device_presets()) {
                Some(k) => format!("did you mean `{k}`?"),
                None => format!("known are {}", catalogue::device_presets().collect::<Vec<_>>().join(", ")),
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
        let engine = ProductEngine { tiles: vec![Tile { m: 64, n: 64, efficiency: 0.8 }], ramp: 64.0, in_flight: 0.0 };
        let half = FlopsPerSecond(f32_peak.0 / 2.0);
        Some(DeviceKind {
            name: "device".into(),
            units: 1,
            peak: PeakRates { f64: half, f32: f32_peak, tf32: f32_peak, f16: narrow, bf16: narrow, f8: narrow, i8: narrow },
            f32_as_tf32: false,
            vector: f32_peak,
            memory: memory?,
            overhead: Bytes(0),
            memory_bandwidth: bandwidth?,
            memory_efficiency: 0.85,
            cache: Bytes(0),
            cache_bandwidth: bandwidth?,
            host_bandwidth: bandwidth?.min(BytesPerSecond(26e9)),
            launch: Seconds(4e-6),
            narrow: engine.clone(),
            wide: engine,
            tail: 0.0,
            exposed: 0.0,
            alignment: 1,
            misaligned: 1.0,
            power: None,
            attention: Vec::new(),
        })
    }

    fn overridden(&mut self, s: Section<'_>, mut d: DeviceKind) -> DeviceKind {
        if let Some(peak) = self.section(s, "peak", "device.peak") {
            let p = &mut d.peak;
            let rates = [
                ("f64", &mut p.f64),
                ("f32", &mut p.f32),
                ("tf32", &mut p.tf32),
                ("f16", &mut p.f16),
                ("bf16", &mut p.bf16),
                ("f8", &mut p.f8),
                ("i8", &mut p.i8),
            ];
            for (key, rate) in rates {
                *rate = self.number(peak, key).map_or(*rate, FlopsPerSecond);
            }
        }
        d.name = self.text(s, "name").unwrap_or(d.name);
        d.units = self.count(s, "units").unwrap_or(d.units);
        d.f32_as_tf32 = self.flag(s, "f32_as_tf32").unwrap_or(d.f32_as_tf32);
        d.vector = self.number(s, "vector").map_or(d.vector, FlopsPerSecond);
        d.memory = self.size(s, "memory").unwrap_or(d.memory);
        d.overhead = self.size(s, "overhead").unwrap_or(d.overhead);
        d.memory_bandwidth = self.number(s, "memory_bandwidth").map_or(d.memory_bandwidth, BytesPerSecond);
        d.memory_efficiency = self.number(s, "memory_efficiency").unwrap_or(d.memory_efficiency);
        d.cache = self.size(s, "cache").unwrap_or(d.cache);
        d.cache_bandwidth = self.number(s, "cache_bandwidth").map_or(d.cache_bandwidth, BytesPerSecond);
        d.host_bandwidth = self.number(s, "host_bandwidth").map_or(d.host_bandwidth, BytesPerSecond);
        d.launch = self.number(s, "launch").map_or(d.launch, Seconds);
        d.tail = self.number(s, "tail").unwrap_or(d.tail);
        d.exposed = self.number(s, "exposed").unwrap_or(d.exposed);
        d.alignment = self.count(s, "alignment").map_or(d.alignment, u64::from);
        d.misaligned = self.number(s, "misaligned").unwrap_or(d.misaligned);
        d.narrow = self.engine(s, "narrow", "device.narrow", d.narrow);
        d.wide = self.engine(s, "wide", "device.wide", d.wide);
        d.power = self.power(s, d.power);
        if let Some(kernels) = self.attention(s) {
            d.attention = kernels;
        }
        d
    }

    fn engine(&mut self, s: Section<'_>, key: &str, path: &'static str, base: ProductEngine) -> ProductEngine {
        let Some(s) = self.section(s, key, path) else { return base };
        ProductEngine {
            tiles: self.tiles(s).unwrap_or(base.tiles),
            ramp: self.number(s, "ramp").unwrap_or(base.ramp),
            in_flight: self.number(s, "in_flight").unwrap_or(base.in_flight),
        }
    }

    /// A limit that is stated whole, or over the base's.
    fn power(&mut self, s: Section<'_>, base: Option<PowerLimit>) -> Option<PowerLimit> {
        let Some(s) = self.section(s, "power", "device.power") else { return base };
        let mut figure = |key: &str, known: Option<f64>| {
            let value = self.number(s, key).or(known);
            if value.is_none() && !s.table.contains_key(key) {
                self.missing(s, key, "a power limit is `limit` and `idle` in watts, and joules of one operation of 32, 16 and 8 bits");
            }
            value
        };
        let base = base.as_ref();
        let (limit, idle) = (figure("limit", base.map(|b| b.limit)), figure("idle", base.map(|b| b.idle)));
        let (single, half) = (figure("joule_f32", base.map(|b| b.joule_f32)), figure("joule_f16", base.map(|b| b.joule_f16)));
        let quarter = figure("joule_f8", base.map(|b| b.joule_f8));
        for (key, joule) in [("joule_f32", single), ("joule_f16", half), ("joule_f8", quarter)] {
            if joule == Some(0.0) {
                self.wrong("E0305", s.at..s.at + 1, format!("`device.power.{key}` is 0"), "write a number above 0");
            }
        }
        Some(PowerLimit { limit: limit?, idle: idle?, joule_f32: single?, joule_f16: half?, joule_f8: quarter? })
    }

    /// The tables of a list under `key`, their keys checked and none of them missing.
    pub(super) fn list<'t>(&mut self, s: Section<'t>, key: &'static str, path: &'static str, keys: &str) -> Option<Vec<Section<'t>>> {
        let value = s.table.get(key)?;
        let Some(list) = value.get_ref().as_array() else {
            self.mistyped(s, key, value, &format!("a list of {keys}"));
            return None;
        };
        let mut sections = Vec::new();
        for item in list.iter() {
            let Some(table) = item.get_ref().as_table() else {
                self.mistyped(s, key, item, &format!("a table {keys}"));
                continue;
            };
            let section = Section { path, at: item.span().start, table };
            self.known(section);
            let wanted = KEYS.iter().find(|(p, _)| *p == path).expect("invariant: every section is listed").1;
            for key in wanted.iter().filter(|k| !table.contains_key(**k)) {
                self.missing(section, key, &format!("write {keys}"));
            }
            sections.push(section);
        }
        Some(sections)
    }

    fn share(&mut self, section: Section<'_>, key: &str) -> Option<f64> {
        let share = self.number(section, key)?;
        if share > 0.0 && share <= 1.0 {
            return Some(share);
        }
        let at = section.table.get(key).map_or(0..1, Spanned::span);
        self.wrong("E0305", at, format!("`{}` is {share}", section.key(key)), "write a share above 0 and at most 1");
        None
    }

    fn tiles(&mut self, s: Section<'_>) -> Option<Vec<Tile>> {
        let sections = self.list(s, "tiles", "device.tiles", "{ m = ROWS, n = COLUMNS, efficiency = SHARE }")?;
        if sections.is_empty() {
            let value = s.table.get("tiles")?;
            self.mistyped(s, "tiles", value, "a list of at least one { m, n, efficiency }");
            return None;
        }
        let tile =
            |section| Some(Tile { m: self.count(section, "m")?.into(), n: self.count(section, "n")?.into(), efficiency: self.share(section, "efficiency")? });
        sections.into_iter().map(tile).collect()
    }

    fn attention(&mut self, s: Section<'_>) -> Option<Vec<FusedAttention>> {
        let sections = self.list(s, "attention", "device.attention", "{ kernel = NAME, product_share = SHARE, wide_share = SHARE, scores = PER_SECOND }")?;
        let mut kernels = Vec::new();
        for section in sections {
            let name = self.text(section, "kernel");
            let kernel = name.as_ref().and_then(|name| FusedKernel::ALL.iter().find(|(known, _)| known == name)).map(|(_, kernel)| *kernel);
            if let (Some(name), None) = (&name, kernel) {
                let at = section.table.get("kernel").map_or(0..1, Spanned::span);
                self.wrong("E0305", at, format!("`{name}` is no fused attention kernel"), "write \"blocked\", \"flash2\", \"flash3\" or \"cudnn\"");
            }
            let (product_share, wide_share) = (self.share(section, "product_share"), self.share(section, "wide_share"));
            let scores = self.number(section, "scores").filter(|s| *s > 0.0);
            if let (Some(kernel), Some(product_share), Some(wide_share), Some(scores)) = (kernel, product_share, wide_share, scores) {
                kernels.push(FusedAttention { kernel, product_share, wide_share, scores });
            }
        }
        Some(kernels)
    }
}
