#!/bin/sh
# A plan for 8 devices on two hosts, a process per rank: mpirun.sh gpt.plan host1 host2
set -eu
plan=$1 first=$2 second=$3

SHARDWRIGHT_SECRET=$(head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n')
export SHARDWRIGHT_SECRET

# On one host `mpirun -n 8 shardwright run ...` is enough: neither a secret nor an address is needed.
# Open MPI kills the other ranks a second after it asked them to end; they say better what happened when they have a little longer.
exec mpirun -n 8 --mca odls_base_sigkill_timeout 5 --host "$first:4,$second:4" -x SHARDWRIGHT_SECRET \
    shardwright run "$plan" --inputs step.safetensors --steps 100 --rendezvous "$first:29500" --log-dir logs
