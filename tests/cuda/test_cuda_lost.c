// SPDX-License-Identifier: Apache-2.0
//
// A device that is lost: outputs at an address that is no memory of it end every kernel after them. Calls return a status with
// the device's words, nothing crashes, and everything can be taken down.
// LABELS: cuda
// RUNNER: plain
#include "cuda_test.h"

#include "host/host_copies.h"
#include "support/fixture.h"
#include "support/plain_runner.h"

static void lost(void) {
    const qsa_geometry g = fx_geometry_small();
    const int32_t lengths[1] = {40};
    fx_world *world = fx_world_make(3, &g, 1, 1, lengths, 1);
    fx_options o = fx_options_default();
    o.backend = QSA_BACKEND_CUDA;
    fx_session s = fx_open(world, &o);
    fx_results *r = fx_results_make(&s);
    const int32_t count[FX_MAX_SEQUENCES] = {30};
    fx_step(&s, count, r);
    FX_OK(qsa_context_wait(s.context));
    qsa_rows rows = {.type = QSA_F32, .row_stride = (int64_t)g.heads * g.head_dim * 4, .head_stride = g.head_dim * 4};
    void *memory;
    FX_OK(qsa_memory_alloc(s.context, (size_t)rows.row_stride, &memory));
    rows.data = memory;
    const qsa_rows_out nowhere = {(void *)(uintptr_t)0x10000, QSA_F32, rows.row_stride, rows.head_stride};
    (void)qsa_gate(s.context, &g, 1, &rows, &rows, &nowhere);
    PLAIN_CHECK_INT(qsa_context_wait(s.context), QSA_ERR_DEVICE);
    PLAIN_CHECK(strstr(qsa_last_error(), "qsa_context_wait") != NULL);
    qsa_cache_events events = {.size = sizeof events};
    PLAIN_CHECK_INT(qsa_cache_get_events(s.cache, &events), QSA_ERR_DEVICE);
    void *more = NULL;
    PLAIN_CHECK(qsa_memory_alloc(s.context, 1 << 20, &more) != QSA_OK);
    qsa_memory_free(s.context, memory, (size_t)rows.row_stride);
    fx_results_free(r);
    fx_close(&s);
    fx_world_free(world);
}

int main(void) {
    cuda_need();
    PLAIN_RUN(lost);
    return plain_finish();
}
