#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# fuzz.sh [SECONDS]: builds the fuzz preset and runs every target from its corpus, SECONDS (30) of them
# all together. The corpus in the tree is only read; what is found grows in build-fuzz/corpus/, an
# input that crashes is left in build-fuzz/crashes/ and named.
set -eu
cd "$(dirname "$0")/.."

seconds="${1:-30}"
scripts/build.sh fuzz

targets=$(find build-fuzz/fuzz -maxdepth 1 -type f -name 'fuzz_*' -perm -u+x | sort)
count=$(printf '%s\n' "$targets" | grep -c .) || { echo "fuzz: no targets" >&2; exit 1; }
jobs=$(nproc)
[ "$jobs" -le "$count" ] || jobs=$count
each=$((seconds / count))
[ "$each" -ge 1 ] || each=1

mkdir -p build-fuzz/crashes build-fuzz/corpus build-fuzz/log
echo "== fuzz: $count targets, $each s each, $jobs at a time"
# shellcheck disable=SC2016 # the inner shell expands; a dictionary tests/fuzz/<name>.dict is used
printf '%s\n' "$targets" | EACH="$each" xargs -P "$jobs" -I {} sh -c '
    name=$(basename "$1")
    seeds="tests/fuzz/corpus/${name#fuzz_}"
    [ -n "$(ls -A "$seeds" 2>/dev/null)" ] || { echo "fuzz: $seeds is empty" >&2; exit 1; }
    mkdir -p "build-fuzz/corpus/$name"
    dict="tests/fuzz/$name.dict"
    [ -f "$dict" ] && dict="-dict=$dict" || dict=""
    if "$1" $dict -max_total_time="$EACH" -timeout=10 -rss_limit_mb=2048 -max_len=65536 -print_final_stats=1 \
        -artifact_prefix="build-fuzz/crashes/$name-" "build-fuzz/corpus/$name" "$seeds" \
        >"build-fuzz/log/$name" 2>&1; then
        runs=$(sed -n "s/^stat::number_of_executed_units: *//p" "build-fuzz/log/$name")
        echo "  $name: ok, $runs runs"
    else
        echo "  $name: FAILED" >&2
        tail -n 40 "build-fuzz/log/$name" >&2
        exit 1
    fi' sh {}
