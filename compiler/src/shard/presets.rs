//! Strategies by name: restrictions of the one search.
//!
//! A strategy says which numbers of stages and which meshes are looked at, what every axis of the mesh is for ([`Role`]), and in which order microbatches go.
//! `auto` says nothing. `docs/strategies/` has a page on each, with its paper. Some are predicted only: the runtime has no part that executes them.

use super::grid::{Allowed, Grid, Role};
use super::groups::Groups;
use super::problem::{Node, Space};
use crate::schedule::order::Order;
use crate::step::StepGraph;
use ir::diagnostic::{Diagnostic, Result, nearest};
use ir::plan::{Interface, Recompute, Request};
use ir::program::ScheduleKind;

/// A named restriction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Preset {
    /// No restriction.
    #[default]
    Auto,
    /// Shardings and stages, nothing recomputed (Zheng et al. 2022).
    Alpa,
    /// Data parallelism: state whole, batch cut.
    Data,
    /// Optimizer state cut (Rajbhandari et al. 2020).
    Zero1,
    /// Optimizer state and gradients cut.
    Zero2,
    /// Optimizer state, gradients and parameters cut.
    Zero3,
    /// ZeRO 3 inside groups of devices, data parallelism between them (Zhao et al. 2023).
    Hsdp,
    /// Tensor parallelism inside blocks: batch, positions and residual stream whole (Shoeybi et al. 2019).
    Tensor,
    /// Pipeline, tensor and data parallelism (Narayanan et al. 2021).
    PtdP,
    /// The same with sequence parallelism and a distributed optimizer (Korthikanti et al. 2022).
    Megatron,
    /// As many stages as devices allow.
    Pipeline,
    /// All forwards, then all backwards (Huang et al. 2019).
    GPipe,
    /// One forward, one backward (Narayanan et al. 2019 and 2021).
    OneFOneB,
    /// Several chunks of the model per stage (Narayanan et al. 2021).
    Interleaved,
    /// Backwards split in two, to fill the pipeline (Qi et al. 2023).
    ZeroBubble,
    /// Activations and parameters cut over a square of devices (Xu and You 2021).
    Tensor2d,
    /// Several such squares (Wang et al. 2021).
    Tensor25d,
    /// A cube of devices (Bian et al. 2021).
    Tensor3d,
    /// Positions cut, heads in attention (Jacobs et al. 2023).
    Ulysses,
    /// Positions cut, keys and values passed round (Liu et al. 2023).
    Ring,
    /// Experts cut (Lepikhin et al. 2020).
    Expert,
}

/// Names of the presets, in the order of their pages.
pub const NAMES: [(&str, Preset); 22] = [
    ("auto", Preset::Auto),
    ("alpa", Preset::Alpa),
    ("data", Preset::Data),
    ("zero1", Preset::Zero1),
    ("zero2", Preset::Zero2),
    ("zero3", Preset::Zero3),
    ("fsdp", Preset::Zero3),
    ("hsdp", Preset::Hsdp),
    ("tensor", Preset::Tensor),
    ("ptd-p", Preset::PtdP),
    ("megatron", Preset::Megatron),
    ("pipeline", Preset::Pipeline),
    ("gpipe", Preset::GPipe),
    ("1f1b", Preset::OneFOneB),
    ("interleaved", Preset::Interleaved),
    ("zero-bubble", Preset::ZeroBubble),
    ("tensor-2d", Preset::Tensor2d),
    ("tensor-2.5d", Preset::Tensor25d),
    ("tensor-3d", Preset::Tensor3d),
    ("ulysses", Preset::Ulysses),
    ("ring", Preset::Ring),
    ("expert", Preset::Expert),
];

/// How many stages a strategy has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Staging {
    /// One.
    One,
    /// Any number.
    Any,
    /// More than one.
    Several,
    /// As many as there are devices.
    Most,
}

/// Tensor parallelism, and what else needs a product's time to hide behind, is tried over so many devices at most.
const INNER_MOST: u32 = 64;

impl Preset {
    /// The preset of that name.
    ///
    /// # Errors
    /// `E0401` when there is none.
    pub fn named(name: &str) -> Result<Preset> {
        NAMES.iter().find(|(n, _)| *n == name).map(|(_, p)| *p).ok_or_else(|| {
            let known: Vec<&str> = NAMES.iter().map(|n| n.0).collect();
            let mut d = Diagnostic::input("E0401", format!("there is no strategy `{name}`")).with_note(format!("strategies: {}", known.join(", ")));
            if let Some(n) = nearest(name, known) {
                d = d.with_help(format!("did you mean `--strategy {n}`?"));
            }
            d.into()
        })
    }

    /// Its name; the first where there are two.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|n| n.1 == self).map_or("", |n| n.0)
    }

    /// Whether shardings are free.
    pub fn is_free(self) -> bool {
        matches!(self, Preset::Auto | Preset::Alpa)
    }

    /// How many stages it has, where the request does not say.
    pub fn staging(self) -> Staging {
        match self {
            Preset::Auto | Preset::Alpa | Preset::PtdP | Preset::Megatron => Staging::Any,
            Preset::Pipeline => Staging::Most,
            Preset::GPipe | Preset::OneFOneB | Preset::Interleaved | Preset::ZeroBubble => Staging::Several,
            _ => Staging::One,
        }
    }

    /// Meshes of so many devices that it looks at, of one of `stages` stages; none where the devices cannot be arranged as it needs them. `auto` looks at others too.
    pub fn meshes(self, devices: u32, stages: u32) -> Vec<Vec<u32>> {
        let divisors = || (1..=devices).filter(|d| devices.is_multiple_of(*d));
        let inner = |least: u32| divisors().filter(|&t| t >= least && t <= INNER_MOST).map(|t| vec![devices / t, t]).collect();
        match self {
            Preset::Hsdp => divisors().filter(|&t| t > 1 && t < devices).map(|t| vec![devices / t, t]).collect(),
            // One device for tensor parallelism is none, but there may be pipelines of many.
            Preset::PtdP | Preset::Megatron => inner(if stages > 1 { 1 } else { 2 }),
            Preset::Ulysses | Preset::Ring | Preset::Expert => inner(2),
            Preset::Tensor2d => (2..=devices).filter(|q| q * q == devices).map(|q| vec![q, q]).collect(),
            Preset::Tensor25d => {
                let square = |q: &u32| devices.is_multiple_of(q * q) && devices > q * q;
                (2..INNER_MOST).filter(square).map(|q| vec![devices / (q * q), q, q]).collect()
            }
            Preset::Tensor3d => (2..=INNER_MOST).filter(|l| l * l * l == devices).map(|l| vec![l, l, l]).collect(),
            _ => vec![vec![devices]],
        }
    }

    /// The nearest number of devices of a stage that it can arrange, below or above.
    fn nearest_devices(self, devices: u32, stages: u32) -> Option<u32> {
        let fits = |n: &u32| !self.meshes(*n, stages).is_empty();
        let (below, above) = ((1..devices).rev().find(fits), (devices + 1..=devices.saturating_mul(8).max(8)).find(fits));
        below.into_iter().chain(above).min_by_key(|n| n.abs_diff(devices))
    }

    /// Why it looks at no mesh of so many devices of a stage.
    pub fn no_mesh(self, devices: u32, stages: u32) -> Diagnostic {
        let shape = match self {
            Preset::Hsdp => "at least two groups of at least two devices",
            Preset::Tensor2d => "a square of devices",
            Preset::Tensor25d => "several squares of devices",
            Preset::Tensor3d => "a cube of devices",
            _ => "at least two devices",
        };
        let name = self.name();
        let d = Diagnostic::input("E0430", format!("`--strategy {name}` needs {shape}, and a stage has {devices}"));
        match self.nearest_devices(devices, stages) {
            Some(n) => d.with_help(format!("{n} devices are the nearest that it can have; or take `--strategy auto`")),
            None => d.with_help("take `--strategy auto`"),
        }
    }

    /// What the axes of a mesh are for; none where shardings are free.
    ///
    /// # Errors
    /// `E0430` a mesh with another number of axes than the strategy has.
    pub fn roles(self, mesh: &[u32]) -> Result<Option<Vec<Role>>> {
        let n = mesh.len();
        // As many axes as are wanted, the last ones nearest.
        let of = |roles: &[Role], least: usize| -> Result<Option<Vec<Role>>> {
            if n < least || n > roles.len() {
                let sizes: Vec<String> = mesh.iter().map(ToString::to_string).collect();
                let axes = if least == roles.len() { least.to_string() } else { format!("{least} to {}", roles.len()) };
                let example = self.meshes(mesh.iter().product(), 2).first().map(|m| m.iter().map(ToString::to_string).collect::<Vec<_>>().join("x"));
                let d = Diagnostic::input("E0430", format!("`--strategy {}` has {axes} axes, and `--mesh {}` has {n}", self.name(), sizes.join("x")));
                let help = example.map_or_else(|| "leave `--mesh` out".into(), |m| format!("for example `--mesh {m}`, or leave `--mesh` out"));
                return Err(d.with_help(help).into());
            }
            Ok(Some(roles[roles.len() - n..].to_vec()))
        };
        let all = |role: Role| Ok(Some(vec![role; n]));
        match self {
            Preset::Auto | Preset::Alpa => Ok(None),
            Preset::Data | Preset::Pipeline | Preset::GPipe | Preset::OneFOneB | Preset::Interleaved | Preset::ZeroBubble => all(Role::Data(0)),
            Preset::Zero1 => all(Role::Data(1)),
            Preset::Zero2 => all(Role::Data(2)),
            Preset::Zero3 => all(Role::Data(3)),
            Preset::Tensor => all(Role::Tensor),
            Preset::Hsdp => of(&[Role::Data(0), Role::Data(3)], 2),
            Preset::PtdP => of(&[Role::Data(0), Role::Tensor], 1),
            Preset::Megatron => of(&[Role::Data(1), Role::TensorSequence], 1),
            Preset::Tensor2d => of(&[Role::Data(3), Role::Features], 2),
            Preset::Tensor25d => of(&[Role::Data(0), Role::Data(3), Role::Features], 3),
            Preset::Tensor3d => of(&[Role::Data(3), Role::Cube, Role::Cube], 3),
            Preset::Ulysses => of(&[Role::Data(3), Role::Heads(3)], 1),
            Preset::Ring => of(&[Role::Data(3), Role::Positions(3)], 1),
            Preset::Expert => of(&[Role::Data(0), Role::Experts], 1),
        }
    }

    /// The order of microbatches that it is; `chunks` for one with several per stage.
    pub fn schedule(self, chunks: u32) -> Option<ScheduleKind> {
        match self {
            Preset::GPipe => Some(ScheduleKind::GPipe),
            Preset::OneFOneB | Preset::ZeroBubble => Some(ScheduleKind::OneFOneB),
            Preset::Interleaved => Some(ScheduleKind::Interleaved(chunks)),
            _ => None,
        }
    }

    /// The order in which a stage works under a setting's schedule.
    pub fn order(self, schedule: ScheduleKind) -> Order {
        if self == Preset::ZeroBubble { Order::ZeroBubble } else { schedule.into() }
    }

    /// Whether it cuts attention by heads, along the last axis.
    pub fn cuts_heads(self) -> bool {
        matches!(self, Preset::Tensor | Preset::PtdP | Preset::Megatron | Preset::Ulysses)
    }

    /// Why it is only predicted, if it is.
    pub fn predicted_only(self) -> Option<&'static str> {
        match self {
            Preset::ZeroBubble => Some("programs have one backward, which is not split into cotangents and gradients of weights"),
            Preset::Ring => Some("attention takes all keys at once, so that they are gathered and not passed round"),
            _ => None,
        }
    }

    /// A request with what the strategy says filled in.
    ///
    /// # Errors
    /// `E0419` where the request says otherwise.
    pub fn complete(self, request: &Request) -> Result<Request> {
        let mut request = request.clone();
        let chunks = if let Some(ScheduleKind::Interleaved(n)) = request.schedule { n } else { 2 };
        if let Some(own) = self.schedule(chunks) {
            if let Some(other) = request.schedule.filter(|&s| s != own) {
                let d =
                    Diagnostic::input("E0419", format!("`--strategy {}` has a schedule of its own, and `--schedule {}` is another", self.name(), other.name()));
                return Err(d.with_help(format!("leave `--schedule` out, or take `--strategy {}`", Preset::of_schedule(other).name())).into());
            }
            request.schedule = Some(own);
        }
        if self == Preset::Alpa {
            if let Some(mode) = request.recompute.filter(|&m| m != Recompute::None) {
                let d = Diagnostic::input("E0419", format!("`--strategy alpa` recomputes nothing, and `--recompute {}` is asked for", mode.name()));
                return Err(d.with_help("take `--strategy auto`").into());
            }
            request.recompute = Some(Recompute::None);
        }
        Ok(request)
    }

    /// The pipeline of a schedule.
    fn of_schedule(schedule: ScheduleKind) -> Preset {
        match schedule {
            ScheduleKind::GPipe => Preset::GPipe,
            ScheduleKind::OneFOneB => Preset::OneFOneB,
            ScheduleKind::Interleaved(_) => Preset::Interleaved,
        }
    }

    /// Refuses what can only be predicted.
    ///
    /// # Errors
    /// `E0431`.
    pub fn executable(self) -> Result<()> {
        match self.predicted_only() {
            None => Ok(()),
            Some(why) => Err(Diagnostic::input("E0431", format!("`--strategy {}` can only be predicted", self.name()))
                .with_note(why)
                .with_help("`shardwright compare` predicts it beside the others; `--strategy auto` can be run")
                .into()),
        }
    }
}

/// What a strategy allows on one mesh.
pub struct Restriction(Option<Allowed>);

impl Restriction {
    /// Finds what the nodes of a mesh may choose.
    ///
    /// # Errors
    /// As [`Preset::roles`]; `E0432` a step without what the strategy cuts.
    pub fn new(preset: Preset, step: &StepGraph, groups: &Groups, interface: &Interface, space: &Space<'_>) -> Result<Restriction> {
        let sizes: Vec<u32> = space.cx.mesh.axes.iter().map(|a| a.size).collect();
        let Some(roles) = preset.roles(&sizes)? else { return Ok(Restriction(None)) };
        let grid = Grid::new(step, groups, interface);
        preset.check(&grid)?;
        Ok(Restriction(Some(grid.restrict(&roles, space))))
    }

    /// Whether a node may choose a candidate.
    pub fn allows(&self, node: Node, candidate: usize) -> bool {
        self.0.as_ref().is_none_or(|allowed| allowed.allows(node, candidate))
    }
}

impl Preset {
    /// Refuses a step without what the strategy cuts.
    ///
    /// # Errors
    /// `E0432`.
    pub fn check(self, grid: &Grid) -> Result<()> {
        let missing = match self {
            Preset::Expert if !grid.has_experts() => "experts",
            Preset::Ulysses | Preset::Ring if !grid.has_positions() => "positions",
            _ => return Ok(()),
        };
        Err(Diagnostic::input("E0432", format!("`--strategy {}` cuts {missing}, and this step has none", self.name()))
            .with_note("experts are a dimension of parameters that products pair; positions are the dimensions of token numbers that are not the batch")
            .with_help("take `--strategy auto`")
            .into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_to_presets_and_back() {
        for (name, preset) in NAMES {
            assert_eq!(Preset::named(name).expect("it is listed"), preset);
            assert_eq!(Preset::named(preset.name()).expect("it is listed"), preset);
        }
        let d = Preset::named("megatrom").expect_err("there is none").0.remove(0);
        assert_eq!((d.code.as_str(), d.help.as_deref()), ("E0401", Some("did you mean `--strategy megatron`?")));
    }

    #[test]
    fn every_mesh_has_its_roles() {
        for (_, preset) in NAMES {
            for devices in 1..=64 {
                for mesh in preset.meshes(devices, 1) {
                    assert_eq!(mesh.iter().product::<u32>(), devices);
                    let roles = preset.roles(&mesh).expect("a mesh of its own");
                    assert!(roles.is_none_or(|r| r.len() == mesh.len()));
                }
            }
        }
    }

    #[test]
    fn a_mesh_that_cannot_be_names_the_nearest() {
        let help = |p: Preset, n| p.no_mesh(n, 1).help.unwrap_or_default();
        assert!(help(Preset::Tensor2d, 8).starts_with("9 devices"));
        assert!(help(Preset::Tensor2d, 5).starts_with("4 devices"));
        assert!(help(Preset::Tensor3d, 4).starts_with("8 devices"));
        assert!(help(Preset::Hsdp, 2).starts_with("4 devices"));
        assert!(Preset::Hsdp.roles(&[4]).is_err() && Preset::Tensor2d.roles(&[2, 2, 2]).is_err());
    }

    #[test]
    fn a_request_is_completed_or_contradicts() {
        let asked = |schedule| Request { schedule, ..Request::default() };
        assert_eq!(Preset::GPipe.complete(&asked(None)).expect("nothing contradicts").schedule, Some(ScheduleKind::GPipe));
        let four = Some(ScheduleKind::Interleaved(4));
        assert_eq!(Preset::Interleaved.complete(&asked(four)).expect("chunks may be chosen").schedule, four);
        assert_eq!(Preset::GPipe.complete(&asked(four)).expect_err("another schedule").0[0].code, "E0419");
        let full = Request { recompute: Some(Recompute::Full), ..Request::default() };
        assert_eq!(Preset::Alpa.complete(&full).expect_err("it recomputes nothing").0[0].code, "E0419");
        assert!(Preset::ZeroBubble.executable().is_err() && Preset::Megatron.executable().is_ok());
    }
}
