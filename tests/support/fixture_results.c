// SPDX-License-Identifier: Apache-2.0
//
// Results: where the outcome of every token lies, and comparison byte by byte.
#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[FX_SECTIONS] = {"out",    "lse",          "ids",    "count",  "cut_index",  "cut_cells",
                                               "prep.q", "prep.index_q", "prep.k", "prep.v", "prep.cells", "scores"};

fx_results *fx_results_make(const fx_session *session) {
    const fx_world *w = session->world;
    const qsa_geometry *g = &w->geometry;
    fx_results *r = fx_alloc(sizeof *r);
    *r = (fx_results){.world = w, .stages = session->options.stages};
    const size_t q = (size_t)g->heads * (size_t)g->head_dim, k = (size_t)g->kv_heads * (size_t)g->head_dim;
    int32_t longest = 0;
    for (int32_t s = 0; s < w->sequences; s++)
        longest = w->length[s] > longest ? w->length[s] : longest;
    r->row[FX_OUT] = q * fx_element(session->options.out_type);
    r->row[FX_LSE] = (size_t)g->heads * 4;
    r->row[FX_IDS] = ((size_t)g->budget / (size_t)g->ratio + 1) * 4;
    r->row[FX_COUNT] = r->row[FX_CUT_INDEX] = r->row[FX_CUT_CELLS] = r->row[FX_PREP_CELLS] = 4;
    r->row[FX_PREP_Q] = q * 4;
    r->row[FX_PREP_INDEX_Q] = (size_t)g->index_heads * (size_t)g->index_dim * 4;
    r->row[FX_PREP_K] = r->row[FX_PREP_V] = k * 4;
    r->row[FX_SCORES] = ((size_t)longest / (size_t)g->ratio + 1) * 4;
    for (int32_t layer = 0; layer < w->layers; layer++)
        for (int section = 0; section < FX_SECTIONS; section++)
            r->bytes[layer][section] = fx_alloc((size_t)w->tokens * r->row[section]);
    return r;
}

void fx_results_free(fx_results *r) {
    if (!r)
        return;
    for (int layer = 0; layer < FX_MAX_LAYERS; layer++) {
        for (int section = 0; section < FX_SECTIONS; section++)
            free(r->bytes[layer][section]);
        for (int s = 0; s < FX_MAX_SEQUENCES; s++)
            free(r->stored[layer][s]);
    }
    free(r);
}

static char text[200];

// Sections that both hold, of tokens first..end-1.
static const char *compare(const fx_results *a, int32_t layer_a, const fx_results *b, int32_t layer_b, int32_t first,
                           int32_t end) {
    const int sections = a->stages && b->stages ? FX_SECTIONS : FX_FORWARD_SECTIONS;
    for (int section = 0; section < sections; section++) {
        if (a->row[section] != b->row[section]) {
            snprintf(text, sizeof text, "%s has %zu and %zu bytes per token", names[section], a->row[section],
                     b->row[section]);
            return text;
        }
        for (int32_t token = first; token < end; token++)
            if (memcmp(fx_at(a, layer_a, (fx_section)section, token), fx_at(b, layer_b, (fx_section)section, token),
                       a->row[section]) != 0) {
                snprintf(text, sizeof text, "%s of token %d in layer %d differs", names[section], (int)token,
                         (int)layer_a);
                return text;
            }
    }
    return NULL;
}

const char *fx_token_difference(const fx_results *a, const fx_results *b, int32_t layer, int32_t token) {
    return compare(a, layer, b, layer, token, token + 1);
}

const char *fx_layer_difference(const fx_results *a, int32_t layer_a, const fx_results *b, int32_t layer_b) {
    const char *what = compare(a, layer_a, b, layer_b, 0, a->world->tokens);
    for (int32_t s = 0; !what && s < a->world->sequences; s++) {
        const unsigned char *x = a->stored[layer_a][s], *y = b->stored[layer_b][s];
        if (!x || !y)
            continue;
        const size_t bytes = a->stored_bytes[layer_a][s];
        if (bytes != b->stored_bytes[layer_b][s] || memcmp(x, y, bytes) != 0) {
            snprintf(text, sizeof text, "stored cells of sequence %d in layer %d differ", (int)s, (int)layer_a);
            what = text;
        }
    }
    return what;
}

const char *fx_difference(const fx_results *a, const fx_results *b) {
    if (a->world->tokens != b->world->tokens || a->world->layers != b->world->layers)
        return "results of different worlds";
    for (int32_t layer = 0; layer < a->world->layers; layer++) {
        const char *what = fx_layer_difference(a, layer, b, layer);
        if (what)
            return what;
    }
    return NULL;
}
