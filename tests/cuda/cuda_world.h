// SPDX-License-Identifier: Apache-2.0
//
// What the tests of the CUDA kernels and the lab share: random numbers with the awkward values among them, buffers that live
// on both sides, and a random cache with its sequences. The host's side of a buffer is given to the reference, the
// device's to the kernel; then both must hold the same bytes, the guards on both sides included. What nobody has set
// holds g_poison.

#ifndef QSA_TESTS_CUDA_WORLD_H
#define QSA_TESTS_CUDA_WORLD_H

#include "kernels/cuda_args.h"
#include "lab/cuda/device.h"
extern "C" {
#include "kernels/kernels.h"
}
#include "num/load.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <cuda_runtime.h>

inline uint64_t g_state = 88172645463325252ull;
inline uint64_t rnd() {
    g_state ^= g_state << 13;
    g_state ^= g_state >> 7;
    g_state ^= g_state << 17;
    return g_state * 0x2545f4914f6cdd1dull >> 11;
}
inline int32_t below(int64_t n) {
    return (int32_t)(rnd() % (uint64_t)n);
}
inline int32_t between(int32_t low, int32_t high) {
    return low + below((int64_t)high - low + 1);
}
inline bool chance(int one_in) {
    return below(one_in) == 0;
}
template <class T> T pick(std::initializer_list<T> list) {
    return list.begin()[below((int64_t)list.size())];
}

// About normal; `odd` > 0: one in `odd` is a value that kernels get wrong.
inline float number(int odd) {
    if (odd && chance(odd)) {
        const uint32_t bits[] = {0x7fc00000u, 0xffc12345u, 0x7f800000u, 0xff800000u, 0x80000000u,
                                 0u,          1u,          0x80000001u, 0x00400000u, 0x7f7fffffu,
                                 0xff7fffffu, 0x477ff000u, 0x33000000u, 0x7f7f8000u};
        return qsa_f32_of_bits(bits[below(14)]);
    }
    const uint64_t r = rnd(); // three parts of 17 of its 53 bits
    return ((float)(r & 0x1ffff) + (float)(r >> 17 & 0x1ffff) + (float)(r >> 34 & 0x1ffff)) * 0x1p-17f * 1.15f - 1.725f;
}
inline void put(unsigned char *p, qsa_type type, int64_t i, float x) {
    if (type == QSA_F32)
        memcpy(p + 4 * i, &x, 4); // NaN bits as they are
    else
        qsa_put(p, type, (int32_t)i, x);
}

// Launches kernel LAB_DEVICE_* with its argument struct; a cudaError_t as a number. Set by the program.
inline int (*g_run)(int kernel, const void *args);
// Takes an error of the device in place of ending the program, and a difference in place of printing it. May be null.
inline void (*g_on_error)(const char *what, const char *text);
inline void (*g_on_difference)(const char *text);
inline unsigned char g_poison = 0xff;
inline bool g_skipped; // the last run was of another kernel than the lab wants: its outputs are the reference's

inline void check(int error, const char *what) {
    if (error && g_on_error)
        g_on_error(what, cudaGetErrorString((cudaError_t)error));
    if (error) {
        printf("FATAL %s: %s\n", what, cudaGetErrorString((cudaError_t)error));
        exit(1);
    }
}
inline void run(int kernel, const void *args, const char *what) {
    check(g_run(kernel, args), what);
}

inline int g_failures;
inline std::string g_case;

struct buffer;
inline std::vector<buffer *> g_buffers; // all that are alive

struct buffer {
    static constexpr size_t GUARD = 4096;
    std::vector<unsigned char> h; // the bytes, and the guard behind them
    unsigned char *d = nullptr;   // on the device, with a guard on either side
    const char *name = "an input";
    explicit buffer(size_t bytes = 0) {
        size(bytes);
        g_buffers.push_back(this);
    }
    buffer(const buffer &) = delete;
    ~buffer() {
        if (d)
            cudaFree(d - GUARD);
        g_buffers.erase(std::find(g_buffers.begin(), g_buffers.end(), this));
    }
    static unsigned char guard(size_t i) {
        return (unsigned char)(0xc3 + 31 * i);
    }
    void size(size_t bytes) {
        h.assign(bytes + GUARD, g_poison);
        for (size_t i = 0; i < GUARD; i++)
            h[bytes + i] = guard(i);
    }
    template <class T> T *host() {
        return (T *)(void *)h.data();
    }
    template <class T> T *dev() {
        return (T *)(void *)d;
    }
    void up() {
        if (!d) {
            std::vector<unsigned char> before(GUARD);
            for (size_t i = 0; i < GUARD; i++)
                before[i] = guard(i + 7);
            check(cudaMalloc(&d, h.size() + GUARD), "malloc");
            check(cudaMemcpy(d, before.data(), GUARD, cudaMemcpyHostToDevice), "copy");
            d += GUARD;
        }
        check(cudaMemcpy(d, h.data(), h.size(), cudaMemcpyHostToDevice), "copy");
    }
    // What lies on the device, both guards included.
    std::vector<unsigned char> all() const {
        std::vector<unsigned char> got(h.size() + GUARD);
        check(cudaMemcpy(got.data(), d - GUARD, got.size(), cudaMemcpyDeviceToHost), "run");
        return got;
    }
    // Compares the device's bytes with the host's.
    bool same(const char *what) {
        if (g_skipped) {
            up();
            return true;
        }
        const std::vector<unsigned char> got = all();
        for (size_t i = 0; i < GUARD; i++)
            if (got[i] != guard(i + 7))
                return differ(what, "writes before its start", i, got[i], guard(i + 7));
        if (memcmp(got.data() + GUARD, h.data(), h.size()) == 0)
            return true;
        size_t at = 0, count = 0;
        for (size_t i = h.size(); i-- > 0;)
            if (got[GUARD + i] != h[i])
                at = i, count++;
        const size_t word = at / 4 * 4;
        uint32_t a = 0, b = 0;
        memcpy(&a, h.data() + word, std::min<size_t>(4, h.size() - word));
        memcpy(&b, got.data() + GUARD + word, std::min<size_t>(4, h.size() - word));
        return differ(what, std::to_string(count) + " bytes differ", at, b, a);
    }

  private:
    bool differ(const char *what, const std::string &how, size_t at, uint32_t have, uint32_t want) {
        char text[500];
        snprintf(text, sizeof text, "%.200s %s, %s: byte %zu of %zu: want %08x %g, have %08x %g", g_case.c_str(), what,
                 how.c_str(), at, h.size() - GUARD, want, qsa_f32_of_bits(want), have, qsa_f32_of_bits(have));
        if (g_on_difference)
            g_on_difference(text);
        printf("FAIL %s\n", text);
        g_failures++;
        return false;
    }
};

// A caller's array at any alignment and with any strides, and its description on either side.
struct raw_rows {
    buffer b;
    qsa_type type;
    int64_t row_stride, head_stride, start;
    // PLAIN: bf16 without gaps, as a model gives them; WHOLE: any type without gaps.
    enum way { ANY, PLAIN, WHOLE };
    void make(const char *name, int32_t rows, int32_t heads, int32_t dim, int odd, int how) {
        const bool plain = how != ANY;
        b.name = name;
        type = how == PLAIN ? QSA_BF16 : pick({QSA_F32, QSA_F16, QSA_BF16});
        const int64_t size = (int64_t)qsa_type_size(type);
        const int64_t step = plain || chance(3) ? 0 : chance(2) ? size * between(0, 9) : between(0, 9);
        head_stride = dim * size + step;
        row_stride = heads * head_stride + step;
        start = plain || chance(3) ? 0 : chance(2) ? size : between(0, 7);
        b.size((size_t)(rows * row_stride + start));
        unsigned char *base = b.h.data() + start;
        if (!plain && rows && chance(6)) { // backwards
            start += (rows - 1) * row_stride;
            row_stride = -row_stride;
            base = b.h.data() + start;
        }
        for (int32_t i = 0; i < rows; i++)
            for (int32_t h = 0; h < heads; h++)
                for (int32_t e = 0; e < dim; e++) {
                    const float x = number(odd);
                    unsigned char *at = base + i * row_stride + h * head_stride;
                    put(at, type, e, x);
                    if (x != x && size == 2 && (e & 1)) // a NaN that no conversion made
                        memset(at + 2 * (size_t)e, 0xff, 2);
                }
        b.up();
    }
    qsa_rows dev() {
        return {b.d + start, type, row_stride, head_stride};
    }
    qsa_rows_out dev_out() {
        return {b.d + start, type, row_stride, head_stride};
    }
    unsigned char *at(int64_t row, int64_t head) {
        return b.h.data() + start + row * row_stride + head * head_stride;
    }
};

inline qsa_geometry preset() {
    qsa_geometry g = {};
    g.size = sizeof g;
    g.heads = 24, g.kv_heads = 2, g.head_dim = 256, g.index_heads = 4, g.index_dim = 128, g.rotary_dim = 64;
    g.sections[0] = 11, g.sections[1] = 11, g.sections[2] = 10;
    g.ratio = 4, g.budget = 2048, g.eps = 1e-6f, g.theta = 1e7;
    return g;
}

inline qsa_geometry any_geometry() {
    qsa_geometry g = preset();
    g.kv_heads = between(1, 3);
    g.heads = g.kv_heads * pick({1, 2, 3, 4, 5, 8, 12, 13, 17, 64});
    g.head_dim = pick({2, 3, 15, 16, 17, 31, 64, 65, 96, 128, 200, 256, 256, 257, 300, 1000, 1024});
    g.index_heads = pick({1, 2, 3, 4, 4, 5, 8, 33});
    g.index_dim = pick({2, 5, 16, 33, 64, 128, 128, 128, 130, 256, 1024});
    const int32_t most = std::min(g.head_dim, g.index_dim) / 2;
    g.rotary_dim = 2 * (chance(2) && most >= 32 ? 32 : between(1, most));
    g.ratio = pick({1, 2, 3, 4, 4, 5, 7, 16, 64, 256});
    g.budget = g.ratio * between(1, g.ratio > 16 ? 3 : 40);
    return g;
}

// Sizes that the kernels have a faster way for.
inline qsa_geometry wide_geometry() {
    qsa_geometry g = preset();
    g.kv_heads = between(1, 5);
    g.heads = g.kv_heads * between(1, 12);
    g.head_dim = pick({128, 256, 256}), g.index_dim = pick({128, 128, 256});
    g.index_heads = between(1, 9);
    g.ratio = pick({1, 2, 3, 4, 4, 7, 32, 33});
    g.budget = g.ratio * between(1, 40);
    return g;
}

// A cache whose sequences hold random cells.
struct world {
    qsa_geometry g;
    qsa_type kv_type, key_type;
    int32_t page_cells, table_pages, pages, sequences, keep;
    size_t kv_bytes, key_bytes, groups;
    buffer tables, k, v, k_scales, v_scales, keys, raw, raw_pending, positions, positions_pending, events;

    world(const qsa_geometry &geometry, int32_t most_cells, int32_t n, int odd) : g(geometry), sequences(n) {
        kv_type = pick({QSA_F32, QSA_F16, QSA_BF16, QSA_I8});
        key_type = pick({QSA_F32, QSA_F16, QSA_BF16});
        tables.name = "page tables", k.name = "k", v.name = "v", k_scales.name = "k_scales", v_scales.name = "v_scales";
        keys.name = "block_keys", raw.name = "raw", raw_pending.name = "raw_pending", positions.name = "raw_positions";
        positions_pending.name = "raw_positions_pending", events.name = "events";
        page_cells = g.ratio * (g.ratio > 16 ? between(1, 2) : between(1, 20));
        table_pages = most_cells / page_cells + 1;
        pages = table_pages * sequences;
        keep = chance(3) ? 0 : std::max(1, between(0, 9) + g.ratio - 1);
        groups = (size_t)(g.head_dim + QSA_GROUP - 1) / QSA_GROUP;
        kv_bytes = qsa_type_size(kv_type) * (size_t)g.head_dim;
        key_bytes = qsa_type_size(key_type) * (size_t)g.index_dim;
        tables.size((size_t)pages * 4);
        for (int32_t i = 0; i < pages; i++)
            tables.host<int32_t>()[i] = i;
        for (int32_t i = pages - 1; i > 0; i--)
            std::swap(tables.host<int32_t>()[i], tables.host<int32_t>()[below(i + 1)]);
        const size_t rows = (size_t)pages * page_cells * g.kv_heads, blocks = (size_t)pages * (page_cells / g.ratio);
        const size_t slots = keep ? (size_t)sequences * keep : (size_t)pages * page_cells;
        k.size(rows * kv_bytes);
        v.size(rows * kv_bytes);
        keys.size(blocks * key_bytes);
        raw.size(slots * g.index_dim * 4);
        positions.size(slots * 12);
        events.size(24);
        memset(events.h.data(), 0, 24);
        if (keep) {
            raw_pending.size(slots * g.index_dim * 4);
            positions_pending.size(slots * 12);
        }
        for (buffer *b : {&k, &v})
            for (size_t i = 0; i < rows * g.head_dim; i++)
                if (kv_type == QSA_I8)
                    b->h[i] = (unsigned char)(int8_t)((int)(rnd() % 255) - 127);
                else
                    put(b->h.data(), kv_type, (int64_t)i, number(odd));
        if (kv_type == QSA_I8)
            for (buffer *b : {&k_scales, &v_scales}) {
                b->size(rows * groups * 2);
                for (size_t i = 0; i < rows * groups; i++)
                    b->host<uint16_t>()[i] =
                        odd && chance(odd) ? (uint16_t)below(65536) : qsa_f16_of_f32(number(0) * 0x1p-6f);
            }
        for (size_t i = 0; i < blocks * g.index_dim; i++)
            put(keys.h.data(), key_type, (int64_t)i, number(odd));
        for (size_t i = 0; i < slots * g.index_dim; i++)
            put(raw.h.data(), QSA_F32, (int64_t)i, number(odd));
        for (size_t i = 0; i < slots * 3; i++)
            positions.host<int32_t>()[i] = below(300000);
        for (buffer *b : {&tables, &k, &v, &k_scales, &v_scales, &keys, &raw, &raw_pending, &positions,
                          &positions_pending, &events})
            b->up();
    }
    qsa_cuda_cache dev() {
        qsa_cuda_cache c = {};
        c.geometry = g, c.kv_type = kv_type, c.block_key_type = key_type;
        c.page_cells = page_cells, c.table_pages = table_pages, c.tables = tables.dev<int32_t>();
        c.k = k.d, c.v = v.d, c.block_keys = keys.d;
        c.k_scales = kv_type == QSA_I8 ? k_scales.dev<uint16_t>() : nullptr;
        c.v_scales = kv_type == QSA_I8 ? v_scales.dev<uint16_t>() : nullptr;
        c.keep = keep, c.raw = raw.dev<float>(), c.raw_positions = positions.dev<int32_t>();
        c.raw_pending = keep ? raw_pending.dev<float>() : c.raw;
        c.raw_positions_pending = keep ? positions_pending.dev<int32_t>() : c.raw_positions;
        c.events = events.dev<unsigned long long>();
        return c;
    }
    const int32_t *table(int32_t sequence) {
        return tables.host<int32_t>() + (size_t)sequence * table_pages;
    }
    int64_t cell_row(int32_t sequence, int32_t cell) { // of KV head 0
        return (int64_t)table(sequence)[cell / page_cells] * page_cells * g.kv_heads + cell % page_cells;
    }
    int64_t slot(int32_t sequence, int32_t cell) {
        return keep ? (int64_t)sequence * keep + cell % keep
                    : (int64_t)table(sequence)[cell / page_cells] * page_cells + cell % page_cells;
    }
    unsigned char *key_at(int32_t sequence, int32_t block) {
        const int32_t page_blocks = page_cells / g.ratio;
        return keys.h.data() +
               ((size_t)table(sequence)[block / page_blocks] * page_blocks + block % page_blocks) * key_bytes;
    }
    std::string text() {
        char t[256];
        snprintf(t, sizeof t, "H%d/%d D%d IH%d ID%d R%d r%d B%d kv%d key%d page%d keep%d", g.heads, g.kv_heads,
                 g.head_dim, g.index_heads, g.index_dim, g.rotary_dim, g.ratio, g.budget, kv_type, key_type, page_cells,
                 keep);
        return t;
    }
};

#endif
