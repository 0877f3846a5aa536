//! The `[measured]` table: times that `cluster measure` wrote.

use super::{Reader, Section};
use crate::measured::{COLLECTIVES, Measurements};
use crate::product::MatMulShape;
use ir::{Bytes, DType, Seconds};
use toml::Spanned;

impl Reader<'_> {
    pub(super) fn measured(&mut self, root: Section<'_>) -> Option<Measurements> {
        let s = self.section(root, "measured", "measured")?;
        let cluster = self.text(s, "cluster");
        if cluster.is_none() && !s.table.contains_key("cluster") {
            self.missing(s, "cluster", "state which cluster was measured");
        }
        let mut table = Measurements::of(&cluster?);
        if let Some(time) = self.duration(s, "step") {
            table.set_step(time);
        }
        for product in self.list(s, "product", "measured.product", "[[measured.product]] with a type, extents and seconds").unwrap_or_default() {
            let dtype = self.element_type(product);
            let extents = ["batch", "m", "n", "k"].map(|key| self.count(product, key).map(u64::from));
            if let (Some(dtype), [Some(batch), Some(m), Some(n), Some(k)], Some(time)) = (dtype, extents, self.duration(product, "seconds")) {
                table.add_product(MatMulShape { batch, m, n, k, dtype }, time);
            }
        }
        for copy in self.list(s, "copy", "measured.copy", "[[measured.copy]] with bytes and seconds").unwrap_or_default() {
            if let (Some(bytes), Some(time)) = (self.bytes(copy), self.duration(copy, "seconds")) {
                table.add_copy(bytes, time);
            }
        }
        for message in self.list(s, "message", "measured.message", "[[measured.message]] with bytes and seconds").unwrap_or_default() {
            if let (Some(bytes), Some(time)) = (self.bytes(message), self.duration(message, "seconds")) {
                table.add_message(bytes, time);
            }
        }
        for collective in self.list(s, "collective", "measured.collective", "[[measured.collective]] with kind, size, bytes and seconds").unwrap_or_default() {
            let name = self.text(collective, "kind");
            let kind = name.as_ref().and_then(|name| COLLECTIVES.iter().find(|(known, _)| known == name)).map(|(_, kind)| *kind);
            if let (Some(name), None) = (&name, kind) {
                let at = collective.table.get("kind").map_or(0..1, Spanned::span);
                let known = COLLECTIVES.iter().map(|(k, _)| format!("\"{k}\"")).collect::<Vec<_>>().join(", ");
                self.wrong("E0305", at, format!("`{name}` is no collective"), format!("write one of {known}"));
            }
            let (size, bytes, time) = (self.count(collective, "size"), self.bytes(collective), self.duration(collective, "seconds"));
            if let (Some(kind), Some(size), Some(bytes), Some(time)) = (kind, size, bytes, time) {
                table.add_collective(kind, size, bytes, time);
            }
        }
        Some(table)
    }

    fn element_type(&mut self, section: Section<'_>) -> Option<DType> {
        let name = self.text(section, "dtype")?;
        let dtype = DType::from_name(&name);
        if dtype.is_none() {
            let at = section.table.get("dtype").map_or(0..1, Spanned::span);
            self.wrong("E0305", at, format!("`{name}` is no element type"), "write for example \"f32\" or \"bf16\"");
        }
        dtype
    }

    fn bytes(&mut self, section: Section<'_>) -> Option<Bytes> {
        self.size(section, "bytes")
    }

    fn duration(&mut self, section: Section<'_>, key: &str) -> Option<Seconds> {
        let seconds = self.number(section, key)?;
        if seconds > 0.0 {
            return Some(Seconds(seconds));
        }
        let at = section.table.get(key).map_or(0..1, Spanned::span);
        self.wrong("E0305", at, format!("`{}` is {seconds}", section.key(key)), "write a number of seconds above 0");
        None
    }
}
