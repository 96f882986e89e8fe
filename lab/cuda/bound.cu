// SPDX-License-Identifier: Apache-2.0
//
// attend through the contract of the C rows, on host memory: lab/bound.c then holds a CUDA candidate to the float64 oracle as it does
// a C one. The list of cells becomes blocks of one cell each, the cache one page after the other.

#include "lab/cuda/module.h"
#include "lab/cuda/time.h"

extern "C" {
#include "kernels/attend/attend.h"
}

#include <memory>
#include <vector>

namespace {

std::unique_ptr<lab_module> g_bound;
enum { PAGE = 64, CELLS = 2304 }; // lab/bound.c has as many cells

struct memory {
    std::vector<void *> all;
    ~memory() {
        for (void *m : all)
            cudaFree(m);
    }
    template <class T> T *of(const T *from, size_t count) {
        void *to = nullptr;
        lab_check(cudaMalloc(&to, count * sizeof(T) + 256), "memory");
        all.push_back(to);
        lab_check(from ? cudaMemcpy(to, from, count * sizeof(T), cudaMemcpyHostToDevice)
                       : cudaMemset(to, 0xff, count * sizeof(T)),
                  "copy");
        return (T *)to;
    }
};

void call(const qsa_attend_args *a) {
    memory m;
    const int32_t groups = (a->dim + QSA_GROUP - 1) / QSA_GROUP, chunks = (a->count + QSA_CHUNK - 1) / QSA_CHUNK;
    std::vector<int32_t> table(CELLS / PAGE);
    for (size_t i = 0; i < table.size(); i++)
        table[i] = (int32_t)i;
    qsa_cuda_attend_args c = {};
    qsa_geometry *g = &c.cache.geometry;
    g->size = sizeof *g, g->heads = a->heads, g->kv_heads = 1, g->head_dim = a->dim, g->index_heads = 1;
    g->index_dim = 128, g->rotary_dim = 64, g->ratio = 1, g->budget = 2048, g->eps = 1e-6f, g->theta = 1e7;
    c.cache.kv_type = a->format, c.cache.block_key_type = QSA_F32, c.cache.page_cells = PAGE;
    c.cache.table_pages = CELLS / PAGE, c.cache.tables = m.of(table.data(), table.size());
    c.cache.k = m.of((const int8_t *)a->k, (size_t)CELLS * a->dim),
    c.cache.v = m.of((const int8_t *)a->v, (size_t)CELLS * a->dim);
    c.cache.k_scales = m.of(a->k_scales, (size_t)CELLS * groups),
    c.cache.v_scales = m.of(a->v_scales, (size_t)CELLS * groups);
    const qsa_cuda_row row = {CELLS, 0, -1, 1, 0, {0, 0, 0}};
    c.rows = m.of(&row, 1), c.count = 1, c.q = m.of(a->q, (size_t)a->heads * a->dim);
    const int32_t none = -1, zero = 0;
    c.selection = {m.of(a->cells, (size_t)a->count), a->count, m.of(&a->count, 1), m.of(&none, 1), m.of(&zero, 1)};
    const size_t floats = (size_t)(2048 / QSA_CHUNK) * a->heads * (2 + a->dim);
    c.records = m.of((const float *)nullptr, floats), c.row_stride = (int64_t)floats;
    c.chunks = m.of((const int32_t *)nullptr, 1);
    g_bound->launch(LAB_DEVICE_attend, &c, nullptr);
    lab_check(cudaDeviceSynchronize(), "attend");
    for (int32_t k = 0; k < chunks; k++)
        lab_check(cudaMemcpy(a->records + k * a->chunk_stride, c.records + (size_t)k * a->heads * (2 + a->dim),
                             (size_t)a->heads * (2 + a->dim) * sizeof(float), cudaMemcpyDeviceToHost),
                  "copy");
}

} // namespace

bool lab_cuda_bind_attend(const lab_device_arm *arm, char *why, size_t size) {
    try {
        g_bound.reset(new lab_module(*arm, 1));
        return true;
    } catch (const lab_stop &stop) {
        snprintf(why, size, "%s", stop.why.c_str());
        return false;
    }
}

// A call that fails leaves the records poisoned with NaN, which no bound lets pass.
void lab_cuda_call_attend(const void *args) {
    const auto *a = static_cast<const qsa_attend_args *>(args);
    const int32_t chunks = (a->count + QSA_CHUNK - 1) / QSA_CHUNK;
    for (int64_t i = 0; i < (int64_t)(chunks - 1) * a->chunk_stride + a->heads * (2 + a->dim); i++)
        a->records[i] = __builtin_nanf("");
    try {
        call(a);
    } catch (const lab_stop &) {
    }
}
