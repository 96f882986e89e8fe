#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# cuda.sh: compiles the plugin of the backend cuda into the release build, where there is nvcc. Its tests are those labelled
# cuda; without a device they are skipped, and the reason is theirs.
set -eu
cd "$(dirname "$0")/.."
if ! command -v nvcc >/dev/null && [ ! -x /usr/local/cuda/bin/nvcc ]; then
    echo "== cuda: not built, there is no nvcc"
    exit 0
fi
echo "== cuda"
# Without a device nothing can run it: PTX alone says whether it compiles. ptxas would take as long again.
[ -e /dev/nvidia0 ] || export QSA_CUDA_PTX_ONLY=ON
QSA_CUDA=ON scripts/build.sh release
ctest --test-dir build -L cuda --output-on-failure
