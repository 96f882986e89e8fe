#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The command qsa-lab: refusals are one line with exit code 3 and name the argument and the value; verdicts have their exit codes;
# an edited baseline is an error; an interrupted or killed lab leaves no record, no process, no lock and (once the next has
# run) no scratch.
# LABELS: long
set -eu
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export TMPDIR="$scratch/tmp" XDG_CACHE_HOME="$scratch/cache"
mkdir "$TMPDIR"
frozen="$scratch/frozen"
ledger="$scratch/ledger"
gate="$SRC/src/kernels/merge/gate_ref.c"
status=0

fail() {
    echo "FAILED: $*"
    status=1
}

# refuses WORDS ARGUMENT...: exit code 3, one line on stderr with these words, nothing on stdout.
refuses() {
    words="$1"
    shift
    code=0
    "$QSA_LAB" "$@" >"$scratch/out" 2>"$scratch/err" || code=$?
    [ "$code" -eq 3 ] || fail "$*: exit code $code"
    [ "$(wc -l <"$scratch/err")" -eq 1 ] || fail "$*: not one line: $(cat "$scratch/err")"
    grep -qF -- "$words" "$scratch/err" || fail "$*: '$words' is not in: $(cat "$scratch/err")"
    [ ! -s "$scratch/out" ] || fail "$*: said something on stdout"
}

# gives CODE WORDS ARGUMENT...: this exit code, and the words on stdout.
gives() {
    wanted="$1" words="$2"
    shift 2
    code=0
    "$QSA_LAB" "$@" >"$scratch/out" 2>"$scratch/err" || code=$?
    [ "$code" -eq "$wanted" ] || fail "$*: exit code $code: $(cat "$scratch/err")"
    grep -qF -- "$words" "$scratch/out" || fail "$*: '$words' is not in: $(cat "$scratch/out")"
}

refuses 'no command given'
refuses 'unknown command nothing' nothing
refuses 'help nothing: no such command' help nothing
refuses 'unknown option --bogus (qsa-lab help prove)' prove gate --bogus
refuses 'unknown option --tokens' prove gate --tokens 3
refuses 'option --candidate needs a value' prove gate --candidate
refuses 'option --json takes no value' list --json=3
refuses 'no KERNEL given' prove
refuses 'one KERNEL expected, and there is also merge' prove gate merge
refuses 'KERNEL nothing: expected one of angles norm_rope' prove nothing --candidate x.c
refuses 'no --candidate FILE given' prove gate
refuses '--seed -3: expected an integer of 64 bits' prove gate --seed -3
refuses '--cases 10: expected an integer from 200' prove gate --cases 10
refuses '--edge 3: expected an integer from 0 to 2' compare gate --edge 3
refuses '--pos x: expected an integer from 0' compare gate --pos x
refuses '--floor 0: expected a number from 0.1 to 50' run gate --floor 0
refuses '--baseline nobody: no frozen baseline and no row of gate' prove gate --candidate "$gate" --baseline nobody --frozen "$frozen"
refuses 'missing.c: No such file' prove gate --candidate "$scratch/missing.c"
refuses '--bound: gate is held to memcmp' prove gate --candidate "$gate" --bound
refuses 'compare needs --tokens T' compare gate --pos 3 --candidate "$gate"
refuses 'compare needs --baseline' compare gate --pos 3 --tokens 2 --candidate "$gate"
refuses 'list takes no operand' list gate
refuses 'gate=: expected KERNEL=NAME' freeze gate=
refuses 'missing.json: No such file' judge "$scratch/missing.json"
echo '{"schema": 7}' >"$scratch/other.json"
refuses 'is no record of schema 1' judge "$scratch/other.json"
echo '{"schema": 1' >"$scratch/half.json"
refuses 'half.json: line' judge "$scratch/half.json"
for command in list freeze prove time run judge report cheats compare pipeline layout; do
    gives 0 "usage: qsa-lab $command" help "$command"
    gives 0 "usage: qsa-lab $command" "$command" --help
done

# Baselines.
gives 0 'frozen gate' freeze gate=plain --from ref --frozen "$frozen"
gives 0 'already frozen' freeze gate=plain --from ref --frozen "$frozen"
gives 0 'memcmp PASS' prove gate --candidate "$gate" --baseline plain --frozen "$frozen" --short-grid
gives 0 '"passed":true' prove gate --candidate "$gate" --baseline plain --frozen "$frozen" --short-grid --json
gives 0 'gate' list --frozen "$frozen" --ledger "$ledger"
"$QSA_LAB" list --frozen "$frozen" --ledger "$ledger" --json >"$scratch/out"
grep -q '"name":"plain"' "$scratch/out" || fail 'list --json does not name the baseline'
for kernel in angles norm_rope store pool screen_key score screen_query screen topk candidates attend merge gate; do
    grep -q "\"kernel\":\"$kernel\"" "$scratch/out" || fail "list --json does not name $kernel"
done
unit=$(echo "$frozen"/*/unit_0.c)
cp "$unit" "$scratch/unit"
echo '/* improved */' >>"$unit"
refuses 'was edited' prove gate --candidate "$gate" --baseline plain --frozen "$frozen"
cp "$scratch/unit" "$unit"

# Candidates.
cat >"$scratch/gate_wrong_ref.c" <<'END'
#include "kernels/kernels.h"
void qsa_gate_wrong_ref(const qsa_gate_args *args) {
    qsa_gate_ref(args);
    *(unsigned char *)args->out ^= 1;
}
END
cat >"$scratch/gate_counts_ref.c" <<'END'
#include "kernels/kernels.h"
static int calls;
void qsa_gate_counts_ref(const qsa_gate_args *args) {
    calls++;
    qsa_gate_ref(args);
}
END
gives 1 'memcmp FAIL' prove gate --candidate "$scratch/gate_wrong_ref.c" --baseline plain --frozen "$frozen" --short-grid
gives 1 'has writable data' prove gate --candidate "$scratch/gate_counts_ref.c" --baseline plain --frozen "$frozen"
gives 1 '"complaint":"memcmp: out[0] is' run gate --candidate "$scratch/gate_wrong_ref.c" --baseline plain --frozen "$frozen" \
    --ledger "$ledger" --short-grid --json
gives 1 'reject: memcmp' judge "$ledger/0001-gate-reject.json"
few="--processes 5 --pairs 4 --limit 1"
# shellcheck disable=SC2086
gives 2 'memcmp PASS' compare gate --tokens 3 --pos 100 --candidate "$gate" --baseline plain --frozen "$frozen" $few
grep -q 'ratio of every pair' "$scratch/out" || fail 'compare prints no pairs'
# shellcheck disable=SC2086
gives 2 'inconclusive' run gate --candidate "$gate" --baseline plain --frozen "$frozen" --ledger "$ledger" --short-grid $few
gives 2 'inconclusive' judge "$ledger/0002-gate-inconclusive.json"
gives 0 '0002-gate-inconclusive.json' list --frozen "$frozen" --ledger "$ledger"
# The proof of the same content was kept, and another seed is another proof.
# shellcheck disable=SC2086
gives 2 'as proved before' time gate --candidate "$gate" --baseline plain --frozen "$frozen" --short-grid $few
# shellcheck disable=SC2086
gives 2 'memcmp PASS' time gate --candidate "$gate" --baseline plain --frozen "$frozen" --short-grid --seed 6 $few
! grep -q 'as proved before' "$scratch/out" || fail 'a proof of another seed was taken'
sed 's/"exit":2/"exit":0/; s/"verdict":"inconclusive"/"verdict":"keep"/' "$ledger/0002-gate-inconclusive.json" >"$scratch/claims.json"
refuses 'says keep, its samples say inconclusive' judge "$scratch/claims.json"

# Interrupts: at several moments, politely and not.
records=$(find "$ledger" -type f | wc -l)
for signal in INT TERM KILL; do
    for pause in 0.1 0.4 1 2; do
        "$QSA_LAB" run gate --candidate "$gate" --baseline plain --frozen "$frozen" --ledger "$ledger" >/dev/null 2>&1 &
        lab=$!
        sleep "$pause"
        kill "-$signal" "$lab" 2>/dev/null || true
        code=0
        wait "$lab" || code=$?
        [ "$signal" = KILL ] || [ "$code" -eq 3 ] || [ "$code" -eq 2 ] || fail "$signal after $pause s: exit code $code"
        [ "$signal" = KILL ] || [ -z "$(find "$TMPDIR" -name 'qsa-lab.*')" ] || fail "$signal left scratch"
    done
done
sleep 0.5
if pgrep -f "$frozen" >/dev/null || pgrep -f "$TMPDIR" >/dev/null; then
    fail 'a process was left'
fi
[ "$(find "$ledger" -type f | wc -l)" -eq "$records" ] || fail "an interrupted run left a record: $(ls -A "$ledger")"
gives 0 'memcmp PASS' prove gate --candidate "$gate" --baseline plain --frozen "$frozen" --short-grid
[ -z "$(find "$TMPDIR" -name 'qsa-lab.*')" ] || fail "scratch of killed labs was left: $(ls -A "$TMPDIR")"
# The lock is free.
# shellcheck disable=SC2086
gives 2 'inconclusive' time gate --candidate "$gate" --baseline plain --frozen "$frozen" $few

# One lab measures at a time: the second waits for the first.
start=$(date +%s)
flock "$TMPDIR/qsa-lab-$(id -u).lock" sleep 4 &
sleep 0.5
# shellcheck disable=SC2086
gives 2 'inconclusive' time gate --candidate "$gate" --baseline plain --frozen "$frozen" --short-grid $few
[ $(($(date +%s) - start)) -ge 4 ] || fail 'the lab did not wait for the other'
wait

[ "$status" -ne 0 ] || echo "usage, verdicts and interrupts: ok"
exit $status
