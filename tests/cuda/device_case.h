// SPDX-License-Identifier: Apache-2.0
//
// A case of attention_case.h on the device. Part of bench_attention.cu (MUST).

#ifndef QSA_TESTS_CUDA_DEVICE_CASE_H
#define QSA_TESTS_CUDA_DEVICE_CASE_H

#include "attention_case.h"

#include <cuda_runtime.h>

struct device_case {
    std::vector<void *> owned;
    qsa_cuda_attention_args a;
    size_t out_bytes, scratch_limit;
    void *put(const void *host, size_t bytes, int copies = 1) {
        void *p;
        MUST(cudaMalloc(&p, bytes * copies + 256));
        owned.push_back(p);
        if (host && bytes)
            MUST(cudaMemcpy(p, host, bytes, cudaMemcpyHostToDevice));
        for (int i = 1; i < copies && host; i++)
            MUST(cudaMemcpy((char *)p + bytes * i, p, bytes, cudaMemcpyDeviceToDevice));
        return p;
    }
    template <class T> T *put(const std::vector<T> &v, int copies = 1) {
        return (T *)put(v.data(), v.size() * sizeof(T), copies);
    }
    void make(const attention_case &c, int copies = 1) {
        a = {};
        a.cache.geometry = c.g, a.cache.kv_type = c.kv_type, a.cache.page_cells = c.page_cells;
        a.cache.table_pages = c.table_pages;
        std::vector<int32_t> tables = c.tables;
        const int pages = (int)tables.size();
        for (int i = 1; i < copies; i++)
            for (int j = 0; j < pages; j++)
                tables.push_back(i * pages + c.tables[(size_t)j]);
        a.cache.tables = put(tables);
        a.cache.k = put(c.k, copies), a.cache.v = put(c.v, copies);
        a.cache.k_scales = put(c.k_scales, copies), a.cache.v_scales = put(c.v_scales, copies);
        a.most_cells = c.most_cells;
        rows(c);
    }
    void rows(const attention_case &c) {
        a.rows = put(c.rows), a.count = c.count(), a.q = put(c.q);
        a.selection.ids = put(c.ids), a.selection.stride = c.stride, a.selection.counts = put(c.counts);
        a.selection.cut_index = put(c.cut_index), a.selection.cut_cells = put(c.cut_cells);
        const int64_t n = c.g.head_dim, size = (int64_t)qsa_type_size(c.out_type);
        a.gate = {};
        if (c.gated)
            a.gate = {put(c.gate), QSA_BF16, n * c.g.heads * 2, n * 2};
        out_bytes = c.q.size() * size;
        a.out = {put(0, out_bytes), c.out_type, n * c.g.heads * size, n * size};
        a.lse = (float *)put(0, (size_t)c.count() * c.g.heads * 4);
        scratch_limit = 96u << 20;
        a.scratch = put(0, scratch_limit), a.scratch_bytes = scratch_limit;
    }
    ~device_case() {
        for (void *p : owned)
            cudaFree(p);
    }
};

#endif
