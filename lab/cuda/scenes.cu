// SPDX-License-Identifier: Apache-2.0
//
// Inputs are made on the device: gigabytes of them. Cold cases have so many sets that they do not fit L2 (192 MiB at least).

#include "lab/cuda/scenes.h"

#include "lab/cuda/cases.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace {

enum {
    HEADS = 24,
    KV_HEADS = 2,
    DIM = 256,
    INDEX_HEADS = 4,
    INDEX_DIM = 128,
    RATIO = 4,
    BUDGET = 2048,
    PAGE = 64,
    KEEP = 67
};
enum { LAYERS = 12, COLD_BYTES = 192 << 20, MOST_SETS = 96 };

__device__ uint32_t mixed(uint64_t x) {
    x ^= x >> 33, x *= 0xff51afd7ed558ccdull, x ^= x >> 33, x *= 0xc4ceb9fe1a85ec53ull, x ^= x >> 33;
    return (uint32_t)x;
}

__global__ void fill_floats(float *out, size_t count, uint64_t seed) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += (size_t)gridDim.x * blockDim.x) {
        const uint32_t a = mixed(seed + 2 * i), b = mixed(seed + 2 * i + 1); // four uniform parts: about normal
        out[i] = ((float)(a & 0xffff) + (float)(a >> 16) + (float)(b & 0xffff) + (float)(b >> 16)) * 0x1p-16f - 2.0f;
    }
}

__global__ void fill_words(uint32_t *out, size_t count, uint64_t seed) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += (size_t)gridDim.x * blockDim.x)
        out[i] = mixed(seed + i);
}

qsa_geometry model() {
    qsa_geometry g = {};
    g.size = sizeof g;
    g.heads = HEADS, g.kv_heads = KV_HEADS, g.head_dim = DIM, g.index_heads = INDEX_HEADS, g.index_dim = INDEX_DIM;
    g.rotary_dim = 64, g.sections[0] = 11, g.sections[1] = 11, g.sections[2] = 10;
    g.ratio = RATIO, g.budget = BUDGET, g.eps = 1e-6f, g.theta = 1e7;
    return g;
}

size_t up(size_t bytes) {
    return (bytes + 255) / 256 * 256;
}

} // namespace

void *lab_scene::take(size_t bytes) {
    void *memory = nullptr;
    if (dry_)
        return nullptr;
    lab_check(cudaMalloc(&memory, bytes + 256), "memory for inputs");
    memory_.push_back(memory);
    lab_check(cudaMemset(memory, 0, bytes + 256), "memory for inputs");
    return memory;
}

void *lab_scene::random_floats(size_t count) {
    void *memory = take(count * 4);
    if (memory)
        fill_floats<<<1024, 256>>>((float *)memory, count, seed_ += 0x9e3779b97f4a7c15ull);
    return memory;
}

void *lab_scene::random_bytes(size_t count) {
    void *memory = take(count);
    if (memory)
        fill_words<<<1024, 256>>>((uint32_t *)memory, count / 4, seed_ += 0x9e3779b97f4a7c15ull);
    return memory;
}

template <class T> T *lab_scene::copy_of(const std::vector<T> &x) {
    T *memory = (T *)take(x.size() * sizeof(T));
    if (memory)
        lab_check(cudaMemcpy(memory, x.data(), x.size() * sizeof(T), cudaMemcpyHostToDevice), "copy of inputs");
    return memory;
}

int64_t lab_scene::record_stride() const {
    return (int64_t)((BUDGET + RATIO - 1 + 63) / 64) * HEADS * (2 + DIM);
}

// Pages in a shuffled order; only what the kernel reads is there.
void lab_scene::make_cache() {
    const int32_t pages = cells_ / PAGE + 16, slots = pages * PAGE;
    std::vector<int32_t> table(pages);
    for (int32_t i = 0; i < pages; i++)
        table[i] = (int32_t)((int64_t)i * 1009 % pages);
    cache_.geometry = model(), cache_.kv_type = QSA_I8, cache_.block_key_type = QSA_F32;
    cache_.page_cells = PAGE, cache_.table_pages = pages, cache_.tables = copy_of(table), cache_.keep = KEEP;
    if (kernel_ == LAB_DEVICE_attend || kernel_ == LAB_DEVICE_prep) {
        cache_.k = random_bytes((size_t)slots * KV_HEADS * DIM),
        cache_.v = random_bytes((size_t)slots * KV_HEADS * DIM);
        cache_.k_scales = copy_of(std::vector<uint16_t>((size_t)slots * KV_HEADS * 4, 0x2000)); // 2^-7
        cache_.v_scales = copy_of(std::vector<uint16_t>((size_t)slots * KV_HEADS * 4, 0x2000));
    }
    if (kernel_ == LAB_DEVICE_prep) {
        cache_.block_keys = random_floats((size_t)slots / RATIO * INDEX_DIM);
        cache_.raw = (float *)random_floats((size_t)KEEP * INDEX_DIM),
        cache_.raw_pending = (float *)take(KEEP * INDEX_DIM * 4);
        cache_.raw_positions = (int32_t *)take(KEEP * 12), cache_.raw_positions_pending = (int32_t *)take(KEEP * 12);
        cache_.events = (unsigned long long *)take(24);
    }
}

void lab_scene::make_rows() {
    std::vector<qsa_cuda_row> rows(rows_);
    const bool batch = kernel_ == LAB_DEVICE_prep; // consecutive tokens; else all see as much
    for (int32_t i = 0; i < rows_; i++)
        rows[i] = {
            batch ? cells_ - rows_ + i + 1 : cells_, 0, batch ? i - 1 : -1, 1, batch && rows_ - i <= KEEP, {i, i, i}};
    row_list_ = copy_of(rows);
    counts_ = copy_of(std::vector<int32_t>(rows_, BUDGET / RATIO));
    cut_index_ = copy_of(std::vector<int32_t>(rows_, -1));
    cut_cells_ = copy_of(std::vector<int32_t>(rows_, 0));
}

// For each row one block out of each of as many equal parts of the sequence.
int32_t *lab_scene::make_ids(int number) {
    const int32_t wanted = BUDGET / RATIO, part = cells_ / RATIO / wanted;
    std::vector<int32_t> ids((size_t)rows_ * wanted);
    uint64_t x = seed_ + (uint64_t)number * 0x9e3779b97f4a7c15ull + 1;
    for (size_t i = 0; i < ids.size(); i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        ids[i] = (int32_t)(i % wanted) * part + (int32_t)(x % (uint64_t)part);
    }
    return copy_of(ids);
}

void lab_scene::make_set(int number) {
    set s = {};
    const size_t n = (size_t)rows_;
    switch (kernel_) {
    case LAB_DEVICE_score:
        s.a = random_floats(n * INDEX_HEADS * INDEX_DIM),
        s.b = random_floats((size_t)(cells_ / PAGE + 16) * PAGE / RATIO * INDEX_DIM);
        break;
    case LAB_DEVICE_topk:
        s.a = random_floats(n * (size_t)(cells_ / RATIO));
        break;
    case LAB_DEVICE_attend:
        s.a = random_floats(n * HEADS * DIM), s.ids = make_ids(number);
        break;
    case LAB_DEVICE_merge:
        s.a = random_floats(n * (size_t)record_stride()), s.ids = make_ids(number);
        break;
    case LAB_DEVICE_gate:
        s.a = random_floats(n * HEADS * DIM), s.b = random_floats(n * HEADS * DIM);
        break;
    case LAB_DEVICE_prep:
        s.a = random_floats(n * ((HEADS + 2 * KV_HEADS) * DIM + (INDEX_HEADS + 1) * INDEX_DIM));
        break;
    default:
        s.a = random_floats(n * LAYERS * KEEP * INDEX_DIM), s.b = random_bytes(n * LAYERS * KEEP * 12);
        break;
    }
    set_.push_back(s);
}

lab_scene::lab_scene(int kernel, const lab_device_case &what, uint64_t seed, bool dry)
    : kernel_(kernel), dry_(dry), rows_(what.rows), cells_(what.cells), seed_(seed) {
    const size_t n = (size_t)rows_, blocks = (size_t)(cells_ / RATIO);
    const size_t out[LAB_DEVICE_KERNELS] = {n * blocks * 4,
                                            up(n * (BUDGET / RATIO + 1) * 4) + 3 * up(n * 4),
                                            up(n * (size_t)record_stride() * 4) + up(n * 4),
                                            up(n * HEADS * DIM * 4) + up(n * HEADS * 4),
                                            n * HEADS * DIM * 4,
                                            n * (HEADS + 2 * KV_HEADS) * DIM * 4 + n * INDEX_HEADS * INDEX_DIM * 4,
                                            up(n * LAYERS * KEEP * INDEX_DIM * 4) + up(n * LAYERS * KEEP * 12)};
    const size_t read[LAB_DEVICE_KERNELS] = {
        blocks * INDEX_DIM * 4, n * blocks * 4,   n * BUDGET * KV_HEADS * DIM * 2,  n * (size_t)record_stride() * 4,
        n * HEADS * DIM * 8,    n * 32 * DIM * 4, n * LAYERS * KEEP * INDEX_DIM * 4};
    slot_bytes_ = up(out[kernel]);
    if (what.cold)
        sets_ = (int)std::min<size_t>(MOST_SETS, std::max<size_t>(3, (size_t)COLD_BYTES / read[kernel] + 1));
    make_cache();
    make_rows();
    factor_ = copy_of(std::vector<float>(DIM, 1.1f));
    std::vector<float> frequencies(32);
    std::vector<uint8_t> axis(32);
    for (int i = 0; i < 32; i++)
        frequencies[i] = (float)pow(1e7, -i / 32.0), axis[i] = (uint8_t)(i % 3);
    inv_freq_ = copy_of(frequencies), axis_ = copy_of(axis);
    std::vector<int32_t> spans;
    for (int32_t i = 0; i < rows_; i++)
        spans.insert(spans.end(), {i, cells_, KEEP});
    spans_ = copy_of(spans);
    for (int i = 0; i < (dry ? 1 : sets_); i++)
        make_set(i);
    if (!dry)
        lab_check(cudaDeviceSynchronize(), "making inputs");
}

lab_scene::~lab_scene() {
    for (void *memory : memory_)
        cudaFree(memory);
}

const void *lab_scene::args(int number, unsigned char *slot) {
    const set &s = set_[number];
    const int64_t n = rows_;
    float *out = (float *)slot;
    const qsa_cuda_selection chosen = {s.ids, BUDGET / RATIO, counts_, cut_index_, cut_cells_};
    const qsa_geometry g = model();
    memset(&args_, 0, sizeof args_);
    switch (kernel_) {
    case LAB_DEVICE_score:
        args_.score = {cache_, row_list_, rows_, cells_, (const float *)s.a, out, cells_ / RATIO, 1};
        args_.score.cache.block_keys = s.b;
        break;
    case LAB_DEVICE_topk: {
        unsigned char *ids = slot, *counts = ids + up(n * (BUDGET / RATIO + 1) * 4);
        const qsa_cuda_selection made = {(int32_t *)ids, BUDGET / RATIO + 1, (int32_t *)counts,
                                         (int32_t *)(counts + up(n * 4)), (int32_t *)(counts + 2 * up(n * 4))};
        args_.topk = {g, row_list_, rows_, cells_, QSA_RULE_OFFICIAL, (const float *)s.a, cells_ / RATIO, made, 0};
        break;
    }
    case LAB_DEVICE_attend:
        args_.attend = {cache_, row_list_,          0,
                        rows_,  (const float *)s.a, chosen,
                        out,    record_stride(),    (int32_t *)(slot + up(n * (size_t)record_stride() * 4))};
        break;
    case LAB_DEVICE_merge:
        args_.merge = {g,
                       row_list_,
                       0,
                       rows_,
                       chosen,
                       (const float *)s.a,
                       record_stride(),
                       nullptr,
                       {},
                       {out, QSA_F32, HEADS * DIM * 4, DIM * 4},
                       (float *)(slot + up(n * HEADS * DIM * 4))};
        break;
    case LAB_DEVICE_gate:
        args_.gate = {g,
                      rows_,
                      {s.a, QSA_F32, HEADS * DIM * 4, DIM * 4},
                      {s.b, QSA_F32, HEADS * DIM * 4, DIM * 4},
                      {out, QSA_F32, HEADS * DIM * 4, DIM * 4}};
        break;
    case LAB_DEVICE_prep: {
        const int64_t q = HEADS * DIM, kv = KV_HEADS * DIM, iq = INDEX_HEADS * INDEX_DIM,
                      all = (q + 2 * kv + iq + INDEX_DIM) * 4;
        const float *raw = (const float *)s.a;
        args_.prep = {cache_,
                      row_list_,
                      rows_,
                      {raw, QSA_F32, all, DIM * 4},
                      {raw + q, QSA_F32, all, DIM * 4},
                      {raw + q + kv, QSA_F32, all, DIM * 4},
                      {raw + q + 2 * kv, QSA_F32, all, INDEX_DIM * 4},
                      {raw + q + 2 * kv + iq, QSA_F32, all, INDEX_DIM * 4},
                      factor_,
                      factor_,
                      factor_,
                      factor_,
                      inv_freq_,
                      axis_,
                      out,
                      out + n * (q + 2 * kv),
                      out + n * q,
                      out + n * (q + kv)};
        break;
    }
    default:
        args_.commit = {INDEX_DIM,      KEEP,
                        LAYERS,         out,
                        (float *)s.a,   (int32_t *)(slot + up(n * LAYERS * KEEP * INDEX_DIM * 4)),
                        (int32_t *)s.b, n * KEEP,
                        spans_,         rows_};
        break;
    }
    return &args_;
}

void lab_scene_resources(lab_module *module, int kernel, lab_device_resources out[LAB_DEVICE_CASES]) {
    for (int i = 0; i < LAB_DEVICE_CASES && lab_device_cases[kernel][i].name; i++) {
        lab_scene scene(kernel, lab_device_cases[kernel][i], 1, true);
        out[i] = module->resources(kernel, scene.args(0, nullptr));
        snprintf(out[i].at, sizeof out[i].at, "%s", lab_device_cases[kernel][i].name);
    }
}
