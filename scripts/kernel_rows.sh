#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kernel_rows.sh [--file] PRESET: prints the kernel rows of the preset's last test run as a table. The kernel
# test writes them to <build>/kernel_rows.txt, one `row STAGE KERNEL WHERE: run|skipped (REASON)`
# each (--file prints that file's name only). No file, or no row in it, is a failure: then nothing has been compared.
set -eu
cd "$(dirname "$0")/.."

name_only=false
[ "$1" != --file ] || { name_only=true; shift; }
preset="$1"
case "$preset" in
release) rows=build/kernel_rows.txt ;;
*) rows="build-$preset/kernel_rows.txt" ;;
esac
! $name_only || { echo "$rows"; exit 0; }

echo "kernel rows, $preset:"
if ! grep -q '^row ' "$rows" 2>/dev/null; then
    echo "  none: $rows is missing or empty" >&2
    exit 1
fi
sed -n 's/^row \([^ ]*\) \([^ ]*\) \([^:]*\): \(.*\)/\1 \2 \3 \4/p' "$rows" |
    awk '{ state = $4; for (i = 5; i <= NF; i++) state = state " " $i
           printf "  %-8s %-20s %-14s %s\n", $1, $2, $3, state }'
