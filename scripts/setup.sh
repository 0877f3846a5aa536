#!/bin/sh
# Installs what the build needs and is missing, by package name, with apt. Does nothing, quickly, when all is there.
set -eu

packages='llvm-22-dev libmlir-22-dev mlir-22-tools libpolly-22-dev libclang-22-dev lld-22 cmake make g++ pkg-config
zlib1g-dev libzstd-dev mold chromium chromium-driver openmpi-bin libopenmpi-dev iproute2'

say() { printf 'setup: %s\n' "$*"; }
fail() {
    printf 'setup: %s\n' "$@" >&2
    exit 1
}

if ! command -v cargo >/dev/null 2>&1 && [ -x "$HOME/.cargo/bin/cargo" ]; then
    fail "cargo is installed in $HOME/.cargo/bin but that folder is not on the PATH" 'run: . "$HOME/.cargo/env"'
fi
command -v cargo >/dev/null 2>&1 || fail 'Rust is missing: install it with rustup (version 1.95 or newer, with rustfmt and clippy)'
for tool in fmt clippy; do
    cargo "$tool" --version >/dev/null 2>&1 && continue
    component=$tool
    [ "$tool" = fmt ] && component=rustfmt
    command -v rustup >/dev/null 2>&1 || fail "cargo $tool is missing: install your Rust's package for it ($component)"
    say "adding the Rust component $component"
    rustup component add "$component"
done

if ! command -v dpkg-query >/dev/null 2>&1 || ! command -v apt-get >/dev/null 2>&1; then
    # Not a Debian: the packages have other names, so only what the build really calls is checked.
    missing=''
    [ -e /usr/lib/llvm-22/lib/libMLIR.so ] || [ -n "${MLIR_SYS_220_PREFIX:-}" ] || missing="$missing LLVM-and-MLIR-22"
    for tool in cmake make c++ mold; do command -v "$tool" >/dev/null 2>&1 || missing="$missing $tool"; done
    [ -z "$missing" ] || fail "this system has no apt; install by hand:$missing" 'and set MLIR_SYS_220_PREFIX and TABLEGEN_220_PREFIX to the prefix of LLVM 22'
    exit 0
fi

# The assembler of GPU code, which tests use to check what is made; no GPU is needed. Without it those tests say that they were left out.
cuda="${XDG_CACHE_HOME:-$HOME/.cache}/shardwright/cuda"
if [ -z "${SHARDWRIGHT_PTXAS:-}" ] && ! command -v ptxas >/dev/null 2>&1 && [ ! -x "$cuda/nvidia/cu13/bin/ptxas" ]; then
    say 'installing ptxas (the Python package nvidia-cuda-nvcc)'
    part="$cuda.part.$$"
    if python3 -m pip install --quiet --disable-pip-version-check --no-deps --target "$part" 'nvidia-cuda-nvcc>=13' && [ -f "$part/nvidia/cu13/bin/ptxas" ]; then
        chmod +x "$part/nvidia/cu13/bin/ptxas"
        rm -rf "$cuda"
        mv "$part" "$cuda"
    else
        rm -rf "$part"
        say 'ptxas could not be installed; put it on the PATH or name it by SHARDWRIGHT_PTXAS to check GPU code'
    fi
fi

missing=''
for package in $packages; do
    state=$(dpkg-query -W -f='${db:Status-Abbrev}' "$package" 2>/dev/null || true)
    case $state in ii*) ;; *) missing="$missing $package" ;; esac
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ]; then
    root=''
elif command -v sudo >/dev/null 2>&1; then
    root='sudo'
else
    fail "these packages are missing:$missing" 'run this as root, or install sudo'
fi
apt() { $root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 "$@"; }

say "installing$missing"
apt update -q || say 'the package lists could not be refreshed; trying with those that are there'
unknown=''
for package in $missing; do
    case $(apt-cache policy "$package" 2>/dev/null | sed -n 's/^ *Candidate: *//p') in '' | '(none)') unknown="$unknown $package" ;; esac
done
if [ -n "$unknown" ]; then
    fail "the configured package sources do not offer:$unknown" \
        'Debian 12 has LLVM 22 in its security updates (suite bookworm-security, component main)' \
        'elsewhere add the package repository that the LLVM project keeps for your release, version 22; then run this again'
fi
# shellcheck disable=SC2086 # The names are words.
apt install -q -y --no-install-recommends $missing
say 'done'
