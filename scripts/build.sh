#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Configures and builds the presets named, one after the other. In CI (CI=true) warnings are errors.
set -eu
cd "$(dirname "$0")/.."
for preset in "$@"; do
    if [ -n "${CI:-}" ]; then
        cmake --preset "$preset" --log-level=WARNING -DQSA_WERROR=ON
    else
        cmake --preset "$preset" --log-level=WARNING
    fi
    cmake --build --preset "$preset" --parallel "$(nproc)"
done
