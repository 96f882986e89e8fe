#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every function that the header declares with QSA_API is called in the misuse tests, and every one that returns a status
# is refused there by name. Control: a name that no test has must be reported.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cat "$SRC"/tests/api/test_misuse_*.c >"$work/tests"
sed -n 's/^QSA_API [^(]*\(qsa_[a-z0-9_]*\)(.*/\1/p' "$SRC/include/qsa/qsa.h" >"$work/all"
sed -n 's/^QSA_API qsa_status \(qsa_[a-z0-9_]*\)(.*/\1/p' "$SRC/include/qsa/qsa.h" >"$work/status"
[ "$(wc -l <"$work/all")" = "$(grep -c '^QSA_API ' "$SRC/include/qsa/qsa.h")" ] ||
    { echo "a QSA_API line of the header is not of the form QSA_API TYPE qsa_name("; exit 1; }
[ "$(wc -l <"$work/status")" -gt 20 ] || { echo "hardly any function returns a status"; exit 1; }

missing() { # missing ALL STATUS: names without a call, or without a refusal
    while read -r name; do
        grep -q "[^a-z_]$name(" "$work/tests" || echo "$name is not called"
    done <"$1"
    while read -r name; do
        grep -q "\"$name\"" "$work/tests" || echo "$name is not refused"
    done <"$2"
}

missing "$work/all" "$work/status" >"$work/missing"
[ ! -s "$work/missing" ] || { cat "$work/missing"; exit 1; }
echo qsa_of_the_future | tee "$work/control" >/dev/null
[ "$(missing "$work/control" "$work/control" | wc -l)" = 2 ] || { echo "control: not caught"; exit 1; }
echo "$(wc -l <"$work/all") functions, $(wc -l <"$work/status") with a status"
