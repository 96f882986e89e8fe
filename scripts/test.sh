#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test.sh PRESET...: builds each preset, runs its tests (CMakePresets.json says which labels), and
# ends with the table of kernel rows that each of them ran or skipped. All presets run even when one
# fails, so that one red does not hide another; the exit status is 1 if anything failed.
set -eu
cd "$(dirname "$0")/.."

# Sanitizers stop at the first finding. UBSan's default is to go on without a trace of where.
export UBSAN_OPTIONS="print_stacktrace=1${UBSAN_OPTIONS:+:$UBSAN_OPTIONS}"
export TSAN_OPTIONS="halt_on_error=1:second_deadlock_stack=1${TSAN_OPTIONS:+:$TSAN_OPTIONS}"

failed=""
for preset in "$@"; do
    echo "== $preset"
    scripts/build.sh "$preset" || { failed="$failed $preset(build)"; continue; }
    ctest --preset "$preset" --parallel "$(nproc)" || failed="$failed $preset"
done

for preset in "$@"; do
    scripts/kernel_rows.sh "$preset" || failed="$failed $preset(kernel rows)"
done
[ -z "$failed" ] || { echo "FAILED:$failed" >&2; exit 1; }
