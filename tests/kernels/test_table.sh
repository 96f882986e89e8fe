#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kernels.tbl and cuda.tbl and the files of src/kernels agree: every src/kernels/<stage>/<stem>.c or .cu has a row
# (stage, kernel, where) with stem = kernel_where (of a .cu file perhaps a part, _cuda_mma_<part>), every row a file, no row is there twice. A file without a
# row would be built and never called. The controls break a copy of the lists in each way.
# LABELS: small
set -eu
status=0
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Rows of a table as stage/stem, one a line; a line that starts as a row and is none comes out as it is.
rows() {
    grep -h '^ *QSA_KERNEL' "$@" |
        sed 's/^QSA_KERNEL(\([a-z0-9_]*\), \([a-z0-9_]*\), \([a-z0-9_]*\), [0-9]*, [A-Z]*)$/\1\/\2_\3/' | sort
}

# Files of a source tree as stage/stem, one a line.
files() {
    (cd "$1" && find . -mindepth 2 -name '*.c' -o -mindepth 2 -name '*.cu') |
        sed -e 's,^\./,,' -e 's/\(_cuda_mma\)_[a-z_]*\.cu$/\1/' -e 's/\.[a-z]*$//' | sort -u
}

# compare ROWS FILES: says every difference; fails if there is one.
compare() {
    result=0
    for name in $(uniq -d "$1"); do
        echo "kernels.tbl has two rows $name"
        result=1
    done
    for name in $(uniq "$1" | comm -23 - "$2"); do
        echo "kernels.tbl has a row $name, but there is no such file"
        result=1
    done
    for name in $(uniq "$1" | comm -13 - "$2"); do
        echo "src/kernels/$name has no row in kernels.tbl"
        result=1
    done
    return $result
}

rows "$SRC/src/kernels/kernels.tbl" "$SRC/src/kernels/cuda.tbl" >"$scratch/rows"
files "$SRC/src/kernels" >"$scratch/files"
count=$(wc -l <"$scratch/rows")
[ "$count" -ge 9 ] || { echo "only $count rows found"; status=1; }
compare "$scratch/rows" "$scratch/files" || status=1

# control NAME MESSAGE: the broken lists must be refused with these words.
control() {
    sort -o "$scratch/broken_rows" "$scratch/broken_rows"
    sort -o "$scratch/broken_files" "$scratch/broken_files"
    if compare "$scratch/broken_rows" "$scratch/broken_files" >"$scratch/said"; then
        echo "control $1: not caught"
        status=1
    elif ! grep -qF "$2" "$scratch/said"; then
        echo "control $1: '$2' was not said, but: $(cat "$scratch/said")"
        status=1
    fi
}
fresh() {
    cp "$scratch/rows" "$scratch/broken_rows"
    cp "$scratch/files" "$scratch/broken_files"
}

fresh
echo score/score_stray >>"$scratch/broken_files"
control "stray file" "src/kernels/score/score_stray has no row"
fresh
sed -i '/score_ref/d' "$scratch/broken_files"
control "row without file" "has a row score/score_ref, but there is no such file"
fresh
sed -i 's,^prep/pool_ref,score/pool_ref,' "$scratch/broken_rows"
control "wrong stage" "has a row score/pool_ref, but there is no such file"
fresh
echo topk/topk_ref >>"$scratch/broken_rows"
control "row twice" "two rows topk/topk_ref"

# The same through the file system: a copy of the tree's kernels with a stray file.
mkdir "$scratch/tree"
cp -R "$SRC/src/kernels/." "$scratch/tree"
echo '// no row' >"$scratch/tree/merge/merge_ref_stray.c"
rows "$scratch/tree/kernels.tbl" >"$scratch/broken_rows"
files "$scratch/tree" >"$scratch/broken_files"
control "stray file in a tree" "src/kernels/merge/merge_ref_stray has no row"
# And a row that the parser does not understand is no row.
echo 'QSA_KERNEL (prep, pool, ref, 0, STRICT)' >"$scratch/odd.tbl"
rows "$scratch/odd.tbl" >"$scratch/broken_rows"
control "odd row" "has a row QSA_KERNEL"

[ "$status" -ne 0 ] || echo "$count rows, as many files"
exit $status
