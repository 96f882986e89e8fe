#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test.sh PRESET...: builds each preset, runs its tests (CMakePresets.json says which labels), and
# ends with the table of kernel rows that each of them ran or skipped. All presets run even when one
# fails, so that one red does not hide another; the exit status is 1 if anything failed.
set -eu
cd "$(dirname "$0")/.."

# gcc 12's sanitizers need their shadow where kernels with 32 bits of address randomisation put libraries.
fixed_addresses=""
! setarch "$(uname -m)" -R true 2>/dev/null || fixed_addresses="setarch $(uname -m) -R"

# Where there is no GPU the plugin is only compiled, by cuda.sh.
[ -e /dev/nvidia0 ] || export QSA_CUDA=OFF

failed=""
built=""
for preset in "$@"; do
    echo "== $preset"
    scripts/build.sh "$preset" || { failed="$failed $preset(build)"; continue; }
    if [ "$preset" != tsan ]; then # which runs the threaded tests alone, and no kernel by name
        built="$built $preset"
        rm -f "$(scripts/kernel_rows.sh --file "$preset")"
    fi
    case "$preset" in
    asan | tsan) launcher="$fixed_addresses" ;;
    *) launcher="" ;;
    esac
    $launcher ctest --preset "$preset" --parallel "$(nproc)" || failed="$failed $preset"
done

for preset in $built; do
    scripts/kernel_rows.sh "$preset" || failed="$failed $preset(kernel rows)"
done
[ -z "$failed" ] || { echo "FAILED:$failed" >&2; exit 1; }
