#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# LABELS: install
# The public header compiles alone, as C17 and as C++17, with -pedantic and warnings as errors. Control:
# the same header with a GNU extension appended must be refused by both.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

strict="-pedantic -Wall -Wextra -Wshadow -Wundef -Werror -fsyntax-only"
# shellcheck disable=SC2086 # a list of flags
c17() { # c17 FOLDER
    printf '#include <qsa/qsa.h>\n' | ${CC:-cc} -std=c17 -Wstrict-prototypes $strict -I "$1" -x c -
}
# shellcheck disable=SC2086
cpp17() {
    printf '#include <qsa/qsa.h>\n' | ${CXX:-c++} -std=c++17 $strict -I "$1" -x c++ -
}

c17 "$SRC/include"
cpp17 "$SRC/include"

mkdir "$work/qsa"
{ cat "$SRC/include/qsa/qsa.h"; echo 'typedef int qsa_control[0];'; } >"$work/qsa/qsa.h"
! c17 "$work" 2>/dev/null || { echo "control: C17 took a GNU extension"; exit 1; }
! cpp17 "$work" 2>/dev/null || { echo "control: C++17 took a GNU extension"; exit 1; }
echo "qsa.h compiles as C17 and C++17"
