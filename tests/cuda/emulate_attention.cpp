// SPDX-License-Identifier: Apache-2.0
//
// Runs the text of the fast CUDA attention on the CPU (mma_emulated.h) against float64.
//   g++ -std=c++17 -O2 -DQSA_EMULATED -Iinclude -Isrc -Itests/cuda tests/cuda/emulate_attention.cpp

#include "attention_case.h"
#include "kernels/attend/attention_cuda_mma_row.h"
#include "kernels/attend/attention_cuda_mma_tile.h"
#include "kernels/attend/attention_cuda_mma_union_kernel.h"
#include "kernels/attend/attention_cuda_mma_wide_kernel.h"

#include <cstdio>

static qsa_cuda_attention_args args_of(attention_case *c, void *out, float *lse) {
    qsa_cuda_attention_args a = {};
    a.cache.geometry = c->g, a.cache.kv_type = c->kv_type, a.cache.page_cells = c->page_cells;
    a.cache.table_pages = c->table_pages, a.cache.tables = c->tables.data();
    a.cache.k = c->k.data(), a.cache.v = c->v.data(), a.cache.k_scales = c->k_scales.data(),
    a.cache.v_scales = c->v_scales.data();
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

template <int FORM> static int check(qsa_type type, qsa_type out_type, float deviation, bool cut, bool gated) {
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
    const qsa_cuda_attention_args a = args_of(&c, out.data(), lse.data()),
                                  b = args_of(&c, split.data(), lse_split.data());
    for (int i = 0; i < c.count() * kv; i++)
        emulated::run_cta(i, c.count() * kv, 128, [&] { qsa_attend_rows<FORM, 3, false>(a, 0, 0, tiles); });
    for (int i = 0; i < c.count() * kv * tiles; i++)
        emulated::run_cta(i, c.count() * kv * tiles, 128,
                          [&] { qsa_attend_rows<FORM, 3, true>(b, records.data(), 0, tiles); });
    for (int i = 0; i < c.count() * c.g.heads; i++)
        emulated::run_cta(i, c.count() * c.g.heads, 256, [&] { qsa_join_records(b, records.data(), tiles); });
    double worst = 0, lse_error = 0;
    for (int i = 0; i < c.count(); i++) {
        const double e = attention_error(&c, i, out.data(), lse.data(), &lse_error);
        worst = e <= worst ? worst : e;
    }
    const int same =
        memcmp(out.data(), split.data(), bytes) == 0 && memcmp(lse.data(), lse_split.data(), lse.size() * 4) == 0;
    printf("type %d out %d sd %g cut %d gate %d: worst %.2e lse %.2e split %s\n", type, out_type, deviation, cut, gated,
           worst, lse_error, same ? "same" : "DIFFERS");
    return !same || !(worst < (out_type == QSA_BF16 ? 3e-3 : 5e-4));
}

// The warpgroup's kernel, walking and (one CTA a cluster) by records.
static int check_wide(qsa_type out_type, float deviation, bool cut, bool gated) {
    attention_case c;
    attention_cache(&c, QSA_I8, 256, 64, 1, 700, 5);
    attention_rows(&c, {0, 1, 3, 64, 127, 255, 259, 260, 261, 447, 700}, {}, deviation, out_type, gated, 6);
    attention_random random = {7};
    for (int i = 0; i < c.count(); i++)
        attention_select(&c, i, cut, &random);
    c.ids[(size_t)9 * c.stride + 5] = 1 << 29, c.ids[(size_t)9 * c.stride + 60] = -3;
    const size_t bytes = c.q.size() * qsa_type_size(out_type);
    std::vector<unsigned char> out(bytes, 0xff), split(bytes, 0xff);
    std::vector<float> lse((size_t)c.count() * c.g.heads, NAN), lse_split(lse);
    const qsa_cuda_attention_args a = args_of(&c, out.data(), lse.data()),
                                  b = args_of(&c, split.data(), lse_split.data());
    const int n = c.count() * c.g.kv_heads;
    for (int i = 0; i < n; i++)
        emulated::run_cta(i, n, 128, [&] { qsa_attend_rows_wide<3, false>(a, 0, 5); });
    for (int i = 0; i < n; i++)
        emulated::run_cta(i, n, 128, [&] { qsa_attend_rows_wide<3, true>(b, 0, 5); });
    double worst = 0, lse_error = 0;
    for (int i = 0; i < c.count(); i++) {
        const double e = attention_error(&c, i, out.data(), lse.data(), &lse_error);
        worst = e <= worst ? worst : e;
    }
    const int same =
        memcmp(out.data(), split.data(), bytes) == 0 && memcmp(lse.data(), lse_split.data(), lse.size() * 4) == 0;
    printf("wide out %d sd %g cut %d gate %d: worst %.2e lse %.2e split %s\n", out_type, deviation, cut, gated, worst,
           lse_error, same ? "same" : "DIFFERS");
    return !same || !(worst < (out_type == QSA_BF16 ? 3e-3 : 5e-4));
}

// 16 neighbours and two strays; the first 8 select alike, the others apart.
static int check_tiles(int first_cells, float deviation, bool cut) {
    attention_case c;
    attention_cache(&c, QSA_I8, 256, 64, 1, 1100, 5);
    std::vector<int> cells = {first_cells + 40};
    for (int i = 0; i < 16; i++)
        cells.push_back(first_cells + i);
    cells.push_back(first_cells + 16);
    attention_rows(&c, cells, {}, deviation, QSA_F32, true, 6);
    for (int i = 0; i < c.count(); i++) {
        attention_random random = {(uint64_t)(i < 9 ? 7 : i)};
        attention_select(&c, i, cut, &random);
    }
    std::vector<char> used(1100, 0);
    for (int i = 0; i < c.count(); i++)
        for (int cell : attention_cells(&c, i))
            used[(size_t)cell] = 1;
    for (int cell = 0; cell < 1100; cell++)
        for (int j = 0; j < 8 && !used[(size_t)cell]; j++)
            c.k_scales[c.row_of(0, cell, j / 4) * 4 + j % 4] = c.v_scales[c.row_of(0, cell, j / 4) * 4 + j % 4] =
                0x7e01;
    std::vector<unsigned char> out(c.q.size() * 4, 0xff);
    std::vector<float> lse((size_t)c.count() * c.g.heads, NAN);
    std::vector<int32_t> served((size_t)c.count() * 2, -1);
    const qsa_cuda_attention_args a = args_of(&c, out.data(), lse.data());
    const int n = c.count() * 2;
    for (int i = 0; i < n; i++)
        emulated::run_cta(i, n, 128, [&] { qsa_attend_tiles(a, served.data()); });
    std::vector<unsigned char> tiles_only = out;
    for (int i = 0; i < n; i++)
        emulated::run_cta(i, n, 128, [&] { qsa_attend_rows<QSA_FORM_I8, 3, false>(a, 0, served.data(), 5); });
    double worst = 0, lse_error = 0;
    for (int i = 0; i < c.count(); i++) {
        const double e = attention_error(&c, i, out.data(), lse.data(), &lse_error);
        worst = e <= worst ? worst : e;
    }
    printf("tiles from %d sd %g: worst %.2e lse %.2e served", first_cells, deviation, worst, lse_error);
    for (int i = 0; i < c.count(); i++)
        printf(" %d%d", served[(size_t)(2 * i)], served[(size_t)(2 * i + 1)]);
    printf("\n");
    return !(worst < 5e-4);
}

// 16 neighbours and two strays over unions of eight; the first group selects alike, the others apart.
static int check_union(int first_cells, float deviation, bool cut) {
    attention_case c;
    attention_cache(&c, QSA_I8, 256, 64, 1, 1100, 5);
    std::vector<int> cells = {first_cells + 40};
    for (int i = 0; i < 16; i++)
        cells.push_back(first_cells + i);
    cells.push_back(first_cells + 16);
    attention_rows(&c, cells, {}, deviation, QSA_F32, true, 6);
    for (int i = 0; i < c.count(); i++) {
        attention_random random = {(uint64_t)(i < 9 ? 7 : i)};
        attention_select(&c, i, cut, &random);
    }
    for (int i = 2; i < 9; i++) // as the first, but for a few
        for (int k = 0; k < c.counts[1] && k < c.counts[(size_t)i]; k++) {
            int32_t *ids = c.ids.data() + (size_t)i * c.stride, *like = c.ids.data() + c.stride;
            ids[k] = like[k] + (k % 9 == i && k + 1 < c.counts[1] && like[k + 1] > like[k] + 1);
        }
    std::vector<char> used(1100, 0);
    for (int i = 0; i < c.count(); i++)
        for (int cell : attention_cells(&c, i))
            used[(size_t)cell] = 1;
    for (int cell = 0; cell < 1100; cell++)
        for (int j = 0; j < 8 && !used[(size_t)cell]; j++)
            c.k_scales[c.row_of(0, cell, j / 4) * 4 + j % 4] = c.v_scales[c.row_of(0, cell, j / 4) * 4 + j % 4] =
                0x7e01;
    std::vector<unsigned char> out(c.q.size() * 4, 0xff);
    std::vector<float> lse((size_t)c.count() * c.g.heads, NAN);
    std::vector<int32_t> served((size_t)c.count() * 2, -1);
    const qsa_cuda_attention_args a = args_of(&c, out.data(), lse.data());
    const int n = c.count() * 2;
    for (int i = 0; i < (c.count() + 3) / 4; i++)
        emulated::run_cta(i, n, 128, [&] { qsa_attend_decide(a, served.data()); });
    printf("union from %d sd %g decided", first_cells, deviation);
    for (int i = 0; i < c.count(); i++)
        printf(" %d%d", served[(size_t)(2 * i)], served[(size_t)(2 * i + 1)]);
    const int groups = (c.count() + 7) / 8 * 2;
    for (int i = 0; i < groups; i++)
        emulated::run_cta(i, groups, 256, [&] { qsa_attend_union(a, served.data()); });
    for (int i = 0; i < n; i++)
        emulated::run_cta(i, n, 128, [&] { qsa_attend_rows_wide<3, false>(a, served.data(), 5); });
    double worst = 0, lse_error = 0;
    for (int i = 0; i < c.count(); i++) {
        const double e = attention_error(&c, i, out.data(), lse.data(), &lse_error);
        worst = e <= worst ? worst : e;
    }
    printf(" served");
    for (int i = 0; i < c.count(); i++)
        printf(" %d%d", served[(size_t)(2 * i)], served[(size_t)(2 * i + 1)]);
    printf(": worst %.2e lse %.2e\n", worst, lse_error);
    return !(worst < 5e-4);
}

int main(int argc, char **) {
    int bad = 0;
    bad += check_wide(QSA_F32, 1, false, true);
    bad += check_wide(QSA_BF16, 4, true, false);
    bad += check_union(1, 1, false);
    bad += check_union(241, 1, false);
    bad += check_union(1009, 2, false);
    bad += check_union(1009, 1, true);
    if (argc > 2)
        return bad;
    bad += check_tiles(1, 1, false);
    bad += check_tiles(241, 1, false);
    bad += check_tiles(1009, 2, false);
    bad += check_tiles(1009, 1, true);
    if (argc > 1)
        return bad;
    bad += check<QSA_FORM_I8>(QSA_I8, QSA_F32, 1, false, true);
    bad += check<QSA_FORM_I8>(QSA_I8, QSA_BF16, 4, true, false);
    bad += check<QSA_FORM_F16>(QSA_F16, QSA_F32, 1, true, true);
    bad += check<QSA_FORM_BF16>(QSA_BF16, QSA_F16, 2, false, true);
    return bad;
}
