#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# lint.sh: SPDX lines, layout (clang-format), clang-tidy, cppcheck and shellcheck over the files of the
# tree. Everything is checked even when one check fails; the exit status is 1 if any did.
set -euo pipefail
cd "$(dirname "$0")/.."

failed=""
check() { # check NAME COMMAND...
    local name="$1" start=$SECONDS
    shift
    if "$@"; then
        echo "  $name: ok ($((SECONDS - start)) s)"
    else
        echo "  $name: FAILED" >&2
        failed="$failed $name"
    fi
}

# Tracked files, and ones not yet added; a tree without git (a release archive) is searched. Not the lab's baselines, which
# are kept as the preprocessor made them.
files() {
    if git rev-parse --git-dir >/dev/null 2>&1; then
        git ls-files -co --exclude-standard -- "$@"
    else
        local pattern
        for pattern in "$@"; do
            find . -path './build*' -prune -o -type f -name "${pattern##*/}" -print | sed 's,^\./,,'
        done
    fi | sort -u | grep -v '^lab/frozen/' | while IFS= read -r file; do [ ! -f "$file" ] || echo "$file"; done
}

mapfile -t c_files < <(files '*.c' '*.h')
# Headers of .cu files are C++ and read by nvcc alone.
mapfile -t plain_c < <(printf '%s\n' "${c_files[@]}" | grep -vE '/cuda_(cases|io|prep_case|timing|world)\.h$|^lab/cuda/(compile|layout|module|prove|scenes|time)\.h$|/[a-z_]*_cuda(_mma[a-z_]*)?\.h$|^tests/cuda/(attention_case|check_choose|check_wgmma|device_case)\.h$')
mapfile -t scripts < <(files '*.sh' '.ci/run')
mapfile -t owned < <(files '*.c' '*.h' '*.cu' '*.cuh' '*.sh' '*.cmake' 'CMakeLists.txt' 'Makefile' '.ci/run')

spdx() {
    local file status=0
    for file in "${owned[@]}"; do
        if ! head -n 3 "$file" | grep -q 'SPDX-License-Identifier: Apache-2.0'; then
            echo "$file: no SPDX-License-Identifier in its first three lines" >&2
            status=1
        fi
    done
    return $status
}

layout() { printf '%s\0' "${c_files[@]}" | xargs -0 -P "$(nproc)" -n 40 clang-format --dry-run -Werror; }

# clang-tidy reads what the build knows: the debug preset's compile commands, because there the assertions
# tell the analyzer what a kernel may assume. The build is gcc's, so flags that clang does not know are no
# finding. One file per call: with more, clang-tidy 14 reports every va_list as uninitialised. 75000 nodes per
# function is the analyzer's own shallow bound: a third of the time of its default. The analyzer's time goes where it pays:
# tests are read without it (and in CI not at all: it has a quarter of an hour for everything), and of one source compiled for several instruction sets the avx2 file stands for the others.
tidy() {
    cmake --preset debug --log-level=WARNING >/dev/null
    # A file that two targets compile would be read twice, and the second time every va_list is reported (see above).
    mkdir -p build-debug/tidy
    awk '/^\{/ { object = "" } { object = object $0 "\n" } /"file":/ { file = $0 }
         /^\}/ { sub(/\},?\n$/, "}", object); if (!seen[file]++) printf "%s%s", n++ ? ",\n" : "[\n", object }
         END { print "\n]" }' build-debug/compile_commands.json >build-debug/tidy/compile_commands.json
    sed -n 's/^  "file": "\(.*\)",*$/\1/p' build-debug/compile_commands.json | sort -u |
        grep -vE "/build[^/]*/|/src/kernels/.*_(avx512|fma)[^/]*\.c\$${CI:+|/tests/}" |
        tr '\n' '\0' | xargs -0 -P "$(nproc)" -n 1 scripts/tidy.sh build-debug/tidy 2> >(grep -vE ' warnings? generated\.$' >&2)
}

# False alarms of 2.10: legacyUninitvar takes a buffer whose address is stored in a struct for a read of it
# (uninitvar stays on), unknownEvaluationOrder takes designators of compound literals for assignments. invalidPointerCast:
# caches and workspaces are one allocation of bytes that typed arrays are placed in, aligned.
checkpp() {
    cppcheck --enable=warning,performance,portability --error-exitcode=1 --inline-suppr --quiet \
        --std=c11 -j "$(nproc)" --suppress=missingIncludeSystem --suppress=legacyUninitvar \
        --suppress=unknownEvaluationOrder --suppress=invalidPointerCast \
        -Iinclude -Isrc -Itests -D__x86_64__ -D__GNUC__=12 -D_POSIX_C_SOURCE=200809L \
        "${plain_c[@]}"
}

shell() { shellcheck "${scripts[@]}"; }

echo "== lint"
check "SPDX lines" spdx
check clang-format layout
check shellcheck shell
check cppcheck checkpp
check clang-tidy tidy
[ -z "$failed" ] || { echo "lint FAILED:$failed" >&2; exit 1; }
