//! `--device`: what executes a plan's code, for every command that runs one.

use cuda::communicate::Collectives;
use cuda::machine::{Machine, Settings};
use ir::plan::Plan;
use ir::{Diagnostic, Result};
use runtime::device::emulated::{Emulation, Emulator};
use runtime::transport::Fabric;
use runtime::{Options, Session};
use std::sync::Arc;

/// What executes a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    /// The processor.
    Cpu,
    /// NVIDIA GPUs of this machine.
    Cuda,
    /// CUDA code without a GPU, slowly: an emulator that checks what kernels do.
    PtxEmulator,
}

impl Kind {
    /// The target whose code it executes.
    fn target(self) -> &'static str {
        match self {
            Kind::Cpu => "cpu",
            Kind::Cuda | Kind::PtxEmulator => "cuda",
        }
    }
}

/// What does collectives between GPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Exchange {
    /// NCCL where each rank has a card of its own and the library is there, else our own kernels.
    #[default]
    Auto,
    /// Our own kernels: the processor's results bit for bit, and the same in every run.
    Own,
    /// NCCL, or an error.
    Nccl,
}

/// The flags that choose a device.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct DeviceArgs {
    /// What executes the plan; by default what its code is for.
    #[arg(long, value_enum)]
    device: Option<Kind>,
    /// GPUs may round the operands of f32 matrix products to TF32's ten bits, which is many times faster and less exact.
    #[arg(long)]
    tf32: bool,
    /// On GPUs, begin every kernel by itself instead of what repeats as CUDA graphs.
    #[arg(long)]
    no_graphs: bool,
    /// What does collectives between GPUs.
    #[arg(long, value_enum, value_name = "WHO", default_value = "auto")]
    collectives: Exchange,
    /// The emulator also looks for missing barriers and for reads of what nothing has written.
    #[arg(long)]
    emulator_checks: bool,
    /// The emulator's approximate instructions deviate within their documented bounds, by this seed.
    #[arg(long, value_name = "SEED")]
    emulator_perturb: Option<u64>,
}

impl DeviceArgs {
    /// The device that executes `plan`.
    ///
    /// # Errors
    /// `E0607` when the plan's code is for another, `E0409` when a flag is another device's.
    pub(crate) fn kind(&self, plan: &Plan) -> Result<Kind> {
        let has = |kind: Kind| plan.kernels.is_empty() && plan.code.is_empty() || plan.code.iter().any(|c| c.target == kind.target());
        let made_for: Vec<String> = plan.code.iter().map(|c| format!("{} ({})", c.target, c.level)).collect();
        let kind = match self.device {
            Some(kind) => kind,
            // A plan without any code is refused by what would execute it.
            None if plan.code.is_empty() || has(Kind::Cpu) => Kind::Cpu,
            None if has(Kind::Cuda) => Kind::Cuda,
            None => {
                return Err(Diagnostic::outcome("E0607", format!("this plan's code is for {}, and there is no such device here", made_for.join(" and ")))
                    .with_help("`--device ptx-emulator` executes it slowly without a GPU; or compile the model again with `--target cpu`")
                    .into());
            }
        };
        if !plan.code.is_empty() && !has(kind) {
            let (needs, target) = match kind {
                Kind::Cpu => ("`--device cpu` executes code for cpu", "cpu"),
                Kind::Cuda => ("`--device cuda` executes code for cuda", "cuda:sm_80"),
                Kind::PtxEmulator => ("`--device ptx-emulator` executes code for cuda", "cuda:sm_80"),
            };
            return Err(Diagnostic::outcome("E0607", format!("this plan's code is for {}, and {needs}", made_for.join(" and ")))
                .with_help(format!("compile the model again with `--target {target}`, or run this plan without `--device`"))
                .into());
        }
        if kind != Kind::PtxEmulator && (self.emulator_checks || self.emulator_perturb.is_some()) {
            let flag = if self.emulator_checks { "--emulator-checks" } else { "--emulator-perturb" };
            return Err(Diagnostic::input("E0409", format!("`{flag}` is for the emulator, and the plan runs on another device"))
                .with_help("add `--device ptx-emulator`, with a plan that was compiled with `--target cuda:sm_80`")
                .into());
        }
        if kind != Kind::Cuda
            && let Some(flag) = [(self.tf32, "--tf32"), (self.no_graphs, "--no-graphs"), (self.collectives != Exchange::Auto, "--collectives")]
                .into_iter()
                .find_map(|(given, flag)| given.then_some(flag))
        {
            return Err(Diagnostic::input("E0409", format!("`{flag}` is for GPUs, and the plan runs on another device"))
                .with_help("add `--device cuda`, with a plan that was compiled with `--target cuda:sm_80`")
                .into());
        }
        Ok(kind)
    }

    /// Opens a plan with all its ranks in this process, with what is worth saying of that.
    ///
    /// # Errors
    /// Those of [`DeviceArgs::kind`] and of [`Session::open`], and for GPUs `E0670` to `E0678`.
    pub(crate) fn open(&self, plan: &Arc<Plan>, options: &Options) -> Result<(Session, Vec<Diagnostic>)> {
        if self.kind(plan)? == Kind::Cuda {
            let cards = cuda::card::cards(plan.ranks())?;
            // A trace shows when every instruction was begun, which a graph would not.
            let collectives = match self.collectives {
                Exchange::Auto => Collectives::Auto,
                Exchange::Own => Collectives::Own,
                Exchange::Nccl => Collectives::Nccl,
            };
            let machine = Machine::new(plan, cards, Settings { tf32: self.tf32, graphs: !self.no_graphs && !options.trace, collectives })?;
            let (fabric, devices) = (machine.fabric(options.timeout)?, machine.clone());
            let session = Session::open_with_on(plan, options, &fabric, move |program, seat| devices.device(program, seat))?;
            return Ok((session, machine.notes()));
        }
        Ok((self.open_on(plan, options, &Session::hub(plan, options)?)?, Vec::new()))
    }

    /// Opens a plan with the ranks that `fabric` has in this process.
    ///
    /// # Errors
    /// As [`DeviceArgs::open`]; `E0679` for GPUs, whose ranks are all in one process.
    pub(crate) fn open_on(&self, plan: &Arc<Plan>, options: &Options, fabric: &Arc<dyn Fabric>) -> Result<Session> {
        match self.kind(plan)? {
            Kind::Cpu => Session::open_on(plan, options, fabric),
            Kind::Cuda => Err(Diagnostic::outcome("E0679", "ranks on GPUs run in one process, and these are in several")
                .with_help("run the plan in one process, on the GPUs of one machine")
                .into()),
            Kind::PtxEmulator => {
                let emulator = Arc::new(Emulator::new(plan, Emulation { checks: self.emulator_checks, perturb: self.emulator_perturb })?);
                Session::open_with_on(plan, options, fabric, move |program, seat| emulator.device(program, seat))
            }
        }
    }
}
