// SPDX-License-Identifier: Apache-2.0
//
// tests/digests.txt on small geometries: all formats, text and images, edge values, positions and cells near 262,143.
// LABELS: small cross
// RUNNER: plain
#include "support/digest.h"

static const digest_scenario scenarios[] = {
    {"tiny", digest_tiny, .rows = 72, .sequences = 2, .all_formats = true, .raw = QSA_F32},
    {"tiny_images", digest_tiny, .rows = 40, .sequences = 1, .images = true, .all_formats = true, .raw = QSA_BF16},
    {"odd", digest_odd, .rows = 100, .sequences = 1, .all_formats = true, .raw = QSA_F16},
    {"edges_f32", digest_tiny, .rows = 40, .sequences = 1, .edges = true, .all_formats = true, .raw = QSA_F32},
    {"edges_f16", digest_odd, .rows = 20, .sequences = 2, .edges = true, .raw = QSA_F16},
    {"real_262143", digest_real, .rows = 6, .sequences = 1, .first_position = 262138, .raw = QSA_BF16},
    {"real_1048575", digest_real, .rows = 6, .sequences = 1, .first_position = 1048570, .raw = QSA_F32},
    {"cells_262143", digest_long, 262136, .rows = 8, .sequences = 1, .first_position = 262136, .raw = QSA_BF16},
};

int main(int argc, char **argv) {
    return digest_main(argc, argv, scenarios, sizeof scenarios / sizeof scenarios[0], true);
}
