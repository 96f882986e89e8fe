#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# CUDA candidates without a device: what a file is refused for before it would run (LAUNCH lines, lint of the text and of the machine
# code), each for its own reason and with exit code 1; what needs a device says so in one line with exit code 3. Where the lab's part
# for GPUs is not built, that is the line.
# LABELS: lab
set -eu
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export TMPDIR="$scratch" XDG_CACHE_HOME="$scratch/cache"
zoo="$SRC/lab/cheats/cuda"
status=0

fail() {
    echo "FAILED: $*"
    status=1
}

# ask ARGUMENT...: sets code; out and err are kept.
ask() {
    code=0
    "$QSA_LAB" "$@" >"$scratch/out" 2>"$scratch/err" || code=$?
}

# one_line WORDS ARGUMENT...: exit code 3, one line on stderr with these words, nothing on stdout.
one_line() {
    words="$1"
    shift
    ask "$@"
    [ "$code" -eq 3 ] || fail "$*: exit code $code"
    [ "$(wc -l <"$scratch/err")" -eq 1 ] || fail "$*: not one line: $(cat "$scratch/err")"
    grep -q -- "$words" "$scratch/err" || fail "$*: '$words' is not in: $(cat "$scratch/err")"
    [ ! -s "$scratch/out" ] || fail "$*: said something on stdout"
}

# rejects WORDS FILE: the lint's refusal.
rejects() {
    ask prove gate --candidate "$2" --json
    [ "$code" -eq 1 ] || fail "$2: exit code $code: $(cat "$scratch/err")"
    grep -q '"stage":"lint"' "$scratch/out" || fail "$2: not by the lint: $(cat "$scratch/out")"
    grep -qF -- "$1" "$scratch/out" || fail "$2: '$1' is not in: $(cat "$scratch/out")"
}

one_line 'a .cu file is one of score topk attend merge gate prep commit' prove angles --candidate "$zoo/gate_cuda_prints.cu"
one_line 'compare takes a C candidate' compare gate --tokens 3 --pos 3 --baseline ref --candidate "$zoo/gate_cuda_prints.cu"

ask layout mma
device=$code
[ "$device" -eq 0 ] || one_line 'no CUDA device\|cannot be loaded' layout mma
if grep -q 'cannot be loaded' "$scratch/err"; then
    one_line 'cannot be loaded' prove gate --candidate "$zoo/gate_cuda_prints.cu"
    [ "$status" -ne 0 ] || echo "the lab's part for GPUs is not built"
    exit $status
fi
[ "$device" -eq 0 ] || one_line 'no CUDA device' prove gate --candidate "$zoo/gate_cuda_honest_same.cu"

# with SED NAME: a copy of an honest kernel, changed.
with() {
    sed "$1" "$SRC/lab/examples/cuda/gate_cuda_four.cu" >"$scratch/$2.cu"
}
with 's/LAUNCH:/LUNCH:/' gate_cuda_none
with 's/qsa_sigmoid(qsa_load/qsa_sigmoidal(qsa_load/' gate_cuda_typing
rejects 'has no line // LAUNCH' "$scratch/gate_cuda_none.cu"
rejects 'the compiler says' "$scratch/gate_cuda_typing.cu"
rejects 'uses clock64' "$zoo/gate_cuda_reads_clock.cu"
rejects 'variables in device memory' "$zoo/gate_cuda_caches.cu"
[ -z "$(find "$scratch" -maxdepth 1 -name 'qsa-lab.*')" ] || fail 'scratch was left behind'
exit $status
