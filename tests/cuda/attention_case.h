// SPDX-License-Identifier: Apache-2.0
//
// Caches, rows and selections made from a seed, and attention in float64 over the same cache. Host memory only.

#ifndef QSA_TESTS_CUDA_ATTENTION_CASE_H
#define QSA_TESTS_CUDA_ATTENTION_CASE_H

#include "kernels/cuda_args.h"
#include "num/load.h"

#include <algorithm>
#include <cmath>
#include <vector>

struct attention_random {
    uint64_t state;
    uint64_t next() {
        state += 0x9e3779b97f4a7c15u;
        uint64_t z = state;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return z ^ (z >> 31);
    }
    double uniform() {
        return (double)(next() >> 11) * 0x1p-53;
    }
    float normal() { // twelve uniforms of 16 bits
        int64_t sum = 0;
        for (int i = 0; i < 3; i++)
            for (uint64_t u = next(), k = 0; k < 4; k++, u >>= 16)
                sum += (int64_t)(u & 65535);
        return (float)((double)sum / 65536.0 - 6.0 + 6.0 / 65536.0);
    }
};

struct attention_case {
    qsa_geometry g;
    qsa_type kv_type, out_type;
    int page_cells, table_pages, sequences, most_cells;
    std::vector<int32_t> tables;
    std::vector<unsigned char> k, v;
    std::vector<uint16_t> k_scales, v_scales, gate;
    std::vector<qsa_cuda_row> rows;
    std::vector<float> q;
    std::vector<int32_t> ids, counts, cut_index, cut_cells;
    int stride;
    bool gated;

    int count() const {
        return (int)rows.size();
    }
    int64_t row_of(int sequence, int cell, int kv) const {
        return ((int64_t)tables[(size_t)sequence * table_pages + cell / page_cells] * g.kv_heads + kv) * page_cells +
               cell % page_cells;
    }
    size_t row_bytes() const {
        return (size_t)g.head_dim * qsa_type_size(kv_type);
    }
};

static qsa_geometry attention_geometry(int budget) {
    qsa_geometry g = {};
    g.size = sizeof g, g.heads = 24, g.kv_heads = 2, g.head_dim = 256, g.index_heads = 4, g.index_dim = 128,
    g.rotary_dim = 64;
    g.sections[0] = 11, g.sections[1] = 11, g.sections[2] = 10, g.ratio = 4, g.budget = budget, g.eps = 1e-6f,
    g.theta = 1e7;
    return g;
}

// A cache of `sequences` of `cells`, its pages shuffled.
static void attention_cache(attention_case *c, qsa_type type, int budget, int page_cells, int sequences, int cells,
                            uint64_t seed) {
    attention_random random = {seed};
    c->g = attention_geometry(budget);
    c->kv_type = type, c->page_cells = page_cells, c->sequences = sequences, c->most_cells = cells;
    c->table_pages = (cells + page_cells - 1) / page_cells;
    const int pages = c->table_pages * sequences;
    c->tables.resize((size_t)pages);
    for (int i = 0; i < pages; i++)
        c->tables[(size_t)i] = i;
    for (int i = pages - 1; i > 0; i--)
        std::swap(c->tables[(size_t)i], c->tables[random.next() % (uint64_t)(i + 1)]);
    const size_t rows = (size_t)pages * c->g.kv_heads * page_cells, numbers = rows * c->g.head_dim;
    std::vector<unsigned char> *all[2] = {&c->k, &c->v};
    std::vector<uint16_t> *scales[2] = {&c->k_scales, &c->v_scales};
    for (int kind = 0; kind < 2; kind++) {
        std::vector<unsigned char> &x = *all[kind];
        x.resize(numbers * qsa_type_size(type));
        if (type != QSA_I8) {
            for (size_t i = 0; i < numbers; i++)
                qsa_put(x.data(), type, (int32_t)i, random.normal() * (kind ? 0.8f : 1.0f));
            continue;
        }
        for (size_t i = 0; i < numbers; i += 8) { // two uniform bytes added: -128 .. 126, deviation 51.8
            const uint64_t seven = 0x7f7f7f7f7f7f7f7fu;
            const uint64_t u = ((random.next() & seven) + (random.next() & seven)) ^ 0x8080808080808080u;
            memcpy(x.data() + i, &u, 8);
        }
        scales[kind]->resize(rows * 4);
        for (uint16_t &s : *scales[kind])
            s = qsa_f16_of_f32((0.7f + 0.6f * (float)random.uniform()) / 52.0f * (kind ? 0.8f : 1.0f));
    }
}

static void attention_rows(attention_case *c, const std::vector<int> &cells, const std::vector<int> &sequence,
                           float deviation, qsa_type out_type, bool gated, uint64_t seed) {
    attention_random random = {seed};
    const int n = (int)cells.size();
    c->out_type = out_type, c->gated = gated;
    c->rows.assign((size_t)n, qsa_cuda_row());
    c->q.resize((size_t)n * c->g.heads * c->g.head_dim);
    c->gate.resize(c->q.size());
    for (float &x : c->q)
        x = random.normal() * deviation;
    for (uint16_t &x : c->gate)
        x = qsa_bf16_of_f32(2.0f * random.normal());
    for (int i = 0; i < n; i++) {
        c->rows[(size_t)i].cells = cells[(size_t)i];
        c->rows[(size_t)i].sequence = sequence.empty() ? 0 : sequence[(size_t)i];
        c->rows[(size_t)i].attends = 1;
    }
    c->stride = c->g.budget / c->g.ratio + 1;
    c->ids.assign((size_t)n * c->stride, -7);
    c->counts.assign((size_t)n, 0);
    c->cut_index.assign((size_t)n, -1);
    c->cut_cells.assign((size_t)n, 0);
}

// Random ids for row i, ascending; cut: one more block, cut.
static void attention_select(attention_case *c, int i, bool cut, attention_random *random) {
    const int n = c->rows[(size_t)i].cells, blocks = n / c->g.ratio, k = c->g.budget / c->g.ratio;
    if (n <= c->g.budget + c->g.ratio - 1)
        return;
    const int left = c->g.ratio - 1 - n % c->g.ratio, take = k + (cut && left > 0 && blocks > k);
    int32_t *ids = c->ids.data() + (size_t)i * c->stride;
    int taken = 0;
    for (int b = 0; b < blocks && taken < take; b++) // reservoir by need: each of the rest is equally likely
        if ((int)(random->next() % (uint64_t)(blocks - b)) < take - taken)
            ids[taken++] = b;
    c->counts[(size_t)i] = take;
    if (take > k)
        c->cut_index[(size_t)i] = (int)(random->next() % (uint64_t)take), c->cut_cells[(size_t)i] = left;
}

// `walk`: scores follow s = 0.995 s + 0.0999 N(0, 1) from row to row, rows in order of one sequence.
static void attention_walk(attention_case *c, attention_random *random) {
    const int k = c->g.budget / c->g.ratio;
    std::vector<float> s((size_t)c->most_cells / c->g.ratio + 1);
    std::vector<int32_t> order(s.size());
    for (float &x : s)
        x = random->normal();
    for (int i = 0; i < c->count(); i++) {
        const int blocks = c->rows[(size_t)i].cells / c->g.ratio;
        for (int b = 0; b < blocks; b++) {
            s[(size_t)b] = 0.995f * s[(size_t)b] + 0.0999f * random->normal();
            order[(size_t)b] = b;
        }
        std::nth_element(order.begin(), order.begin() + k, order.begin() + blocks,
                         [&](int x, int y) { return s[(size_t)x] > s[(size_t)y]; });
        std::sort(order.begin(), order.begin() + k);
        std::copy(order.begin(), order.begin() + k, c->ids.begin() + (int64_t)i * c->stride);
        c->counts[(size_t)i] = k;
    }
}

static std::vector<int> attention_cells(const attention_case *c, int i) {
    const int n = c->rows[(size_t)i].cells, r = c->g.ratio;
    std::vector<int> cells;
    if (n <= c->g.budget + r - 1) {
        for (int j = 0; j < n; j++)
            cells.push_back(j);
        return cells;
    }
    for (int j = 0; j < c->counts[(size_t)i]; j++) {
        const int id = c->ids[(size_t)i * c->stride + j];
        for (int p = 0; p < (j == c->cut_index[(size_t)i] ? c->cut_cells[(size_t)i] : r); p++)
            if (id >= 0 && id < n / r)
                cells.push_back(id * r + p);
    }
    for (int j = n / r * r; j < n; j++)
        cells.push_back(j);
    return cells;
}

// out[D] and lse of row i and head h in float64.
static void attention_reference(const attention_case *c, int i, int h, double *out, double *lse) {
    const int D = c->g.head_dim, kv = h / (c->g.heads / c->g.kv_heads);
    const float *q = c->q.data() + ((size_t)i * c->g.heads + h) * D;
    std::vector<int> cells = attention_cells(c, i);
    std::vector<double> s(cells.size());
    std::vector<float> x((size_t)D);
    double most = -INFINITY, sum = 0;
    for (size_t j = 0; j < cells.size(); j++) {
        const int64_t row = c->row_of(c->rows[(size_t)i].sequence, cells[j], kv);
        qsa_decode_row(x.data(), c->k.data() + (size_t)row * c->row_bytes(),
                       c->kv_type == QSA_I8 ? c->k_scales.data() + row * (D / 64) : 0, c->kv_type, D);
        double dot = 0;
        for (int d = 0; d < D; d++)
            dot += (double)q[d] * x[(size_t)d];
        s[j] = dot / sqrt((double)D);
        most = s[j] > most || s[j] != s[j] ? s[j] : most;
    }
    std::fill(out, out + D, 0.0);
    for (size_t j = 0; j < cells.size(); j++) {
        const int64_t row = c->row_of(c->rows[(size_t)i].sequence, cells[j], kv);
        qsa_decode_row(x.data(), c->v.data() + (size_t)row * c->row_bytes(),
                       c->kv_type == QSA_I8 ? c->v_scales.data() + row * (D / 64) : 0, c->kv_type, D);
        const double p = exp(s[j] - most);
        sum += p;
        for (int d = 0; d < D; d++)
            out[d] += p * x[(size_t)d];
    }
    *lse = cells.empty() ? -INFINITY : most + log(sum);
    for (int d = 0; d < D && !cells.empty(); d++) {
        const double gate = qsa_f32_of_bf16(c->gate[((size_t)i * c->g.heads + h) * D + d]);
        out[d] = out[d] / sum / (c->gated ? 1.0 + exp(-gate) : 1.0);
    }
}

// Worst relative l2 of the heads of row i; lse's largest error goes to *lse_error. A NaN never passes.
static double attention_error(const attention_case *c, int i, const void *out, const float *lse, double *lse_error) {
    const int D = c->g.head_dim;
    std::vector<double> want((size_t)D);
    double worst = 0;
    for (int h = 0; h < c->g.heads; h++) {
        double want_lse, e = 0, n = 0;
        attention_reference(c, i, h, want.data(), &want_lse);
        for (int d = 0; d < D; d++) {
            const double got = qsa_load(out, c->out_type, (int32_t)(((int64_t)i * c->g.heads + h) * D + d));
            e += (got - want[(size_t)d]) * (got - want[(size_t)d]), n += want[(size_t)d] * want[(size_t)d];
        }
        e = n > 0 ? sqrt(e / n) : sqrt(e);
        worst = e <= worst ? worst : e; // NaN is taken
        if (lse) {
            const double got = lse[(size_t)i * c->g.heads + h], d = got == want_lse ? 0 : fabs(got - want_lse);
            *lse_error = d <= *lse_error ? *lse_error : d;
        }
    }
    return worst;
}

#endif
