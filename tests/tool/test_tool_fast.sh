#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# `qsa run --class fast`: passes the tolerances of the i8 cache, other bits than strict there and the same ones in every other
# format (which no fast kernel takes), and the same bits for every number of threads, every chunk and every row of the class.
# LABELS: real
set -eu
"$QSA" info | grep -q '^cpu  fast *yes' || { echo "no kernel of class fast runs here"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
golden=$SRC/tests/golden/real_edge.safetensors
status=0

digest() { # digest OPTIONS...: of attn; nothing if the run is not within its tolerances
    "$QSA" run "$golden" --json "$@" | sed -n 's/.*"attn_sha256": *"\([0-9a-f]*\)".*/\1/p'
}
differ() { # differ NAME A B
    if [ -z "$2" ] || [ -z "$3" ] || [ "$2" = "$3" ]; then
        echo "FAILED: $1: '$2' and '$3' should differ"
        status=1
    fi
}
same() { # same NAME A B
    if [ -z "$2" ] || [ "$2" != "$3" ]; then
        echo "FAILED: $1: '$2' and '$3' should be the same"
        status=1
    fi
}

strict=$(digest --threads 1)
fast=$(digest --class fast --threads 1)
differ "i8" "$strict" "$fast"
same "two threads" "$fast" "$(digest --class fast --threads 2)"
same "seven threads, chunks of 37" "$fast" "$(digest --class fast --threads 7 --chunk 37)"
same "bf16" "$(digest --kv bf16)" "$(digest --kv bf16 --class fast)"
"$QSA" run "$golden" --class fast >/dev/null || { echo "FAILED: fast is not within the tolerances"; status=1; }
"$QSA" info | sed -n 's/^attend  *attend  *\([a-z0-9_]*\)  *fast .*attend_[a-z0-9_]*$/\1/p' >"$work/rows"
while read -r row; do
    echo "row $row"
    same "$row" "$fast" "$(digest --class fast --kernel "attend=$row")"
done <"$work/rows"
[ -s "$work/rows" ] || { echo "FAILED: no row of class fast is listed"; status=1; }
exit $status
