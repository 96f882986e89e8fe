#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What the lab shows: compare and pipeline name the first differing element with both bit patterns; layout runs its probes; the
# report is one page with nothing from elsewhere; QSA_LAB_KERNELS reaches the command qsa, lint included.
# LABELS: long
set -eu
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export TMPDIR="$scratch/tmp" XDG_CACHE_HOME="$scratch/cache"
mkdir "$TMPDIR"
status=0
few="--processes 5 --pairs 4 --limit 1"

fail() {
    echo "FAILED: $*"
    status=1
}

# gives CODE ARGUMENT...: this exit code; says PATTERN: it is in what was said.
gives() {
    wanted="$1"
    shift
    code=0
    "$@" >"$scratch/out" 2>"$scratch/err" || code=$?
    [ "$code" -eq "$wanted" ] || fail "$*: exit code $code: $(cat "$scratch/err")"
}
says() {
    grep -qE -- "$1" "$scratch/out" || fail "'$1' is not in: $(cat "$scratch/out")"
}

# One fused multiply-add split by hand.
cat >"$scratch/attend_split_fma.c" <<'END'
#define qsa_attend_ref qsa_attend_split_fma
#include "attend_split.h"
END
sed 's/o\[d\] = fmaf(p, row\[d\], o\[d\]);/o[d] = p * row[d] + o[d];/' "$SRC/src/kernels/attend/attend_ref.c" >"$scratch/attend_split.h"
! cmp -s "$scratch/attend_split.h" "$SRC/src/kernels/attend/attend_ref.c" || fail 'the multiply-add was not found'
# shellcheck disable=SC2086
gives 1 "$QSA_LAB" compare attend --tokens 96 --pos 1984 --baseline fma --candidate "$scratch/attend_split_fma.c" $few
says 'memcmp FAIL'
says 'records\[[0-9]+\] is [-0-9.e]+ \([0-9a-f]{8}\), not [-0-9.e]+ \([0-9a-f]{8}\)'
gives 1 "$QSA_LAB" pipeline --baseline fma --candidate "$scratch/attend_split_fma.c" --tokens 2 --pos 100 --pairs 4
says 'part\[[0-9]+\] is .*, not '
sed 's/_split_fma/_same_fma/; s/"attend_split.h"/"kernels\/attend\/attend_ref.c"/' "$scratch/attend_split_fma.c" >"$scratch/attend_same_fma.c"
# shellcheck disable=SC2086
gives 2 "$QSA_LAB" compare attend --tokens 2 --pos 1984 --baseline fma --candidate "$scratch/attend_same_fma.c" $few
says 'memcmp PASS'
gives 0 "$QSA_LAB" pipeline --baseline fma --candidate "$scratch/attend_same_fma.c" --tokens 4 --pos 2050 --pairs 4
says 'memcmp PASS  32 buffers'
gives 3 "$QSA_LAB" pipeline --baseline fma --candidate "$scratch/attend_same_fma.c" --tokens 4 --pos 2050 --prep-only
grep -q 'attend does not run in a step' "$scratch/err" || fail "$(cat "$scratch/err")"
gives 3 "$QSA_LAB" pipeline --baseline fma --candidate "$scratch/attend_same_fma.c" --tokens 500 --pos 0
grep -q -- '--tokens 500: expected at most 128' "$scratch/err" || fail "$(cat "$scratch/err")"

# A bound instead of bits: the fast rows keep it, and memcmp they do not.
case "$("$QSA" info)" in
*avx2*)
    gives 0 "$QSA_LAB" prove attend --bound --short-grid --candidate "$SRC/src/kernels/attend/attend_avx2_i16.c" --baseline avx2
    says 'bound PASS'
    gives 1 "$QSA_LAB" prove attend --short-grid --candidate "$SRC/src/kernels/attend/attend_avx2_i16.c" --baseline avx2
    says 'memcmp FAIL'
    gives 0 "$QSA_LAB" layout vpmaddubsw
    says '^out\[15\] = a\[30\] b\[30\] \+ a\[31\] b\[31\]$'
    ;;
esac
if command -v qemu-aarch64 >/dev/null && command -v aarch64-linux-gnu-gcc >/dev/null; then
    gives 0 "$QSA_LAB" layout sdot --json
    says '\[\[0,0\],\[1,1\],\[2,2\],\[3,3\]\]'
fi
gives 3 "$QSA_LAB" layout nothing

# The report of a ledger.
gate="$SRC/src/kernels/merge/gate_ref.c"
# shellcheck disable=SC2086
gives 2 "$QSA_LAB" run gate --candidate "$gate" --baseline ref --frozen "$scratch/frozen" --ledger "$scratch/ledger" --short-grid $few
printf '#include "kernels/kernels.h"\nvoid qsa_gate_bad_ref(const qsa_gate_args *args) { (void)args; }\n' >"$scratch/gate_bad_ref.c"
gives 1 "$QSA_LAB" run gate --candidate "$scratch/gate_bad_ref.c" --baseline ref --frozen "$scratch/frozen" --ledger "$scratch/ledger" --short-grid
gives 0 "$QSA_LAB" report --ledger "$scratch/ledger" -o "$scratch/page.html"
grep -q '<svg' "$scratch/page.html" || fail 'the page has no picture'
grep -q 'memcmp: out\[0\] is' "$scratch/page.html" || fail 'the page does not say what differed'
grep -qE 'https?:|<script|<link|src=' "$scratch/page.html" && fail 'the page needs something from elsewhere'
tail -c 8 "$scratch/page.html" | grep -q '</html>' || fail 'the page has no end'

# QSA_LAB_KERNELS.
file="$SRC/tests/golden/real_edge.safetensors"
mkdir "$scratch/good" "$scratch/bad" "$scratch/counting"
cp "$scratch/attend_same_fma.c" "$scratch/good"
cp "$scratch/attend_split_fma.c" "$scratch/attend_split.h" "$scratch/bad"
sha() {
    sed -n 's/.*"attn_sha256":"\([0-9a-f]*\)".*/\1/p' "$scratch/out"
}
gives 0 "$QSA" run "$file" --json
plain=$(sha)
gives 0 env QSA_LAB_KERNELS="$scratch/good" "$QSA" run "$file" --json
[ "$(sha)" = "$plain" ] || fail 'the same kernel gave other bits'
says 'attend_same_fma'
gives 0 env QSA_LAB_KERNELS="$scratch/bad" "$QSA" run "$file" --json
[ "$(sha)" != "$plain" ] || fail 'the candidate was not run'
printf '#include "kernels/kernels.h"\nstatic int n;\nvoid qsa_gate_n_ref(const qsa_gate_args *args) { n++; qsa_gate_ref(args); }\n' >"$scratch/counting/gate_n_ref.c"
gives 2 env QSA_LAB_KERNELS="$scratch/counting" "$QSA" run "$file"
grep -q 'has writable data' "$scratch/err" || fail "$(cat "$scratch/err")"
[ -z "$(find "$TMPDIR" -name 'qsa-lab.*')" ] || fail 'scratch was left'

[ "$status" -ne 0 ] || echo "compare, pipeline, layout, report, QSA_LAB_KERNELS: ok"
exit $status
