#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Usage of the command: exit codes, one line on stderr for each refusal, help pages, info, version.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
golden=$SRC/tests/golden/tiny_ratio2.safetensors
failed=0

run() { # run ARGUMENTS...: sets code; stdout and stderr in files
    code=0
    "$QSA" "$@" >"$work/out" 2>"$work/err" || code=$?
}
complain() {
    echo "FAILED: $1 (exit $code)" >&2
    cat "$work/err" >&2
    failed=1
}
refused() { # refused PART ARGUMENTS...: exit 2, one line with PART, nothing on stdout
    part=$1
    shift
    run "$@"
    if [ "$code" != 2 ] || [ "$(wc -l <"$work/err")" != 1 ] || [ -s "$work/out" ] ||
        ! grep -q "^qsa: " "$work/err" || ! grep -qF -e "$part" "$work/err"; then
        complain "qsa $* is not refused with one line that holds \"$part\""
    fi
}
prints() { # prints PART ARGUMENTS...: exit 0, PART on stdout, nothing on stderr
    part=$1
    shift
    run "$@"
    if [ "$code" != 0 ] || [ -s "$work/err" ] || ! grep -qF -e "$part" "$work/out"; then
        complain "qsa $* does not print \"$part\""
    fi
}

refused "no command"
refused "unknown command fly" fly
refused "unknown command" ""
refused "README.md: " run "$SRC/README.md"
refused "no FILE" run
refused "no FILE" run --json
refused "also $golden" run "$golden" "$golden"
refused "unknown option --fast" run "$golden" --fast
refused "unknown option -x" run -x "$golden"
refused "--kv needs a value" run "$golden" --kv
refused "--json takes none" run --json=1 "$golden"
refused "expected one of f32, f16, bf16, i8" run "$golden" --kv f64
refused "expected one of f32, f16, bf16" run "$golden" --block-keys i8
refused "expected one of official, cut" run "$golden" --select best
refused "expected one of strict, fast" run "$golden" --class quick
refused "expected one of cpu, cuda" run "$golden" --backend tpu
refused "cuda" run "$golden" --backend cuda
"$QSA" info | grep -q '^cpu  fast *yes' || refused "class fast" run "$golden" --class fast
refused "--threads 0" run "$golden" --threads 0
refused "--threads 1025" run "$golden" --threads 1025
refused "--threads 2x" run "$golden" --threads 2x
refused "--chunk -1" run "$golden" --chunk -1
refused "--chunk 99999999999999999999" run "$golden" --chunk 99999999999999999999
refused "--tol nan" run "$golden" --tol nan
refused "--tol -1" run "$golden" --tol -1
refused "expected STAGE=NAME" run "$golden" --kernel attend
refused "expected STAGE=NAME" run "$golden" --kernel =ref
# Anything that is no kernel is refused with the list of those that are.
refused "attend_ref" run "$golden" --kernel attend=best
refused "score" run "$golden" --kernel scores=ref
refused "no-such-folder" run "$golden" --out "$work/no-such-folder/x.safetensors"
refused "replace the input" run "$golden" --out "$golden"
refused "no --ctx" size
refused "--ctx 0" size --ctx 0
refused "--ctx 2147483392" size --ctx 2147483392
refused "--layers 0" size --ctx 64 --layers 0
refused "--rollback -1" size --ctx 64 --rollback -1
refused "--rollback some" size --ctx 64 --rollback some
refused "expected one of f32, f16, bf16, i8" size --ctx 64 --kv q4
refused "no multiple of ratio 4" size --ctx 64 --page-cells 6
refused "exceed" size --ctx 2147483391 --kv f32
refused "more than" size --ctx 2147483391 --sequences 1048576
refused "no operand" size --ctx 64 x
refused "unknown option --threads" size --threads 2
refused "no operand" info x
refused "no DIR" make-checkpoint
refused "unknown option --size" make-checkpoint --size 3
refused "unknown option --all" info --all
refused "no argument" version x
refused "unknown command fly" help fly
refused "one command" help run info

prints "usage: qsa COMMAND" help
prints "usage: qsa COMMAND" --help
prints "usage: qsa run" help run
prints "usage: qsa run" run --help
prints "usage: qsa run" run -h
prints "--against" help check
prints "PICTURE" help inspect
prints "usage: qsa size" help size
prints "keys and values" size --ctx 64
prints '"bytes":' size --ctx 262144 --layers 12 --kv i8 --block-keys bf16 --rollback all --screen --json
prints "usage: qsa info" info --help
prints "--checkpoint DIR" help info
prints "usage: qsa make-checkpoint" help make-checkpoint
prints "usage: qsa make-checkpoint" make-checkpoint --help
prints "run --checkpoint $work/ckpt --layer 3" make-checkpoint "$work/ckpt"
prints '"checkpoint":' run --checkpoint "$work/ckpt" --layer 3 --hidden "$work/ckpt/hidden.safetensors" --json
prints "QSA layers: 3" info --checkpoint "$work/ckpt"
prints "usage: qsa version" help version
version=$(sed -n 's/^#define QSA_VERSION_M[AI][JN]OR  *\([0-9]*\)$/\1/p' "$SRC/include/qsa/qsa.h" | paste -sd. -)
prints "qsa $version." version
prints "qsa $version." --version
prints "attend_ref" info
prints '"picked":true' info --json

# Each option that `help run` lists is one that run takes, and the man page has it.
"$QSA" help run | sed -n 's/^  \(--[a-z-]*\).*/\1/p' >"$work/options"
[ "$(wc -l <"$work/options")" = 16 ] || { echo "FAILED: help run lists other options" >&2; failed=1; }
while read -r option; do
    grep -qF -e "$(printf '%s' "$option" | sed 's/-/\\-/g')" "$SRC/docs/qsa.1" ||
        { echo "FAILED: docs/qsa.1 has no $option" >&2; failed=1; }
    run run "$golden" "$option"
    ! grep -q "unknown option" "$work/err" || complain "run does not know $option"
done <"$work/options"

# The progress bar is for terminals.
run run "$golden"
if [ "$code" != 0 ] || [ -s "$work/err" ]; then
    complain "run is not quiet"
fi
# A full disk is not silent.
if [ -w /dev/full ]; then
    code=0
    "$QSA" run "$golden" >/dev/full 2>"$work/err" || code=$?
    if [ "$code" != 2 ] || [ "$(wc -l <"$work/err")" != 1 ]; then
        complain "a full stdout is no error"
    fi
fi

# Too little memory is a line, at whatever point it is found out (OpenBLAS would wait for ever for its buffer). The
# sanitizers need more address space than that even to start.
export OPENBLAS_NUM_THREADS=1
for kilobytes in 120000 200000 300000 360000; do
    # shellcheck disable=SC3045 # dash has ulimit -v
    if (ulimit -v $kilobytes && "$QSA" version >"$work/out"; exit $?) 2>/dev/null; then
        code=0
        (ulimit -v $kilobytes && exec timeout 60 "$QSA" run "$SRC/tests/golden/real_edge.safetensors" --threads 1) \
            >"$work/out" 2>"$work/err" || code=$?
        if [ "$code" != 2 ] || [ -s "$work/out" ] || [ "$(wc -l <"$work/err")" != 1 ]; then
            complain "run in $kilobytes KB of memory"
        fi
    fi
done
exit $failed
