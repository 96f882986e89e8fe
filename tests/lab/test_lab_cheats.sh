#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The zoo in its short form: every cheat is refused for its own reason, honest kernels are not refused. And its control: a zoo in
# which a cheat gets through (an honest kernel that calls itself a cheat) is an error of the lab.
# LABELS: lab
set -eu
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export TMPDIR="$scratch" XDG_CACHE_HOME="$scratch/cache"

"$QSA_LAB" cheats --short --json >"$scratch/said" || { cat "$scratch/said"; exit 1; }
grep -q '"right":true' "$scratch/said"
grep -q '"wrong":0' "$scratch/said"

mkdir -p "$scratch/tree/lab/cheats"
cp -R "$SRC/src" "$SRC/include" "$scratch/tree"
{
    echo '// SPDX-License-Identifier: Apache-2.0'
    echo '// KERNEL: gate'
    echo '// EXPECT: prove memcmp'
    echo '#include "kernels/kernels.h"'
    echo 'void qsa_gate_fine_ref(const qsa_gate_args *args) { qsa_gate_ref(args); }'
} >"$scratch/tree/lab/cheats/gate_fine_ref.c"
code=0
QSA_LAB_ROOT="$scratch/tree" "$QSA_LAB" cheats --short >"$scratch/said" 2>"$scratch/error" || code=$?
[ "$code" -eq 3 ] || { echo "a cheat that got through gave exit code $code"; exit 1; }
grep -q '^WRONG gate_fine_ref.c' "$scratch/said"
grep -q 'nothing that this lab says can be believed' "$scratch/error"
[ -z "$(find "$scratch" -maxdepth 1 -name 'qsa-lab.*')" ] || { echo "scratch was left behind"; exit 1; }
