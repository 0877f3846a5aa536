//! The `shardwright` command: one file a subcommand, each a struct of arguments and a function that returns diagnostics.
//!
//! Exit codes: 0 done; 1 no feasible plan, or the run failed; 2 the command line or an input file is wrong. Output that nobody reads any more ends it with 0.

mod bandwidth;
mod cli;
mod cluster;
mod compare;
mod compile;
mod device;
mod diagnostics;
mod diff;
mod explain;
mod flight;
mod given;
mod interrupt;
mod judge;
mod kernels;
mod metrics;
mod outputs;
mod predict;
mod processes;
mod progress;
mod run;
mod trace;
mod verify;
mod view;
mod what_if;

use clap::Parser;
use std::process::ExitCode;

/// Planning makes and drops millions of small lists.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    let terminal = diagnostics::Terminal::new(cli.json, cli.quiet);
    match cli.command.run(&terminal) {
        Ok(code) => code,
        Err(failed) => terminal.failure(&failed),
    }
}
