// SPDX-License-Identifier: Apache-2.0
//
// Runs the text of the fast CUDA attention on the CPU (mma_emulated.h) against float64.
//   g++ -std=c++17 -O2 -DQSA_EMULATED -Iinclude -Isrc -Itests/cuda tests/cuda/emulate_attention.cpp

#include "attention_case.h"
#include "kernels/attend/attention_cuda_mma_row.h"

#include <cstdio>

static qsa_cuda_attention_args args_of(attention_case *c, void *out, float *lse) {
    qsa_cuda_attention_args a = {};
    a.cache.geometry = c->g, a.cache.kv_type = c->kv_type, a.cache.page_cells = c->page_cells;
    a.cache.table_pages = c->table_pages, a.cache.tables = c->tables.data();
    a.cache.k = c->k.data(), a.cache.v = c->v.data(), a.cache.k_scales = c->k_scales.data(), a.cache.v_scales = c->v_scales.data();
    a.rows = c->rows.data(), a.count = c->count(), a.most_cells = c->most_cells, a.q = c->q.data();
    a.selection = {c->ids.data(), c->stride, c->counts.data(), c->cut_index.data(), c->cut_cells.data()};
    const int64_t n = c->g.head_dim;
    if (c->gated)
        a.gate = {c->gate.data(), QSA_BF16, n * c->g.heads * 2, n * 2};
    const int64_t size = (int64_t)qsa_type_size(c->out_type);
    a.out = {out, c->out_type, n * c->g.heads * size, n * size};
    a.lse = lse;
    return a;
}

template <int FORM>
static int check(qsa_type type, qsa_type out_type, float deviation, bool cut, bool gated) {
    attention_case c;
    attention_cache(&c, type, 256, 64, 1, 700, 5);
    attention_rows(&c, {0, 1, 3, 64, 127, 255, 259, 260, 261, 447, 700}, {}, deviation, out_type, gated, 6);
    attention_random random = {7};
    for (int i = 0; i < c.count(); i++)
        attention_select(&c, i, cut, &random);
    if (c.counts[9]) // ids of blocks that are not there
        c.ids[(size_t)9 * c.stride + 5] = 1 << 29, c.ids[(size_t)9 * c.stride + 60] = -3;
    const size_t bytes = c.q.size() * qsa_type_size(out_type);
    std::vector<unsigned char> out(bytes, 0xff), split(bytes, 0xff);
    std::vector<float> lse((size_t)c.count() * c.g.heads, NAN), lse_split(lse);
    const int tiles = (c.g.budget + 7 + 63) / 64, kv = c.g.kv_heads;
    std::vector<float> records((size_t)c.count() * kv * tiles * QSA_RECORD_FLOATS, NAN);
    const qsa_cuda_attention_args a = args_of(&c, out.data(), lse.data()), b = args_of(&c, split.data(), lse_split.data());
    for (int i = 0; i < c.count() * kv; i++)
        emulated::run_cta(i, c.count() * kv, 128, [&] { qsa_attend_rows<FORM, 3, false>(a, 0, tiles); });
    for (int i = 0; i < c.count() * kv * tiles; i++)
        emulated::run_cta(i, c.count() * kv * tiles, 128, [&] { qsa_attend_rows<FORM, 3, true>(b, records.data(), tiles); });
    for (int i = 0; i < c.count() * c.g.heads; i++)
        emulated::run_cta(i, c.count() * c.g.heads, 256, [&] { qsa_join_records(b, records.data(), tiles); });
    double worst = 0, lse_error = 0;
    for (int i = 0; i < c.count(); i++) {
        const double e = attention_error(&c, i, out.data(), lse.data(), &lse_error);
        worst = e <= worst ? worst : e;
    }
    const int same = memcmp(out.data(), split.data(), bytes) == 0 && memcmp(lse.data(), lse_split.data(), lse.size() * 4) == 0;
    printf("type %d out %d sd %g cut %d gate %d: worst %.2e lse %.2e split %s\n", type, out_type, deviation, cut, gated, worst,
           lse_error, same ? "same" : "DIFFERS");
    return !same || !(worst < (out_type == QSA_BF16 ? 3e-3 : 5e-4));
}

int main(void) {
    int bad = 0;
    bad += check<QSA_FORM_I8>(QSA_I8, QSA_F32, 1, false, true);
    bad += check<QSA_FORM_I8>(QSA_I8, QSA_BF16, 4, true, false);
    bad += check<QSA_FORM_F16>(QSA_F16, QSA_F32, 1, true, true);
    bad += check<QSA_FORM_BF16>(QSA_BF16, QSA_F16, 2, false, true);
    return bad;
}
