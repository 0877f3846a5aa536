#!/bin/sh
# Runs every benchmark of the workspace, one after another: kernels, solvers, then whole steps beside JAX.
# SHARDWRIGHT_DATA names the folder with the larger models (inputs/NAME.mlir); without it the bundled example is measured.
set -eu
cd "$(dirname "$0")/.."

for file in */benches/*.rs */*/benches/*.rs benches/*.rs; do
    [ -e "$file" ] || continue
    folder=${file%benches/*}
    package=$(sed -n 's/^name = "\(.*\)"/\1/p' "${folder}Cargo.toml" | head -n 1)
    name=$(basename "$file" .rs)
    printf '\n== %s: %s\n' "$package" "$name"
    cargo bench --quiet -p "$package" --bench "$name"
done
