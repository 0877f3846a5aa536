#!/bin/bash
# A plan for 16 devices on 2 hosts, a process per rank: sbatch slurm.sh gpt.plan
#SBATCH --job-name=shardwright
#SBATCH --nodes=2
#SBATCH --ntasks=16
#SBATCH --ntasks-per-node=8
#SBATCH --time=01:00:00
set -eu
plan=$1

# What only the processes of this run know. srun passes the environment on.
SHARDWRIGHT_SECRET=$(head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n')
export SHARDWRIGHT_SECRET

# Logs, records and checkpoints lie where all hosts see them. A job that was ended and is started again continues from its last checkpoint.
resume=''
if compgen -G 'ckpt/step-*' >/dev/null; then resume='--resume ckpt'; fi
# shellcheck disable=SC2086 # Two words or none.
srun --kill-on-bad-exit=1 shardwright run "$plan" --inputs step.safetensors --batches data.safetensors \
    --save ckpt --save-every 100 $resume --log-dir "logs-$SLURM_JOB_ID" --join-timeout 300
