// SPDX-License-Identifier: Apache-2.0
//
// Worlds: geometries and the raw rows of all tokens.
#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void fx_die(const char *file, int line, const char *what) {
    printf("%s:%d: fixture: %s (%s)\n", file, line, what, qsa_last_error());
    fflush(stdout);
    exit(1);
}

void *fx_alloc(size_t bytes) {
    void *memory = malloc(bytes ? bytes : 1);
    if (!memory)
        fx_die(__FILE__, __LINE__, "no memory");
    memset(memory, FX_PATTERN, bytes);
    return memory;
}

qsa_geometry fx_geometry_small(void) {
    return (qsa_geometry){.size = sizeof(qsa_geometry),
                          .heads = 4,
                          .kv_heads = 2,
                          .head_dim = 24,
                          .index_heads = 2,
                          .index_dim = 16,
                          .rotary_dim = 8,
                          .sections = {2, 1, 1},
                          .ratio = 4,
                          .budget = 16,
                          .eps = 1e-6f,
                          .theta = 1e7};
}

qsa_geometry fx_geometry_wide(void) {
    return (qsa_geometry){.size = sizeof(qsa_geometry),
                          .heads = 6,
                          .kv_heads = 1,
                          .head_dim = 80,
                          .index_heads = 3,
                          .index_dim = 20,
                          .rotary_dim = 16,
                          .sections = {3, 3, 2},
                          .ratio = 4,
                          .budget = 96,
                          .eps = 1e-5f,
                          .theta = 1e4};
}

qsa_geometry fx_geometry_random(rng *r) {
    qsa_geometry g = {.size = sizeof g, .eps = 1e-6f, .theta = 1e6};
    g.kv_heads = rng_range(r, 1, 3);
    g.heads = g.kv_heads * rng_range(r, 1, 4);
    g.head_dim = rng_range(r, 2, 100);
    g.index_heads = rng_range(r, 1, 4);
    g.index_dim = rng_range(r, 2, 40);
    const int32_t most = g.head_dim < g.index_dim ? g.head_dim : g.index_dim;
    g.rotary_dim = 2 * rng_range(r, 1, most / 2);
    g.sections[1] = rng_range(r, 0, g.rotary_dim / 2);
    g.sections[2] = rng_range(r, 0, g.rotary_dim / 2 - g.sections[1]);
    g.sections[0] = g.rotary_dim / 2 - g.sections[1] - g.sections[2];
    g.ratio = rng_range(r, 1, 8);
    g.budget = g.ratio * rng_range(r, 1, 12);
    return g;
}

void fx_shape(const qsa_geometry *g, fx_array array, int32_t *heads, int32_t *dim) {
    *heads = array == FX_INDEX_Q ? g->index_heads : array == FX_INDEX_K ? 1 : g->heads;
    if (array == FX_K || array == FX_V)
        *heads = g->kv_heads;
    *dim = array == FX_INDEX_Q || array == FX_INDEX_K ? g->index_dim : g->head_dim;
}

// Multiples of 1/32 below 4: seven bits, exact in every type.
static float *random_values(rng *r, size_t n) {
    float *values = fx_alloc(n * sizeof(float));
    for (size_t i = 0; i < n; i++)
        values[i] = (float)rng_range(r, -127, 127) / 32;
    return values;
}

fx_world *fx_world_make(uint64_t seed, const qsa_geometry *geometry, int32_t layers, int32_t sequences,
                        const int32_t *lengths, int32_t positions_per_row) {
    rng r = rng_make(seed);
    fx_world *w = fx_alloc(sizeof *w);
    *w = (fx_world){.geometry = *geometry, .layers = layers, .sequences = sequences};
    w->positions_per_row = positions_per_row;
    for (int32_t s = 0; s < sequences; s++) {
        w->first[s] = w->tokens;
        w->length[s] = lengths[s];
        w->tokens += lengths[s];
    }
    for (int32_t layer = 0; layer < layers; layer++) {
        for (int array = 0; array < FX_ARRAYS; array++) {
            int32_t heads, dim;
            fx_shape(geometry, (fx_array)array, &heads, &dim);
            w->values[layer][array] = random_values(&r, (size_t)w->tokens * (size_t)heads * (size_t)dim);
        }
        for (int i = 0; i < 4; i++)
            w->norms[layer][i] = random_values(&r, (size_t)(i < 2 ? geometry->head_dim : geometry->index_dim));
    }
    w->positions = fx_alloc((size_t)w->tokens * 3 * sizeof(int32_t));
    w->attend = fx_alloc((size_t)w->tokens);
    for (int32_t s = 0; s < sequences; s++) {
        const int32_t start = rng_range(&r, 0, 100000);
        for (int32_t i = 0; i < w->length[s]; i++) {
            const int32_t token = w->first[s] + i;
            w->attend[token] = rng_below(&r, 3) ? (uint8_t)rng_range(&r, 1, 255) : 0;
            // Some tokens repeat a position, as those of an image do.
            for (int axis = 0; axis < 3; axis++)
                w->positions[3 * (size_t)token + (size_t)axis] =
                    positions_per_row == 3 ? start + i / 5 + axis * rng_range(&r, 0, 9) : start + i;
        }
    }
    return w;
}

void fx_world_free(fx_world *world) {
    for (int32_t layer = 0; layer < world->layers; layer++) {
        for (int array = 0; array < FX_ARRAYS; array++)
            free(world->values[layer][array]);
        for (int i = 0; i < 4; i++)
            free(world->norms[layer][i]);
    }
    free(world->positions);
    free(world->attend);
    free(world);
}
