#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The lab on a GPU: the proof passes the rows gate and commit against themselves, every cheat of lab/cheats/cuda is refused for its
# own reason (the zoo's short form), and the layouts are found by running the instructions.
# LABELS: cuda
set -eu
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export TMPDIR="$scratch" XDG_CACHE_HOME="$scratch/cache"

if ! "$QSA_LAB" layout mma >"$scratch/mma" 2>"$scratch/why"; then
    grep -q 'no CUDA device\|cannot be loaded' "$scratch/why" || { cat "$scratch/why"; exit 1; }
    echo "skipped: $(cat "$scratch/why")"
    exit 77
fi
grep -q 'thread 0: a0 = a\[0\]\[0\] a\[0\]\[1\], a1 = a\[8\]\[0\]' "$scratch/mma"

for kernel in gate commit; do
    cp "$SRC/lab/cuda/rows/${kernel}_cuda.cu" "$scratch/${kernel}_cuda_same.cu"
    "$QSA_LAB" prove "$kernel" --candidate "$scratch/${kernel}_cuda_same.cu" | tee "$scratch/said"
    grep -q 'memcmp PASS' "$scratch/said"
done

# A tree whose zoo has animals of the GPU only: those of the CPU have a test of their own.
mkdir -p "$scratch/tree/lab/cheats"
cp -R "$SRC/src" "$SRC/include" "$scratch/tree"
cp -R "$SRC/lab/cheats/cuda" "$scratch/tree/lab/cheats"
cp -R "$SRC/lab/cuda" "$scratch/tree/lab"
QSA_LAB_ROOT="$scratch/tree" "$QSA_LAB" cheats --short | tee "$scratch/said"
grep -q ' 0 wrong, .* 0 skipped without a GPU' "$scratch/said"
