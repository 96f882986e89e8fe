// SPDX-License-Identifier: Apache-2.0
//
// Times of the strict CUDA kernels at the model's geometry: graphs of launches between two events, the median of 20
// replays.

#ifndef QSA_TESTS_CUDA_TIMING_H
#define QSA_TESTS_CUDA_TIMING_H

#include "backend/cuda/launch.h"
#include "cuda_world.h"

#include <functional>

// `launches` of f in a graph; microseconds of one.
inline void time_one(const char *name, int launches, const std::function<void(cudaStream_t)> &f) {
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaEvent_t from, to;
    check(cudaStreamCreate(&stream), "stream");
    check(cudaEventCreate(&from), "event");
    check(cudaEventCreate(&to), "event");
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
    for (int i = 0; i < launches; i++)
        f(stream);
    check(cudaStreamEndCapture(stream, &graph), "capture");
    check(cudaGraphInstantiate(&exec, graph, 0), "graph");
    std::vector<float> times;
    for (int i = 0; i < 23; i++) {
        float ms = 0.0f;
        check(cudaEventRecord(from, stream), "event");
        check(cudaGraphLaunch(exec, stream), "launch");
        check(cudaEventRecord(to, stream), "event");
        check(cudaEventSynchronize(to), name);
        check(cudaEventElapsedTime(&ms, from, to), "event");
        if (i >= 3)
            times.push_back(ms * 1000.0f / (float)launches);
    }
    std::sort(times.begin(), times.end());
    printf("%-36s %9.2f us (least %.2f)\n", name, times[times.size() / 2], times[0]);
    cudaGraphExecDestroy(exec);
    cudaGraphDestroy(graph);
    cudaStreamDestroy(stream);
}

// Device memory filled with random floats in about -2..2, or with positive ones.
inline void *random_floats(size_t count, bool half) {
    std::vector<uint32_t> some(1 << 20);
    for (uint32_t &x : some) {
        const float a = number(0), b = number(0);
        x = half ? (uint32_t)qsa_bf16_of_f32(a) | (uint32_t)qsa_bf16_of_f32(b) << 16
                 : qsa_bits_of_f32(fabsf(a) + fabsf(b));
    }
    char *d = nullptr;
    const size_t bytes = half ? count * 2 : count * 4, each = some.size() * 4;
    check(cudaMalloc(&d, bytes + 256), "malloc");
    for (size_t at = 0; at < bytes; at += each)
        check(cudaMemcpy(d + at, some.data(), std::min(each, bytes - at), cudaMemcpyHostToDevice), "copy");
    return d;
}

template <class T> T *device_of(const std::vector<T> &x) {
    T *d = nullptr;
    check(cudaMalloc(&d, x.size() * sizeof(T) + 256), "malloc");
    check(cudaMemcpy(d, x.data(), x.size() * sizeof(T), cudaMemcpyHostToDevice), "copy");
    return d;
}
template <class T> T *device_room(size_t count) {
    T *d = nullptr;
    check(cudaMalloc(&d, count * sizeof(T) + 256), "malloc");
    check(cudaMemset(d, 0, count * sizeof(T)), "set");
    return d;
}

// prep of the last rows before cell n: raw rows in one fused buffer.
inline void time_prep(const qsa_cuda_cache &c, qsa_type type, int32_t rows, int32_t n) {
    std::vector<qsa_cuda_row> r(rows);
    for (int32_t i = 0; i < rows; i++)
        r[i] = {n - rows + i + 1, 0, i - 1, 1, rows - i <= 67, {n + i, n + i, n + i}};
    const int64_t size = type == QSA_F32 ? 4 : 2, head = 256 * size, index = 128 * size;
    const int64_t q = 24 * head, kv = 2 * head, iq = 4 * index, stride = q + 2 * kv + iq + index;
    char *raw = (char *)random_floats((size_t)(rows * stride / size), size == 2);
    std::vector<float> frequencies(32);
    for (int i = 0; i < 32; i++)
        frequencies[i] = (float)pow(1e7, -i / 32.0);
    std::vector<uint8_t> axis(32);
    for (int i = 0; i < 32; i++)
        axis[i] = (uint8_t)(i % 3);
    float *factor = device_of(std::vector<float>(256, 1.1f));
    const qsa_cuda_prep_args a = {c,
                                  device_of(r),
                                  rows,
                                  {raw, type, stride, head},
                                  {raw + q, type, stride, head},
                                  {raw + q + kv, type, stride, head},
                                  {raw + q + 2 * kv, type, stride, index},
                                  {raw + q + 2 * kv + iq, type, stride, index},
                                  factor,
                                  factor,
                                  factor,
                                  factor,
                                  device_of(frequencies),
                                  device_of(axis),
                                  device_room<float>((size_t)rows * 24 * 256),
                                  device_room<float>((size_t)rows * 512),
                                  nullptr,
                                  nullptr};
    char name[96];
    snprintf(name, sizeof name, "prep %d, %s rows", rows, size == 4 ? "f32" : "bf16");
    time_one(name, 20, [&](cudaStream_t s) { check(qsa_prep_cuda(&a, s), "prep"); });
}

inline int time_all() {
    const qsa_geometry g = preset();
    const int32_t n = 131072, page = 64, pages = n / page + 64, cells = pages * page, most_rows = 2048;
    std::vector<int32_t> table(pages);
    for (int32_t i = 0; i < pages; i++)
        table[i] = (int32_t)((int64_t)i * 1009 % pages);
    qsa_cuda_cache c = {};
    c.geometry = g, c.kv_type = QSA_I8, c.block_key_type = QSA_F32, c.page_cells = page, c.table_pages = pages;
    c.tables = device_of(table);
    c.k = random_floats((size_t)cells * 2 * 64, false), c.v = random_floats((size_t)cells * 2 * 64, false);
    c.k_scales = (uint16_t *)device_of(std::vector<uint16_t>((size_t)cells * 8, 0x2000));
    c.v_scales = (uint16_t *)device_of(std::vector<uint16_t>((size_t)cells * 8, 0x2000));
    c.block_keys = random_floats((size_t)cells / 4 * 128, false);
    c.keep = 67, c.raw = device_room<float>(67 * 128), c.raw_pending = device_room<float>(67 * 128);
    c.raw_positions = device_room<int32_t>(67 * 3), c.raw_positions_pending = device_room<int32_t>(67 * 3);
    c.events = device_room<unsigned long long>(3);
    char name[96];
    for (const qsa_type type : {QSA_BF16, QSA_F32})
        for (int32_t rows : {1, 8, 2048})
            time_prep(c, type, rows, n);
    std::vector<qsa_cuda_row> far(most_rows);
    float *scores = (float *)random_floats((size_t)most_rows * 32768, false);
    for (int32_t rows : {1, 2048})
        for (int32_t blocks : {8192, 32768, 65536}) {
            if (rows == 1 ? blocks == 8192 : blocks == 65536)
                continue;
            for (qsa_cuda_row &r : far)
                r = {blocks * 4, 0, -1, 1, 0, {0, 0, 0}};
            const qsa_cuda_selection s = {device_room<int32_t>((size_t)rows * 513), 513, device_room<int32_t>(rows),
                                          device_room<int32_t>(rows), device_room<int32_t>(rows)};
            const qsa_cuda_topk_args a = {g, device_of(far), rows, blocks * 4, QSA_RULE_OFFICIAL, scores, blocks, s, 0};
            snprintf(name, sizeof name, "topk %d x %d", rows, blocks);
            time_one(name, rows == 1 ? 20 : 4, [&](cudaStream_t t) { check(qsa_topk_cuda(&a, t), "topk"); });
        }
    const float *q = (const float *)random_floats((size_t)64 * 24 * 256, false);
    for (int32_t rows : {1, 64}) {
        for (qsa_cuda_row &r : far)
            r = {n, 0, -1, 1, 0, {0, 0, 0}};
        qsa_cuda_row *r = device_of(far);
        const qsa_cuda_score_args score = {c, r, rows, n, q, scores, n / 4, 1};
        snprintf(name, sizeof name, "score %d rows at n = %d", rows, n);
        time_one(name, 20, [&](cudaStream_t t) { check(qsa_score_cuda(&score, t), "score"); });
        std::vector<int32_t> ids((size_t)rows * 512);
        for (size_t i = 0; i < ids.size(); i++)
            ids[i] = (int32_t)(i % 512 * 64 + rnd() % 64);
        const qsa_cuda_selection s = {device_of(ids), 512, device_of(std::vector<int32_t>(rows, 512)), nullptr,
                                      nullptr};
        const int64_t row_stride = (int64_t)33 * 24 * 258;
        const qsa_cuda_attend_args attend = {
            c, r, 0, rows, q, s, device_room<float>((size_t)(rows * row_stride)), row_stride, nullptr};
        const qsa_cuda_merge_args merge = {
            g,          r,
            0,          rows,
            s,          attend.records,
            row_stride, nullptr,
            {},         {device_room<float>((size_t)rows * 24 * 256), QSA_F32, 24 * 1024, 1024},
            nullptr};
        snprintf(name, sizeof name, "attend %d rows", rows);
        time_one(name, 20, [&](cudaStream_t t) { check(qsa_attend_cuda(&attend, t), "attend"); });
        snprintf(name, sizeof name, "merge %d rows", rows);
        time_one(name, 20, [&](cudaStream_t t) { check(qsa_merge_cuda(&merge, t), "merge"); });
        snprintf(name, sizeof name, "attend + merge %d rows", rows);
        time_one(name, 20, [&](cudaStream_t t) {
            check(qsa_attend_cuda(&attend, t), "attend");
            check(qsa_merge_cuda(&merge, t), "merge");
        });
    }
    return 0;
}

#endif
