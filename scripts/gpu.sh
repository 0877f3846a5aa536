#!/bin/sh
# What is to be checked on a machine with an NVIDIA GPU: the same losses as on the CPU, arenas against nvidia-smi, and gpt2_small's steps.
# Usage: scripts/gpu.sh [FOLDER for plans and results]. Says what it leaves out, and exits with 1 when something is wrong.
set -u
cd "$(dirname "$0")/.." || exit 2
out=${1:-target/gpu}
mkdir -p "$out"
wrong=0
say() { printf '%s\n' "$*"; }
missing() { say "left out: $*"; }

if ! command -v nvidia-smi >/dev/null 2>&1; then
    say "nvidia-smi is not here, so neither is a driver: nothing can be checked"
    exit 1
fi
nvidia-smi --query-gpu=name,compute_cap,driver_version,memory.total,memory.used --format=csv
level=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -1 | tr -d .)
target=cuda:sm_80
if [ "$level" -ge 90 ]; then target=cuda:sm_90; fi
if [ "$level" -ge 100 ]; then target=cuda:sm_100; fi

cargo build --release --bin shardwright || exit 2
sw=${CARGO_TARGET_DIR:-target}/release/shardwright

losses() { sed -n 's/.*"outputs":{[^}]*:\([-0-9.e]*\)}.*/\1/p'; }

# The same losses as on the CPU, relative error of at most 1e-5 (f32) per step.
same() { # model flags...
    model=$1
    shift
    name=$(basename "$model" .mlir)
    "$sw" compile "$model" "$@" --target cpu -o "$out/cpu.plan" >/dev/null 2>"$out/log" || { say "WRONG $name $*: compile for cpu"; cat "$out/log"; wrong=1; return; }
    "$sw" compile "$model" "$@" --target $target -o "$out/gpu.plan" >/dev/null 2>"$out/log" || { say "WRONG $name $*: compile for $target"; cat "$out/log"; wrong=1; return; }
    inputs=${model%.mlir}.safetensors
    "$sw" run "$out/cpu.plan" --inputs "$inputs" --steps 3 --json 2>/dev/null | losses >"$out/cpu.losses"
    "$sw" run "$out/gpu.plan" --device cuda --inputs "$inputs" --steps 3 --json 2>"$out/log" | losses >"$out/gpu.losses"
    if [ -s "$out/gpu.losses" ] && paste "$out/cpu.losses" "$out/gpu.losses" | awk '
        NF != 2 { bad = 1 } { d = $1 - $2; if (d < 0) d = -d; m = $1 < 0 ? -$1 : $1; if (d > 1e-5 * m) bad = 1 } END { exit bad }'; then
        say "ok    $name $*: $(tr '\n' ' ' <"$out/gpu.losses")"
    else
        say "WRONG $name $*: cpu $(tr '\n' ' ' <"$out/cpu.losses") gpu $(tr '\n' ' ' <"$out/gpu.losses")"
        cat "$out/log"
        wrong=1
    fi
}
for name in mlp gpt_tiny; do
    for flags in "--cluster local:1" "--cluster local:4 --strategy data" "--cluster local:4 --strategy zero3" \
        "--cluster local:4 --stages 2 --microbatches 4 --schedule 1f1b" "--cluster local:4 --stages 2 --microbatches 4 --schedule gpipe"; do
        # shellcheck disable=SC2086 # flags are several words
        same examples/models/$name.mlir $flags
    done
done

# gpt2_small: memory and time of a step.
timed() { # model, flags of run...
    model=$1
    shift
    name=$(basename "$model" .mlir)
    "$sw" compile "$model" --cluster local:1 --memory-limit 64GiB --target $target -o "$out/$name.plan" 2>"$out/log" || { say "WRONG $name: compile"; cat "$out/log"; wrong=1; return; }
    "$sw" run "$out/$name.plan" --device cuda --zeros --steps 12 --json "$@" >"$out/$name.json" 2>"$out/log" &
    pid=$!
    used=0
    while kill -0 $pid 2>/dev/null; do
        now=$(nvidia-smi --query-compute-apps=pid,used_memory --format=csv,noheader,nounits | awk -F', ' -v p=$pid '$1 == p { print $2 }')
        if [ "${now:-0}" -gt "$used" ]; then used=$now; fi
        sleep 0.2
    done
    wait $pid || { say "WRONG $name $*"; wrong=1; }
    cat "$out/log"
    sed -n 's/.*"seconds":\([0-9.e-]*\).*/\1/p' "$out/$name.json" | tail -n +3 | sort -g | awk -v n="$name $*" -v u="$used" '
        { t[NR] = $1 } END { if (NR) printf "%s: median step %.2f ms, nvidia-smi saw %d MiB\n", n, 1000 * t[int((NR + 1) / 2)], u }'
}
data=${SHARDWRIGHT_DATA:-}
for name in gpt2_small gpt2_small_bf16; do
    model=$data/inputs/$name.mlir
    if [ -n "$data" ] && [ -f "$model" ]; then
        timed "$model"
        if [ $name = gpt2_small ]; then timed "$model" --tf32; fi
    else
        missing "$name: SHARDWRIGHT_DATA names no folder with inputs/$name.mlir (batch 8 x 1024)"
    fi
done
for module in jax torch; do
    if ! python3 -c "import $module" 2>/dev/null; then
        missing "the comparison with $module, which python3 cannot import"
        continue
    fi
    missing "the comparison with $module: time its own train step of the same model on this machine, and set it beside the medians above"
done
missing "the bandwidth of fused kernels against a copy: read it from 'ncu --set full $sw run PLAN --device cuda' where Nsight Compute is installed"
exit $wrong
