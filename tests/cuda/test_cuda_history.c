// SPDX-License-Identifier: Apache-2.0
//
// Random histories of a cache on a GPU: appends, drafts taken back, forks, truncation, held pages, snapshots. After each, every
// sequence is byte for byte what its tokens make when they are appended from nothing.
// LABELS: cuda
// RUNNER: plain
#include "cuda_test.h"

#include "support/history.h"
#include "support/plain_runner.h"

static hx_program program;
static hx_counts counts;

static void histories(void) {
    hx_backend = QSA_BACKEND_CUDA;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        int32_t at;
        hx_generate(&program, seed, 50, HX_SOUND);
        const char *failure = hx_run(&program, 25, &at, &counts);
        if (!plain_check(!failure[0], __FILE__, __LINE__, failure)) {
            hx_print(&program);
            return;
        }
    }
    PLAIN_CHECK(counts.copied > 0 && counts.refused > 0);
}

int main(void) {
    cuda_need();
    PLAIN_RUN(histories);
    return plain_finish();
}
