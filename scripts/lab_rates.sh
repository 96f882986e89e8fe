#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# lab_rates.sh FILE [NULLS [TENS]]: measures how often the lab is wrong on this machine. Appends one line to FILE per live run until it
# holds NULLS runs of a kernel against its own bytes (200; none may be kept or rejected) and TENS of an honest +10 % (30; none may
# be rejected, and 20 should be kept where the machine is fit), then prints the rates. May be stopped and started again.
#   WAIT=SECONDS  before each run, waits up to so long for a moment in which at most BUSY others run (0 and 0)
#   LIMIT, PROCESSES, PAIRS  as `qsa-lab time` takes them (60, 9, 12)
set -euo pipefail
cd "$(dirname "$0")/.."
file="${1:?usage: lab_rates.sh FILE [NULLS [TENS]]}"
nulls="${2:-200}"
tens="${3:-30}"
wait_most="${WAIT:-0}"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export XDG_CACHE_HOME="$scratch/cache"
lab=build/qsa-lab
touch "$file"

"$lab" freeze gate=ten --from lab/cheats/gate_base_ten_avx2.c --frozen "$scratch/frozen" >/dev/null
"$lab" freeze gate=same --from avx2 --frozen "$scratch/frozen" >/dev/null

# A moment is quiet when three looks in a row find nobody running besides this script and BUSY others.
quiet_moment() {
    local tries=0 calm=0 running
    while [ "$calm" -lt 3 ] && [ "$tries" -lt $((5 * wait_most)) ]; do
        running=$(cut -d' ' -f4 /proc/loadavg | cut -d/ -f1)
        if [ "$running" -le $((1 + ${BUSY:-0})) ]; then calm=$((calm + 1)); else calm=0; fi
        tries=$((tries + 1))
        sleep 0.2
    done
}

# one KIND BASELINE SEED: a live run, as "kind seed verdict reason".
one() {
    local code=0
    quiet_moment
    "$lab" time gate --candidate src/kernels/merge/gate_avx2.c --baseline "$2" --frozen "$scratch/frozen" --seed "$3" \
        --short-grid --limit "${LIMIT:-60}" --processes "${PROCESSES:-9}" --pairs "${PAIRS:-12}" \
        >"$scratch/said" 2>"$scratch/error" || code=$?
    [ "$code" -le 2 ] || { cat "$scratch/error" >&2; exit 3; }
    echo "$1 $3 $(tail -n 1 "$scratch/said")" >>"$file"
}

count() { grep -c "^$1 " "$file" || true; }
# In turn, so that both see the same hours.
while [ "$(count null)" -lt "$nulls" ] || [ "$(count ten)" -lt "$tens" ]; do
    [ "$(count null)" -ge "$nulls" ] || one null same "$((1000 + $(count null)))"
    [ "$(count ten)" -ge "$tens" ] || one ten ten "$((5000 + $(count ten)))"
done

verdicts() { # verdicts KIND WORDS
    grep "^$1 " "$file" | grep -c -- "$2" || true
}
for kind in null ten; do
    printf '%-5s %4d runs: %d keep, %d reject, %d inconclusive (%d the machine unfit, %d disturbed)\n' "$kind" "$(count $kind)" \
        "$(verdicts $kind ' keep: ')" "$(verdicts $kind ' reject: ')" "$(verdicts $kind ' inconclusive: ')" \
        "$(verdicts $kind 'machine unfit')" "$(verdicts $kind 'were disturbed')"
done
