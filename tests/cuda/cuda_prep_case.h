// SPDX-License-Identifier: Apache-2.0
//
// prep and commit of a random batch, against what append.c makes of it with the reference's kernels.

#ifndef QSA_TESTS_CUDA_PREP_CASE_H
#define QSA_TESTS_CUDA_PREP_CASE_H

#include "cuda_world.h"

static int g_cases;

// Rows of several sequences in one batch, in any order; lengths[s] cells are committed before.
static std::vector<qsa_cuda_row> make_rows(world &w, std::vector<int32_t> lengths, std::vector<int32_t> pending) {
    std::vector<qsa_cuda_row> rows;
    std::vector<int32_t> last(lengths.size(), -1), left = pending;
    int32_t total = 0;
    for (int32_t n : pending)
        total += n;
    int32_t s = 0;
    for (int32_t i = 0; i < total; i++) {
        if (chance(3) || !left[s])
            do
                s = below((int64_t)left.size());
            while (!left[s]);
        qsa_cuda_row r = {};
        r.cells = ++lengths[s];
        r.sequence = s;
        r.previous = last[s];
        r.attends = !chance(4);
        left[s]--;
        r.keeps = !w.keep || left[s] < w.keep;
        for (int a = 0; a < 3; a++)
            r.positions[a] = chance(8) ? 2147483647 - below(100) : below(300000);
        last[s] = i;
        rows.push_back(r);
    }
    return rows;
}

static void upload(buffer &b, const std::vector<qsa_cuda_row> &rows) {
    b.name = "rows";
    b.size(rows.size() * sizeof(qsa_cuda_row));
    memcpy(b.h.data(), rows.data(), rows.size() * sizeof(qsa_cuda_row));
    b.up();
}

struct prep_case {
    world &w;
    raw_rows q, k, v, iq, ik;
    buffer factor[4], inv_freq, axis, q_out, iq_out, k_out, v_out, rows;
    std::vector<qsa_cuda_row> r;
    int32_t half = 0;
    explicit prep_case(world &cache) : w(cache) {}
    void angles(const int32_t *positions, float *c, float *s) {
        const qsa_angles_args a = {inv_freq.host<float>(), axis.host<uint8_t>(), positions, half, c, s};
        qsa_angles_ref(&a);
    }
    void turn(raw_rows &x, int32_t row, int32_t heads, int32_t dim, buffer &f, const float *c, const float *s,
              float *out) {
        const qsa_norm_rope_args a = {
            x.at(row, 0), x.type, x.head_stride, heads, dim, half, f.host<float>(), c, s, w.g.eps, out, dim};
        qsa_norm_rope_ref(&a);
    }
    void store(int64_t at, bool value, const void *x, qsa_type type) {
        buffer &codes = value ? w.v : w.k, &scales = value ? w.v_scales : w.k_scales;
        const qsa_store_args a = {x,
                                  type,
                                  0,
                                  1,
                                  w.g.head_dim,
                                  w.kv_type,
                                  codes.h.data() + at * w.kv_bytes,
                                  0,
                                  w.kv_type == QSA_I8 ? scales.host<uint16_t>() + at * w.groups : nullptr,
                                  0,
                                  w.events.host<uint64_t>()};
        qsa_store_ref(&a);
    }
    void block(int32_t i) {
        std::vector<qsa_raw_key> keys(w.g.ratio);
        const int32_t *positions = nullptr;
        float c[QSA_MAX_HEAD_DIM / 2], s[QSA_MAX_HEAD_DIM / 2];
        for (int32_t n = w.g.ratio - 1, row = i; n >= 0; n--) {
            if (row >= 0) {
                keys[n] = {ik.at(row, 0), ik.type};
                positions = r[row].positions;
                row = r[row].previous;
            } else {
                const int64_t slot = w.slot(r[i].sequence, r[i].cells - w.g.ratio + n);
                keys[n] = {w.raw.host<float>() + slot * w.g.index_dim, QSA_F32};
                positions = w.positions.host<int32_t>() + slot * 3;
            }
        }
        angles(positions, c, s);
        const qsa_pool_args a = {keys.data(),
                                 w.g.ratio,
                                 w.g.index_dim,
                                 half,
                                 factor[3].host<float>(),
                                 c,
                                 s,
                                 w.g.eps,
                                 w.key_type,
                                 w.key_at(r[i].sequence, r[i].cells / w.g.ratio - 1),
                                 w.events.host<uint64_t>()};
        qsa_pool_ref(&a);
    }
    void reference(int32_t i) {
        const qsa_geometry &g = w.g;
        float c[QSA_MAX_HEAD_DIM / 2], s[QSA_MAX_HEAD_DIM / 2], key[QSA_MAX_HEAD_DIM];
        angles(r[i].positions, c, s);
        if (r[i].attends) {
            turn(q, i, g.heads, g.head_dim, factor[0], c, s, q_out.host<float>() + (int64_t)i * g.heads * g.head_dim);
            turn(iq, i, g.index_heads, g.index_dim, factor[2], c, s,
                 iq_out.host<float>() + (int64_t)i * g.index_heads * g.index_dim);
        }
        for (int32_t h = 0; h < g.kv_heads; h++) {
            const int64_t at = w.cell_row(r[i].sequence, r[i].cells - 1) + (int64_t)h * w.page_cells;
            const int64_t out = ((int64_t)i * g.kv_heads + h) * g.head_dim;
            const qsa_norm_rope_args a = {k.at(i, h), k.type, 0,     1,   g.head_dim, half, factor[1].host<float>(),
                                          c,          s,      g.eps, key, 0};
            qsa_norm_rope_ref(&a);
            store(at, false, key, QSA_F32);
            store(at, true, v.at(i, h), v.type);
            memcpy(k_out.host<float>() + out, key, (size_t)g.head_dim * 4);
            qsa_load_row(v_out.host<float>() + out, v.at(i, h), v.type, g.head_dim);
        }
        if (r[i].cells % g.ratio == 0)
            block(i);
    }
    void keep_raw(int32_t i) { // after all blocks: what is committed is read by them
        if (!r[i].keeps)
            return;
        const int64_t slot = w.slot(r[i].sequence, r[i].cells - 1);
        qsa_load_row((w.keep ? w.raw_pending : w.raw).host<float>() + slot * w.g.index_dim, ik.at(i, 0), ik.type,
                     w.g.index_dim);
        memcpy((w.keep ? w.positions_pending : w.positions).host<int32_t>() + slot * 3, r[i].positions, 12);
    }
};

static void test_prep(const qsa_geometry &g, int odd, int plain, int most_rows) {
    const int32_t sequences = between(1, 4);
    std::vector<int32_t> lengths(sequences), pending(sequences);
    int32_t most = 0;
    for (int32_t s = 0; s < sequences; s++) {
        lengths[s] = below(3 * g.ratio + 10), pending[s] = between(s == 0, most_rows);
        most = std::max(most, lengths[s] + pending[s]);
    }
    world w(g, most, sequences, odd);
    prep_case p(w);
    p.r = make_rows(w, lengths, pending);
    p.half = g.rotary_dim / 2;
    const int32_t n = (int32_t)p.r.size();
    upload(p.rows, p.r);
    p.q.make("raw q", n, g.heads, g.head_dim, odd, plain);
    p.k.make("raw k", n, g.kv_heads, g.head_dim, odd, plain);
    p.v.make("raw v", n, g.kv_heads, g.head_dim, odd, plain);
    p.iq.make("raw index_q", n, g.index_heads, g.index_dim, odd, plain);
    p.ik.make("raw index_k", n, 1, g.index_dim, odd, plain);
    for (int f = 0; f < 4; f++) {
        p.factor[f].size(4 * (size_t)(f < 2 ? g.head_dim : g.index_dim));
        for (int32_t d = 0; d < (f < 2 ? g.head_dim : g.index_dim); d++)
            p.factor[f].host<float>()[d] = 1.0f + number(odd ? 4 * odd : 0);
        p.factor[f].up();
    }
    p.inv_freq.size(4 * (size_t)p.half), p.axis.size((size_t)p.half);
    for (int32_t f = 0; f < p.half; f++) {
        p.inv_freq.host<float>()[f] = f ? 1.0f / (1.0f + (float)below(1 << 20)) : 1.0f;
        p.axis.h[f] = (unsigned char)below(3);
    }
    p.q_out.size((size_t)n * g.heads * g.head_dim * 4), p.iq_out.size((size_t)n * g.index_heads * g.index_dim * 4);
    p.k_out.size((size_t)n * g.kv_heads * g.head_dim * 4), p.v_out.size((size_t)n * g.kv_heads * g.head_dim * 4);
    p.inv_freq.name = "inv_freq", p.axis.name = "axis", p.q_out.name = "q_out", p.iq_out.name = "index_q_out";
    p.k_out.name = "k_out", p.v_out.name = "v_out";
    for (buffer *b : {&p.inv_freq, &p.axis, &p.q_out, &p.iq_out, &p.k_out, &p.v_out})
        b->up();
    const qsa_cuda_prep_args a = {w.dev(),
                                  p.rows.dev<qsa_cuda_row>(),
                                  n,
                                  p.q.dev(),
                                  p.k.dev(),
                                  p.v.dev(),
                                  p.iq.dev(),
                                  p.ik.dev(),
                                  p.factor[0].dev<float>(),
                                  p.factor[1].dev<float>(),
                                  p.factor[2].dev<float>(),
                                  p.factor[3].dev<float>(),
                                  p.inv_freq.dev<float>(),
                                  p.axis.d,
                                  p.q_out.dev<float>(),
                                  p.iq_out.dev<float>(),
                                  p.k_out.dev<float>(),
                                  p.v_out.dev<float>()};
    g_case = "prep " + w.text() + " rows " + std::to_string(n);
    run(LAB_DEVICE_prep, &a, "prep");
    for (int32_t i = 0; i < n; i++)
        p.reference(i);
    for (int32_t i = 0; i < n; i++)
        p.keep_raw(i);
    p.q_out.same("q"), p.iq_out.same("index_q"), p.k_out.same("k_out"), p.v_out.same("v_out");
    w.k.same("k"), w.v.same("v"), w.k_scales.same("k_scales"), w.v_scales.same("v_scales");
    w.keys.same("block_keys"), w.raw.same("raw"), w.raw_pending.same("raw_pending");
    w.positions.same("positions"), w.positions_pending.same("positions_pending"), w.events.same("events");
    if (w.keep) { // what was pending becomes committed
        buffer spans(12 * (size_t)sequences);
        for (int32_t s = 0; s < sequences; s++) {
            const int32_t cells = std::min(pending[s], w.keep), first = lengths[s] + pending[s] - cells;
            const int32_t span[3] = {s, first, cells};
            memcpy(spans.h.data() + 12 * s, span, 12);
            for (int32_t c = first; c < first + cells; c++) {
                const int64_t slot = w.slot(s, c);
                memcpy(w.raw.host<float>() + slot * g.index_dim, w.raw_pending.host<float>() + slot * g.index_dim,
                       4 * (size_t)g.index_dim);
                memcpy(w.positions.host<int32_t>() + slot * 3, w.positions_pending.host<int32_t>() + slot * 3, 12);
            }
        }
        spans.name = "spans";
        spans.up();
        const qsa_cuda_cache c = w.dev();
        const qsa_cuda_commit_args commit = {
            g.index_dim,          w.keep,   1, c.raw, c.raw_pending, c.raw_positions, c.raw_positions_pending, 0,
            spans.dev<int32_t>(), sequences};
        g_case = "commit " + w.text();
        run(LAB_DEVICE_commit, &commit, "commit");
        w.raw.same("raw"), w.positions.same("positions");
    }
    g_cases++;
}

#endif
