// SPDX-License-Identifier: Apache-2.0
//
// Geometries, raw rows, norm weights and stored cells of the digest scenarios. Every number is an integer times a power of
// two, or a bit pattern; nothing is rounded on the way.
#include "digest_data.h"
#include "rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *digest_memory(size_t count, size_t size) {
    void *p = calloc(count ? count : 1, size);
    if (!p) {
        fprintf(stderr, "no memory\n");
        exit(1);
    }
    return p;
}

// ---- Geometries -----------------------------------------------------------------------------------

static const qsa_geometry common = {.size = sizeof(qsa_geometry), .eps = 1e-6f, .theta = 1e7};

void digest_tiny(qsa_geometry *g) {
    *g = common;
    g->heads = 4, g->kv_heads = 2, g->head_dim = 16, g->index_heads = 2, g->index_dim = 8, g->rotary_dim = 8;
    g->sections[0] = 2, g->sections[1] = 1, g->sections[2] = 1, g->ratio = 4, g->budget = 16;
}

void digest_odd(qsa_geometry *g) {
    *g = common;
    g->heads = 6, g->kv_heads = 2, g->head_dim = 73, g->index_heads = 3, g->index_dim = 27, g->rotary_dim = 18;
    g->sections[0] = 4, g->sections[1] = 3, g->sections[2] = 2, g->ratio = 3, g->budget = 72;
}

void digest_long(qsa_geometry *g) {
    *g = common;
    g->heads = 2, g->kv_heads = 1, g->head_dim = 8, g->index_heads = 2, g->index_dim = 8, g->rotary_dim = 8;
    g->sections[0] = 2, g->sections[1] = 1, g->sections[2] = 1, g->ratio = 4, g->budget = 256;
}

void digest_real(qsa_geometry *g) {
    if (qsa_geometry_preset("qwen3.8-flash-next", g) != QSA_OK)
        abort();
}

// ---- Raw rows -------------------------------------------------------------------------------------

// Multiples of 2^-5 below 4: seven bits, exact in every type. As bits, by the position of the highest one.
static uint32_t f32_bits(int32_t value) {
    const uint32_t sign = value < 0 ? 0x80000000u : 0, magnitude = (uint32_t)(value < 0 ? -value : value);
    if (magnitude == 0)
        return sign;
    int high = 0;
    while (magnitude >> (high + 1))
        high++;
    return sign | (uint32_t)(high - 5 + 127) << 23 | (magnitude << (23 - high) & 0x7fffffu);
}

static const uint32_t edge_bits[3][8] = {
    {0x7f800000, 0xff800000, 0x7fc00001, 0xff812345, 0x00000001, 0x7f7fffff, 0x80000000, 0x4b189680}, // f32
    {0x7c00, 0xfc00, 0x7e01, 0xfd23, 0x0001, 0x7bff, 0x8000, 0x03ff},                                 // f16
    {0x7f80, 0xff80, 0x7fc1, 0xff81, 0x0001, 0x7f7f, 0x8000, 0x4b18},                                 // bf16
};

static void put(void *data, qsa_type type, size_t i, uint32_t bits) {
    const uint16_t half = (uint16_t)bits;
    if (type == QSA_F32)
        memcpy((unsigned char *)data + 4 * i, &bits, sizeof bits);
    else
        memcpy((unsigned char *)data + 2 * i, &half, sizeof half);
}

// The same number in another type; value has at most seven bits and a small exponent, so nothing is lost.
static uint32_t bits_of(qsa_type type, int32_t value) {
    const uint32_t bits = f32_bits(value), sign = bits >> 16 & 0x8000u;
    if (type == QSA_F32)
        return bits;
    if (type == QSA_BF16)
        return bits >> 16;
    return value == 0 ? sign : sign | (((bits >> 23 & 255u) - 112u) << 10 | (bits >> 13 & 0x3ffu));
}

static void *raw_rows(rng *r, const digest_scenario *s, int32_t heads, int32_t dim, bool change) {
    const size_t n = (size_t)s->rows * (size_t)heads * (size_t)dim;
    void *data = digest_memory(n, s->raw == QSA_F32 ? 4 : 2);
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = bits_of(s->raw, rng_range(r, -127, 127));
        if (s->edges && rng_below(r, 200) == 0)
            bits = edge_bits[s->raw - QSA_F32][rng_below(r, 8)];
        put(data, s->raw, i, change && i < (size_t)dim ? bits ^ 1u : bits);
    }
    return data;
}

static uint16_t *norm_weights(rng *r, int32_t dim) {
    uint16_t *w = digest_memory((size_t)dim, sizeof *w);
    for (int32_t d = 0; d < dim; d++)
        w[d] = (uint16_t)bits_of(QSA_BF16, rng_range(r, -16, 16)); // -0.5 .. 0.5, the factor is 1 more
    return w;
}

void digest_data_open(digest_data *d, const digest_scenario *s, digest_change change) {
    rng r = rng_make(2024);
    s->geometry(&d->geometry);
    const qsa_geometry *g = &d->geometry;
    d->sequences = digest_memory((size_t)s->rows, sizeof(int32_t));
    d->positions = digest_memory((size_t)s->rows * 3, sizeof(int32_t));
    for (int32_t i = 0; i < s->rows; i++) {
        d->sequences[i] = i % s->sequences;
        const int32_t position = s->first_position + i / s->sequences;
        // An image of 3 x 4 patches from its fifth row on: one temporal position, a grid of the others.
        const bool image = s->images && i >= 4 && i < 16;
        d->positions[3 * i] = image ? s->first_position + 4 : position;
        d->positions[3 * i + 1] = image ? s->first_position + 4 + (i - 4) / 4 : position;
        d->positions[3 * i + 2] = image ? s->first_position + 4 + (i - 4) % 4 : position;
    }
    d->q = raw_rows(&r, s, g->heads, g->head_dim, change == DIGEST_Q);
    d->k = raw_rows(&r, s, g->kv_heads, g->head_dim, change == DIGEST_K);
    d->v = raw_rows(&r, s, g->kv_heads, g->head_dim, change == DIGEST_V);
    d->index_q = raw_rows(&r, s, g->index_heads, g->index_dim, change == DIGEST_INDEX_Q);
    d->index_k = raw_rows(&r, s, 1, g->index_dim, change == DIGEST_INDEX_K);
    d->gate = raw_rows(&r, s, g->heads, g->head_dim, change == DIGEST_GATE);
    for (int i = 0; i < 4; i++)
        d->norms[i] = norm_weights(&r, i < 2 ? g->head_dim : g->index_dim);
}

void digest_data_close(digest_data *d) {
    void *all[] = {d->sequences, d->positions, d->q,        d->k,        d->v,        d->index_q,
                   d->index_k,   d->gate,      d->norms[0], d->norms[1], d->norms[2], d->norms[3]};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
}

void digest_data_batch(const digest_data *d, const digest_scenario *s, qsa_batch *batch) {
    const qsa_geometry *g = &d->geometry;
    const int64_t element = s->raw == QSA_F32 ? 4 : 2, head = g->head_dim * element, index = g->index_dim * element;
    *batch = (qsa_batch){.size = sizeof *batch,
                         .rows = s->rows,
                         .sequences = d->sequences,
                         .positions = d->positions,
                         .positions_per_row = 3,
                         .q = {d->q, s->raw, g->heads * head, head},
                         .k = {d->k, s->raw, g->kv_heads * head, head},
                         .v = {d->v, s->raw, g->kv_heads * head, head},
                         .index_q = {d->index_q, s->raw, g->index_heads * index, index},
                         .index_k = {d->index_k, s->raw, index, index},
                         .gate = {d->gate, s->raw, g->heads * head, head}};
}

// ---- Stored cells ---------------------------------------------------------------------------------

static size_t element(qsa_type type) {
    return type == QSA_F32 ? 4 : type == QSA_I8 ? 1 : 2;
}

void digest_cells_open(qsa_cells *cells, const qsa_geometry *g, qsa_type kv, qsa_type keys, int32_t count) {
    const size_t vectors = (size_t)count * (size_t)g->kv_heads, groups = ((size_t)g->head_dim + 63) / 64;
    *cells =
        (qsa_cells){.size = sizeof *cells,
                    .k = digest_memory(vectors * (size_t)g->head_dim, element(kv)),
                    .v = digest_memory(vectors * (size_t)g->head_dim, element(kv)),
                    .block_keys = digest_memory((size_t)(count / g->ratio + 1) * (size_t)g->index_dim, element(keys))};
    if (kv == QSA_I8) {
        cells->k_scales = digest_memory(vectors * groups, 2);
        cells->v_scales = digest_memory(vectors * groups, 2);
    }
}

static void fill(rng *r, qsa_type type, size_t n, void *data) {
    for (size_t i = 0; i < n; i++) {
        const int32_t value = rng_range(r, -127, 127);
        if (type == QSA_I8)
            ((int8_t *)data)[i] = (int8_t)value;
        else
            put(data, type, i, bits_of(type, value));
    }
}

static void fill_scales(rng *r, size_t n, uint16_t *scales) {
    for (size_t i = 0; i < n; i++)
        scales[i] = (uint16_t)rng_range(r, 0x2000, 0x2800); // 2^-7 .. 2^-5
}

// Each array has a state of its own, so that block keys do not depend on the format of the cells.
void digest_cells_fill(qsa_cells *cells, const qsa_geometry *g, qsa_type kv, qsa_type keys, int32_t count) {
    const size_t vectors = (size_t)count * (size_t)g->kv_heads, groups = ((size_t)g->head_dim + 63) / 64;
    rng of_k = rng_make(7), of_v = rng_make(8), of_blocks = rng_make(9), of_scales = rng_make(10);
    fill(&of_k, kv, vectors * (size_t)g->head_dim, cells->k);
    fill(&of_v, kv, vectors * (size_t)g->head_dim, cells->v);
    fill(&of_blocks, keys, (size_t)(count / g->ratio) * (size_t)g->index_dim, cells->block_keys);
    if (kv == QSA_I8) {
        fill_scales(&of_scales, vectors * groups, cells->k_scales);
        fill_scales(&of_scales, vectors * groups, cells->v_scales);
    }
}

void digest_cells_close(qsa_cells *cells) {
    free(cells->k);
    free(cells->v);
    free(cells->k_scales);
    free(cells->v_scales);
    free(cells->block_keys);
}
