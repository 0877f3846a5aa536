#!/bin/sh
# Runs every benchmark, one after another, and fails at the end if one of them failed: predictions, planning at scale, whole steps beside JAX, and the sharding
# solver on the contest's instances (up to 15 minutes).
#   scripts/bench.sh          all
#   scripts/bench.sh steps    those named
# SHARDWRIGHT_DATA names the folder with the larger models (inputs/NAME.mlir) and the instances (data/iopddl); without it the bundled example is measured,
# and what has no bundled one says that it was left out.
set -eu
cd "$(dirname "$0")/.."

if [ $# -eq 0 ]; then
    for file in benches/*.rs compiler/solver/benches/*.rs; do
        set -- "$@" "$(basename "$file" .rs)"
    done
fi
failed=
for name in "$@"; do
    printf '\n== %s\n' "$name"
    cargo bench --quiet --workspace --bench "$name" || failed="$failed $name"
done
if [ -n "$failed" ]; then
    printf '\nfailed:%s\n' "$failed"
    exit 1
fi
