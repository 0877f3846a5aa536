#!/bin/sh
# Runs the property tests with other seeds than `make test` does, to find what its one seed does not show.
#   scripts/hunt.sh          20 seeds drawn at random
#   scripts/hunt.sh 50       so many
#   scripts/hunt.sh 7 8 9    these
# A test that fails prints its smallest case; the seed is named here, and `PROPTEST_RNG_SEED=SEED cargo test` repeats it.
set -eu
cd "$(dirname "$0")/.."

if [ $# -le 1 ]; then
    seeds=$(od -An -N$((4 * ${1:-20})) -tu4 /dev/urandom)
else
    seeds=$*
fi
# Test binaries that hold property tests (their source and name), and which tests of them: all, or those with this in their path.
binaries='
src/lib.rs ir interp::dot::tests::any_
tests/text.rs text
tests/round_trip.rs round_trip
src/lib.rs runtime tests::
tests/collectives.rs collectives
src/lib.rs compiler schedule::simulate
src/lib.rs compiler memory::assign
tests/reshard.rs reshard
tests/canonical_random.rs canonical_random
tests/random_graphs.rs random_graphs
tests/kernels.rs kernels
'
built=$(cargo test --workspace --no-run 2>&1 | tee /dev/stderr | sed -n 's/^ *Executable \(unittests \)\{0,1\}\([^ ]*\) (\(.*\))$/\2 \3/p')

failed=
for seed in $seeds; do
    printf '== seed %s\n' "$seed"
    while read -r source name filter; do
        [ -n "$source" ] || continue
        binary=$(printf '%s\n' "$built" | grep -E "^$source .*/$name-[0-9a-f]+\$" | cut -d' ' -f2)
        if [ ! -x "$binary" ]; then
            printf 'there is no test binary of %s (%s)\n' "$source" "$name"
            exit 2
        fi
        # shellcheck disable=SC2086 # An empty filter is no argument.
        if ! output=$(PROPTEST_RNG_SEED=$seed "$binary" --quiet $filter 2>&1); then
            printf '%s\n== failed: seed %s, %s of %s\n' "$output" "$seed" "${filter:-all}" "$source ($name)"
            failed="$failed $seed"
        fi
    done <<END
$binaries
END
done
if [ -n "$failed" ]; then
    printf 'failing seeds:%s\nrepeat one with PROPTEST_RNG_SEED=SEED cargo test --workspace\n' "$failed"
    exit 1
fi
printf 'no failure\n'
