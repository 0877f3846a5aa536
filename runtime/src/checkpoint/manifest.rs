//! The manifest of a checkpoint: what it holds, where each shard lies, and the checksums of all of it.
//!
//! A JSON file, written last. Its own checksum is the BLAKE3 of its text with that field empty, so that a byte that changed anywhere in it is seen.
//! Tensors have the user's names, shapes and argument numbers; a shard is a box of the tensor's *view*, the same row-major elements with some dimensions split.

use super::writer::{Part, PartFile};
use ir::plan::Plan;
use serde::{Deserialize, Serialize};

/// The format this build writes, and the only one it reads.
pub const FORMAT: u32 = 1;

/// The manifest's name in the checkpoint's folder.
pub const FILE: &str = "manifest.json";

/// A checkpoint's contents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Version of this format.
    pub format: u32,
    /// Steps that were done, which is the number of the next one.
    pub step: u64,
    /// File name of the model, for people.
    pub model: String,
    /// Version of the program that wrote it.
    pub compiler: String,
    /// BLAKE3 of the plan that it was saved under.
    pub plan: String,
    /// How many ranks that plan has.
    pub ranks: u32,
    /// The state, by argument.
    pub tensors: Vec<TensorEntry>,
    /// All files beside this one.
    pub files: Vec<PartFile>,
    /// BLAKE3 of this text with this field empty.
    pub blake3: String,
}

/// A state tensor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TensorEntry {
    /// Number of the argument that it becomes.
    pub argument: u32,
    /// Number of the result that it was.
    pub result: u32,
    /// The user's name of the argument.
    pub name: String,
    /// `parameter` or `state`.
    pub role: String,
    /// Element type, in MLIR's spelling.
    pub dtype: String,
    /// Its global shape.
    pub shape: Vec<u64>,
    /// Its global shape with the dimensions that shards are boxes of.
    pub view: Vec<u64>,
    /// Its shards; each element is in exactly one.
    pub shards: Vec<ShardEntry>,
}

/// A shard of a tensor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShardEntry {
    /// The file that it is in.
    pub file: String,
    /// First index in each dimension of the view.
    pub start: Vec<u64>,
    /// How many indices.
    pub extent: Vec<u64>,
    /// Where its bytes begin in the file.
    pub offset: u64,
    /// How many.
    pub bytes: u64,
    /// BLAKE3 of them.
    pub blake3: String,
}

/// The checksum that names a plan.
pub fn plan_hash(plan: &Plan) -> String {
    blake3::hash(&plan.to_bytes()).to_hex().to_string()
}

/// The user's name of an argument.
pub fn argument_name(plan: &Plan, argument: u32) -> String {
    let main = plan.source.main();
    main.and_then(|g| Some(g.display_name(*g.inputs.get(argument as usize)?))).unwrap_or_else(|| format!("arg{argument}"))
}

impl Manifest {
    /// What a plan's checkpoints say, without a step, shards and files.
    pub fn of(plan: &Plan) -> Manifest {
        let types = super::argument_types(plan);
        let mut tensors: Vec<TensorEntry> = plan
            .interface
            .state
            .iter()
            .filter_map(|&(argument, result)| {
                let ty = types.get(argument as usize)?;
                let view = plan.programs.iter().flat_map(|p| &p.outputs).find(|b| b.index == result).map(|b| b.global_shape.clone());
                let role = if plan.interface.parameters.contains(&argument) { "parameter" } else { "state" };
                Some(TensorEntry {
                    argument,
                    result,
                    name: argument_name(plan, argument),
                    role: role.into(),
                    dtype: ty.dtype.name().into(),
                    shape: ty.shape.clone(),
                    view: view.unwrap_or_else(|| ty.shape.clone()),
                    shards: Vec::new(),
                })
            })
            .collect();
        tensors.sort_by_key(|t| t.argument);
        Manifest {
            format: FORMAT,
            step: 0,
            model: plan.request.model.clone(),
            compiler: plan.compiler.clone(),
            plan: plan_hash(plan),
            ranks: plan.ranks(),
            tensors,
            files: Vec::new(),
            blake3: String::new(),
        }
    }

    /// This manifest of the parts that all ranks have written after `step` steps, in the order of ranks.
    pub fn with_parts(&self, step: u64, parts: &[Part]) -> Manifest {
        let mut manifest = Manifest { step, files: parts.iter().filter_map(|p| p.file.clone()).collect(), ..self.clone() };
        for (part, file) in parts.iter().filter_map(|p| Some((p, p.file.as_ref()?))) {
            for s in &part.shards {
                let Ok(at) = manifest.tensors.binary_search_by_key(&s.argument, |t| t.argument) else { continue };
                let (start, extent, blake3) = (s.start.clone(), s.extent.clone(), s.blake3.clone());
                manifest.tensors[at].shards.push(ShardEntry { file: file.name.clone(), start, extent, offset: s.offset, bytes: s.bytes, blake3 });
            }
        }
        manifest
    }

    /// The file's text.
    pub fn to_text(&self) -> String {
        let unsigned = Manifest { blake3: String::new(), ..self.clone() };
        let text = |m: &Manifest| serde_json::to_string_pretty(m).expect("invariant: the manifest has only strings and numbers") + "\n";
        let blake3 = blake3::hash(text(&unsigned).as_bytes()).to_hex().to_string();
        text(&Manifest { blake3, ..unsigned })
    }

    /// Reads a manifest's text; what is wrong with it, in words, otherwise.
    pub fn from_text(text: &str) -> Result<Manifest, String> {
        #[derive(Deserialize)]
        struct Version {
            format: u32,
        }
        let Version { format } = serde_json::from_str(text).map_err(|e| format!("{FILE} is damaged: {e}"))?;
        if format != FORMAT {
            return Err(format!("{FILE} has format {format}, and this build reads format {FORMAT}"));
        }
        let manifest: Manifest = serde_json::from_str(text).map_err(|e| format!("{FILE} is damaged: {e}"))?;
        if manifest.to_text() != text {
            return Err(format!("{FILE} is damaged: its checksum does not match"));
        }
        manifest.check()?;
        Ok(manifest)
    }

    /// Checks that shards lie in their tensors and files, and that together they have as many elements as the tensors.
    fn check(&self) -> Result<(), String> {
        for t in &self.tensors {
            let whole: u64 = t.shape.iter().product();
            let wrong = |what: &str| Err(format!("{FILE} contradicts itself: {what} of arg{} ({})", t.argument, t.name));
            let Some(element) = ir::DType::from_name(&t.dtype).map(ir::DType::bytes) else { return wrong("the element type") };
            if t.view.iter().product::<u64>() != whole {
                return wrong("the view");
            }
            let mut held = 0;
            for s in &t.shards {
                let inside = s.start.len() == t.view.len()
                    && s.extent.len() == t.view.len()
                    && s.start.iter().zip(&s.extent).zip(&t.view).all(|((start, n), size)| start.checked_add(*n).is_some_and(|end| end <= *size));
                let file = self.files.iter().find(|f| f.name == s.file);
                let in_file = file.is_some_and(|f| s.offset.checked_add(s.bytes).is_some_and(|end| s.offset >= f.header_bytes && end <= f.bytes));
                if !inside || !in_file || s.extent.iter().product::<u64>() * element != s.bytes {
                    return wrong("a shard");
                }
                held += s.extent.iter().product::<u64>();
            }
            if held != whole {
                return Err(format!("arg{} ({}) is not complete: {held} of {whole} elements are there", t.argument, t.name));
            }
        }
        match self.files.iter().find(|f| f.name.contains(['/', '\\']) || f.name.starts_with('.')) {
            Some(f) => Err(format!("{FILE} names a file outside its folder: {}", f.name)),
            None => Ok(()),
        }
    }
}
