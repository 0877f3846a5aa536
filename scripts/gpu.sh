#!/bin/sh
# What is to be checked on a machine with an NVIDIA GPU: the same losses as on the CPU; GPT-2 small's steps beside JAX's and torch.compile's in the same run;
# fused kernels beside a copy; arenas against nvidia-smi.
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

# The same losses with every kernel begun by itself.
"$sw" compile examples/models/mlp.mlir --cluster local:1 --target $target -o "$out/gpu.plan" >/dev/null 2>"$out/log"
for flag in "" --no-graphs; do
    # shellcheck disable=SC2086 # no flag is no word
    "$sw" run "$out/gpu.plan" --device cuda --inputs examples/models/mlp.safetensors --steps 5 --json $flag 2>>"$out/log" | losses >"$out/graphs$flag"
done
if [ -s "$out/graphs" ] && cmp -s "$out/graphs" "$out/graphs--no-graphs"; then
    say "ok    graphs and single launches give the same bits"
else
    say "WRONG graphs and single launches: see $out/graphs and $out/graphs--no-graphs"
    wrong=1
fi

# GPT-2 small, batch 8 x 1024: step, memory, and the same step in JAX and under torch.compile.
config=examples/configs/gpt2_124m.json
ours=$out/ours
: >"$ours"
timed() { # precision, type of the step, flags of run...
    precision=$1
    plan=$out/gpt2_$2.plan
    type=$2
    shift 2
    if [ ! -f "$plan" ]; then
        "$sw" compile --config $config --optimizer adam --dtype "$type" --global-batch 8 --seq 1024 --cluster local:1 --memory-limit 64GiB \
            --target $target -o "$plan" 2>"$out/log" || { say "WRONG gpt2 $type: compile"; cat "$out/log"; wrong=1; return; }
    fi
    "$sw" run "$plan" --device cuda --zeros --steps 23 --json "$@" >"$out/gpt2.json" 2>"$out/gpt2.log" &
    pid=$!
    used=0
    while kill -0 $pid 2>/dev/null; do
        now=$(nvidia-smi --query-compute-apps=pid,used_memory --format=csv,noheader,nounits | awk -F', ' -v p=$pid '$1 == p { print $2 }')
        if [ "${now:-0}" -gt "$used" ]; then used=$now; fi
        sleep 0.2
    done
    wait $pid || { say "WRONG gpt2 $precision"; cat "$out/gpt2.log"; wrong=1; return; }
    # What the plan allocates is said where people read, not in JSON.
    arena=$("$sw" run "$plan" --device cuda --zeros --steps 1 "$@" 2>&1 >/dev/null | sed -n 's/.*arenas \(.*\) · beside them \([^·]*\).*/arena \1, beside it \2/p')
    median=$(sed -n 's/.*"seconds":\([0-9.e-]*\).*/\1/p' "$out/gpt2.json" | tail -n +4 | sort -g | awk '{ t[NR] = $1 } END { if (NR) print t[int((NR + 1) / 2)] }')
    if [ -z "$median" ]; then say "WRONG gpt2 $precision: no step was timed"; wrong=1; return; fi
    printf '%s %s\n' "$precision" "$median" >>"$ours"
    awk -v p="$precision" -v t="$median" -v a="$arena" -v u="$used" 'BEGIN { printf "gpt2 %s: median step %.2f ms; %s; nvidia-smi saw %d MiB\n", p, 1000 * t, a, u }'
    grep -o 'W0677.*' "$out/gpt2.log"
}
rm -f "$out"/gpt2_*.plan
timed f32 f32
timed tf32 f32 --tf32
timed bf16 bf16

# Fused kernels beside a copy.
for type in f32 bf16; do
    if [ -f "$out/gpt2_$type.plan" ]; then
        "$sw" bandwidth "$out/gpt2_$type.plan" >"$out/bandwidth_$type" 2>"$out/log" || { say "WRONG bandwidth $type"; cat "$out/log"; wrong=1; continue; }
        say "$type: $(tail -n 1 "$out/bandwidth_$type") (each kernel: $out/bandwidth_$type)"
    fi
done

for framework in jax torch; do
    if ! python3 -c "import $framework" 2>/dev/null; then
        missing "the comparison with $framework, which python3 cannot import"
        continue
    fi
    for precision in f32 tf32 bf16; do
        if ! python3 "scripts/gpu_$framework.py" --precision $precision >"$out/$framework.json" 2>"$out/log"; then
            say "WRONG $framework $precision"
            tail -n 5 "$out/log"
            wrong=1
            continue
        fi
        theirs=$(sed -n 's/.*"median": \([0-9.e-]*\).*/\1/p' "$out/$framework.json")
        mine=$(awk -v p=$precision '$1 == p { print $2 }' "$ours")
        # A longer step than theirs is a finding, not a fault of the machine: it is said and does not stop the rest.
        awk -v f="$framework" -v p="$precision" -v t="$theirs" -v m="${mine:-0}" 'BEGIN {
            if (m > 0) printf "%s %s: median step %.2f ms, ours %.2f ms, %.2f times theirs\n", f, p, 1000 * t, 1000 * m, m / t
            else printf "%s %s: median step %.2f ms, ours was not timed\n", f, p, 1000 * t }'
    done
done
exit $wrong
