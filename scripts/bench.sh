#!/bin/sh
# Runs every benchmark, one after another, and fails at the end if one of them failed: planning at scale, then whole steps beside JAX.
#   scripts/bench.sh          all
#   scripts/bench.sh steps    those named
# SHARDWRIGHT_DATA names the folder with the larger models (inputs/NAME.mlir); without it the bundled example is measured.
set -eu
cd "$(dirname "$0")/.."

if [ $# -eq 0 ]; then
    for file in benches/*.rs; do
        set -- "$@" "$(basename "$file" .rs)"
    done
fi
failed=
for name in "$@"; do
    printf '\n== %s\n' "$name"
    cargo bench --quiet --package shardwright --bench "$name" || failed="$failed $name"
done
if [ -n "$failed" ]; then
    printf '\nfailed:%s\n' "$failed"
    exit 1
fi
