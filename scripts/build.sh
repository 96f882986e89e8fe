#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Configures and builds the presets named, one after the other. In CI (CI=true) warnings are errors. QSA_CUDA and
# QSA_CUDA_PTX_ONLY in the environment are those options of the release preset,
# BUILD_TARGET one target instead of all.
set -eu
cd "$(dirname "$0")/.."
for preset in "$@"; do
    set -- --preset "$preset" --log-level=WARNING
    [ -z "${CI:-}" ] || set -- "$@" -DQSA_WERROR=ON
    [ "$preset" != release ] || set -- "$@" "-DQSA_CUDA=${QSA_CUDA:-AUTO}" "-DQSA_CUDA_PTX_ONLY=${QSA_CUDA_PTX_ONLY:-OFF}"
    cmake "$@"
    cmake --build --preset "$preset" --parallel "$(nproc)" ${BUILD_TARGET:+--target "$BUILD_TARGET"}
done
