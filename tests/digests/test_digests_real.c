// SPDX-License-Identifier: Apache-2.0
//
// tests/digests.txt where it takes longer: the real geometry across the boundary of 2051 cells, images among them, and
// 1,048,576 cells written straight into the cache, so that blocks above 65,535 are scored, selected and attended.
// LABELS: real long
// RUNNER: plain
#include "support/digest.h"

static const digest_scenario scenarios[] = {
    {"real_images", digest_real, .rows = 18, .sequences = 1, .images = true, .first_position = 1000, .raw = QSA_F16},
    {"real_2052", digest_real, 2048, .rows = 5, .sequences = 1, .first_position = 2048, .raw = QSA_BF16},
    {"cells_1048576", digest_long, 1048568, .rows = 8, .sequences = 1, .first_position = 1048568, .raw = QSA_F32,
     .only = QSA_I8},
};

int main(int argc, char **argv) {
    return digest_main(argc, argv, scenarios, sizeof scenarios / sizeof scenarios[0], false);
}
