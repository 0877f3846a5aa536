//! `loc(…)`: JAX's names of ops, with their place in the user's program.
//!
//! Aliases (`#loc12`) may be declared after their uses, so an op's name is first a mark and is resolved when the whole file was read.

use super::lexer::{Tok, unescape};
use super::parser::{Parser, Step};
use crate::graph::{Graph, Module};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Begins the mark of a location that is not resolved yet; no name in a file starts so.
const MARK: char = '\u{0}';

/// A location as written.
#[derive(Clone, Debug)]
pub(super) enum LocTree<'a> {
    Unknown,
    Alias(&'a str),
    File(String, u32),
    Name(String, Box<LocTree<'a>>),
    /// The callee's place; where it was called from is not kept.
    Call(Box<LocTree<'a>>),
    Fused(Vec<LocTree<'a>>),
}

#[derive(Clone, Default)]
struct Resolved {
    place: Option<Arc<str>>,
    name: Option<Arc<str>>,
}

impl<'a> Parser<'a> {
    /// `loc(…)`; the word is the next token.
    pub(super) fn location(&mut self) -> Step<LocTree<'a>> {
        self.expect_word("loc")?;
        self.expect(b'(')?;
        let tree = self.location_body()?;
        self.expect(b')')?;
        Ok(tree)
    }

    fn location_body(&mut self) -> Step<LocTree<'a>> {
        self.nested(|p| {
            let t = p.peek();
            match t.tok {
                Tok::Hash => {
                    p.next();
                    Ok(LocTree::Alias(t.text))
                }
                Tok::Str => {
                    p.next();
                    p.named_or_file(unescape(t.text))
                }
                Tok::Bare => {
                    p.next();
                    match t.text {
                        "unknown" => Ok(LocTree::Unknown),
                        "callsite" => {
                            p.expect(b'(')?;
                            let callee = p.location_body()?;
                            p.expect_word("at")?;
                            p.location_body()?;
                            p.expect(b')')?;
                            Ok(LocTree::Call(Box::new(callee)))
                        }
                        "fused" => {
                            if p.eat(b'<') {
                                p.skip_balanced(b'>')?;
                            }
                            Ok(LocTree::Fused(p.list(b'[', b']', Self::location_body)?))
                        }
                        "loc" => {
                            p.expect(b'(')?;
                            let tree = p.location_body()?;
                            p.expect(b')')?;
                            Ok(tree)
                        }
                        _ => Err(p.report.error_at("E0101", t.at, t.length(), format!("`{}` is not a kind of location", t.text))),
                    }
                }
                _ => Err(p.unexpected("a location")),
            }
        })
    }

    fn named_or_file(&mut self, text: String) -> Step<LocTree<'a>> {
        if self.eat(b'(') {
            let child = self.location_body()?;
            self.expect(b')')?;
            return Ok(LocTree::Name(text, Box::new(child)));
        }
        if !self.eat(b':') {
            return Ok(LocTree::Name(text, Box::new(LocTree::Unknown)));
        }
        let line = self.expect_tok(Tok::Int, "a line number")?.text.parse().unwrap_or(0);
        self.expect(b':')?;
        self.expect_tok(Tok::Int, "a column")?;
        if self.eat_word("to") {
            if self.peek().tok == Tok::Int {
                self.next();
            }
            self.expect(b':')?;
            self.expect_tok(Tok::Int, "a column")?;
        }
        Ok(LocTree::File(text, line))
    }

    /// The mark that stands for a location until all aliases are known.
    pub(super) fn mark_location(&mut self, tree: LocTree<'a>) -> Option<Arc<str>> {
        match tree {
            LocTree::Unknown => None,
            LocTree::Alias(a) => Some(format!("{MARK}{a}").into()),
            tree => {
                self.inline_locations.push(tree);
                Some(format!("{MARK}{}", self.inline_locations.len() - 1).into())
            }
        }
    }

    /// Replaces every mark by the name it stands for.
    pub(super) fn resolve_locations(&mut self, module: &mut Module) {
        let mut resolver = Resolver { aliases: &self.location_aliases, inline: &self.inline_locations, known: FxHashMap::default() };
        for f in &mut module.functions {
            resolver.graph(f);
        }
    }
}

struct Resolver<'p, 'a> {
    aliases: &'p FxHashMap<&'a str, LocTree<'a>>,
    inline: &'p [LocTree<'a>],
    known: FxHashMap<String, Resolved>,
}

impl Resolver<'_, '_> {
    fn graph(&mut self, graph: &mut Graph) {
        for info in graph.locs.values_mut() {
            let Some(mark) = info.name.as_deref().and_then(|n| n.strip_prefix(MARK)).map(str::to_string) else { continue };
            let r = if mark.starts_with('#') {
                self.alias(&mark, 0)
            } else {
                mark.parse::<usize>().ok().and_then(|i| self.inline.get(i)).map(|t| self.tree(t, 0)).unwrap_or_default()
            };
            info.name = match (r.place, r.name) {
                (Some(place), Some(name)) => Some(format!("{place} {name}").into()),
                (place, name) => place.or(name),
            };
        }
        for op in graph.ops.values_mut() {
            for region in &mut op.regions {
                self.graph(region);
            }
        }
    }

    fn alias(&mut self, alias: &str, depth: u32) -> Resolved {
        if let Some(r) = self.known.get(alias) {
            return r.clone();
        }
        // A cycle of aliases finds this entry and ends.
        self.known.insert(alias.to_string(), Resolved::default());
        let r = match self.aliases.get(alias) {
            Some(tree) if depth < 256 => self.tree(tree, depth + 1),
            _ => Resolved::default(),
        };
        self.known.insert(alias.to_string(), r.clone());
        r
    }

    fn tree(&mut self, tree: &LocTree<'_>, depth: u32) -> Resolved {
        match tree {
            LocTree::Unknown => Resolved::default(),
            LocTree::Alias(a) => self.alias(a, depth),
            LocTree::File(path, line) => {
                let file = path.rsplit(['/', '\\']).next().unwrap_or(path);
                Resolved { place: Some(format!("{file}:{line}").into()), name: None }
            }
            LocTree::Name(name, child) => {
                let mut name = name.as_str();
                // The functions being traced say nothing about the op.
                while let Some((head, tail)) = name.split_once('/') {
                    if !(head.starts_with("jit(") && head.ends_with(')')) {
                        break;
                    }
                    name = tail;
                }
                Resolved { name: Some(name.into()), ..self.tree(child, depth) }
            }
            LocTree::Call(callee) => self.tree(callee, depth),
            LocTree::Fused(parts) => {
                let mut all = Resolved::default();
                for p in parts {
                    let r = self.tree(p, depth);
                    all.place = all.place.or(r.place);
                    all.name = all.name.or(r.name);
                }
                all
            }
        }
    }
}
