//! `cluster show NAME|FILE`, `cluster import FILE` and `cluster measure`: what a cluster is, a cluster file from a pasted topology, and times
//! measured on the devices that are here.

mod measure;

use crate::diagnostics::Terminal;
use cost_model::{AnalyticModel, Cluster, CollectiveCall, CollectiveCost, CostModel, Group, import_topology};
use ir::program::CollectiveKind;
use ir::{Bytes, DType, Result};
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;

/// Show, import and measure clusters.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Draw a cluster: one node's links, and what the planner takes it for.
    Show {
        /// A preset (`dgx-a100:8`, `local:4`) or a TOML file.
        cluster: String,
    },
    /// Write a cluster file from what `nvidia-smi topo -m` prints on one node.
    Import {
        /// The pasted matrix.
        matrix: PathBuf,
        /// Where to write the cluster file; without it, to standard output.
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
        /// What the devices are, such as A100-SXM-80GB; without it, what has as many links.
        #[arg(long, value_name = "NAME")]
        device: Option<String>,
        /// How many such nodes there are.
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
        nodes: u32,
    },
    /// Time matrix products, copies and collectives on the devices that are here, for `compile --measured`.
    Measure {
        /// The cluster: `local:N`.
        #[arg(long)]
        cluster: String,
        /// Where to write the table.
        #[arg(long, short, value_name = "FILE")]
        output: PathBuf,
    },
}

/// `cluster`.
pub(crate) fn command(args: &Args, terminal: &Terminal) -> Result<ExitCode> {
    match &args.action {
        Action::Show { cluster } => show(&Cluster::parse(cluster)?, terminal),
        Action::Import { matrix, output, device, nodes } => {
            let bytes = runtime::checkpoint::read_file(matrix)?;
            let text = import_topology(&matrix.display().to_string(), &String::from_utf8_lossy(&bytes), device.as_deref(), *nodes)?;
            let cluster = Cluster::from_toml(&matrix.display().to_string(), &text)?;
            match output {
                Some(path) => {
                    crate::outputs::check_outputs(&[("the matrix", matrix.as_path())], &[("-o", Some(path.as_path()))])?;
                    runtime::checkpoint::write_atomically(path, text.as_bytes())?;
                    terminal.progress("Wrote", &format!("{}  {} nodes of {} {}", path.display(), nodes, cluster.devices_per_node, cluster.device.name));
                }
                None if terminal.json() => terminal.object(&json!({ "toml": text, "cluster": cluster })),
                None => terminal.line(text.trim_end()),
            }
        }
        Action::Measure { cluster, output } => {
            let cluster = Cluster::parse(cluster)?;
            runtime::checkpoint::check_writable(output)?;
            let table = measure::measure(&cluster)?;
            runtime::checkpoint::write_atomically(output, table.to_toml().as_bytes())?;
            let [products, copies, collectives] = measure::errors(&cluster, &table).map(|e| e * 100.0);
            if terminal.json() {
                terminal.object(&json!({ "table": output.display().to_string(), "cluster": cluster.name, "times": table.len(),
                    "formula_error": { "products": products / 100.0, "copies": copies / 100.0, "collectives": collectives / 100.0 } }));
            } else {
                terminal.progress("Measured", &format!("{}  {} times on {}", output.display(), table.len(), cluster.name));
                terminal.progress(
                    "",
                    &format!("formulas are off by {products:.0} % (products), {copies:.0} % (copies), {collectives:.0} % (collectives) in the median"),
                );
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The bytes of the collective that the summary prices.
const EXAMPLE: Bytes = Bytes(1 << 30);

fn all_reduce(cluster: &Cluster, group: &Group) -> (CollectiveCost, f64) {
    let cost = AnalyticModel::new(cluster.clone()).collective(&CollectiveCall { kind: CollectiveKind::AllReduce, bytes: EXAMPLE, dtype: DType::F32 }, group);
    let size = f64::from(group.size);
    (cost, 2.0 * (size - 1.0) / size * EXAMPLE.0 as f64 / cost.time.0 / 1e9)
}

fn show(cluster: &Cluster, terminal: &Terminal) {
    let per_node = cluster.devices_per_node;
    let mut groups = vec![("one node", Group::within_node(per_node))];
    if cluster.nodes > 1 {
        groups.push(("all nodes", Group { racks: cluster.rack_of(cluster.devices() - 1) + 1, ..Group::over_nodes(cluster.nodes, per_node) }));
    }
    groups.retain(|(_, group)| group.size > 1);
    let priced: Vec<_> = groups.iter().map(|(what, group)| (*what, group.size, all_reduce(cluster, group))).collect();
    let d = &cluster.device;
    if terminal.json() {
        let reduces = priced.iter().map(|(what, size, (cost, bus))| {
            json!({ "group": what, "devices": size, "bytes": EXAMPLE.0, "seconds": cost.time.0, "bus_gb_per_s": bus,
                "algorithm": cost.algorithm.to_string(), "protocol": cost.protocol.to_string() })
        });
        terminal.object(&json!({
            "cluster": cluster,
            "devices": cluster.devices(),
            "usable_memory": cluster.usable_memory(),
            "sustained_flops": { "f32": d.sustained(DType::F32).0, "bf16": d.sustained(DType::BF16).0, "f8": d.sustained(DType::F8E4M3FN).0 },
            "price_per_hour": cluster.price_per_hour(),
            "all_reduce": reduces.collect::<Vec<_>>(),
            "matrix": cluster.matrix(),
        }));
        return;
    }
    let mut lines = vec![format!("{}: {} × {} {}", cluster.name, cluster.nodes, per_node, d.name), String::new()];
    if per_node > 1 {
        lines.extend(cluster.matrix().lines().map(str::to_string));
        lines.push(String::new());
    }
    let tera = |dtype: DType| format!("{} of {} TFLOP/s", significant(d.sustained(dtype).0 / 1e12), significant(d.products(dtype).0.0 / 1e12));
    let mut row = |what: &str, text: String| lines.push(format!("{what:<11} {text}"));
    row("products", format!("f32 {}, bf16 {} sustained", tera(DType::F32), tera(DType::BF16)));
    row("memory", format!("{}, {} for plans, {:.0} GB/s", d.memory, cluster.usable_memory(), d.memory_bandwidth.0 / 1e9));
    row(
        "link",
        format!(
            "{}, {:.0} GB/s a device{}",
            cluster.intra.name,
            cluster.intra.bandwidth.0 / 1e9,
            if cluster.intra.in_switch_reduction { ", switches add" } else { "" }
        ),
    );
    if cluster.nodes > 1 {
        let net = &cluster.inter;
        let total = net.bandwidth.0 * f64::from(net.adapters) / 1e9;
        row(
            "network",
            format!(
                "{}, {} × {:.1} GB/s = {total:.0} GB/s a node{}",
                net.name,
                net.adapters,
                net.bandwidth.0 / 1e9,
                if net.in_network_reduction { ", switches add" } else { "" }
            ),
        );
    }
    if let Some(racks) = &cluster.racks {
        row("racks", format!("{} nodes each, uplinks carry 1/{} of what they send", racks.nodes, racks.oversubscription));
    }
    for part in cluster.parts().iter().filter(|_| !cluster.kinds.is_empty()) {
        let last = part.first_rank + part.cluster.devices() - 1;
        row("kind", format!("ranks {} to {last}: {} nodes of {}", part.first_rank, part.cluster.nodes, part.cluster.device.name));
    }
    if let Some(price) = cluster.price_per_hour() {
        row("price", format!("{price:.2} an hour"));
    }
    for (what, size, (cost, bus)) in &priced {
        row("all-reduce", format!("1 GiB over {what} ({size} devices): {}, {bus:.0} GB/s bus, {} by {}", cost.time, cost.algorithm, cost.protocol));
    }
    terminal.line(&lines.join("\n"));
}

/// Three significant digits or more, for figures that span six orders of magnitude.
fn significant(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 1.0 => format!("{v:.1}"),
        v => format!("{v:.3}"),
    }
}
