#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tidy.sh BUILD FILE: clang-tidy on one file as lint.sh wants it.
set -eu
case "$2" in
*/tests/*) checks='-clang-analyzer-*' ;;
*) checks='' ;;
esac
exec clang-tidy -p "$1" --quiet --warnings-as-errors='*' --checks="$checks" \
    --extra-arg=-Wno-unknown-warning-option \
    --extra-arg=-Xclang --extra-arg=-analyzer-config --extra-arg=-Xclang --extra-arg=max-nodes=75000 "$2"
