// SPDX-License-Identifier: Apache-2.0
//
// The smallest program that uses libqsa: one layer, one sequence, a prompt of 8 tokens, its attention printed.
// The raw rows would come from your projections; here they are made up.

#include <qsa/qsa.h>

#include <stdio.h>
#include <stdlib.h>

enum { T = 8 };

static int failed(const char *what) {
    fprintf(stderr, "%s: %s\n", what, qsa_last_error());
    return 1;
}

static float *made_up(size_t count) {
    float *x = malloc(count * sizeof *x);
    for (size_t i = 0; x && i < count; i++)
        x[i] = (float)((int)(i * 2654435761u >> 20 & 255u) - 128) / 64.0f;
    return x;
}

int main(void) {
    qsa_geometry g;
    qsa_geometry_preset("qwen3.8-flash-next", &g);

    qsa_context *context = NULL;
    qsa_layer *layer = NULL;
    qsa_cache *cache = NULL;
    int32_t sequence = 0;
    if (qsa_context_create(NULL, &context))
        return failed("context");

    static const float zeros[QSA_MAX_HEAD_DIM]; // zero-centred norm weights: a factor of 1
    qsa_layer_config layer_config = {.size = sizeof layer_config,
                                     .geometry = g,
                                     .norm_form = QSA_NORM_ZERO_CENTRED,
                                     .norm_type = QSA_F32,
                                     .q_norm = zeros,
                                     .k_norm = zeros,
                                     .index_q_norm = zeros,
                                     .index_k_norm = zeros};
    if (qsa_layer_create(context, &layer_config, &layer))
        return failed("layer");

    qsa_cache_config cache_config;
    qsa_cache_config_init(&cache_config, &g, 4096); // i8, room for 4096 cells
    if (qsa_cache_create(context, &cache_config, &cache) || qsa_sequence_create(cache, &sequence))
        return failed("cache");

    // Raw rows as the projections give them: q_proj rows are [head][query | gate], index_qk rows [queries | key].
    const int64_t q_row = 2 * (int64_t)g.heads * g.head_dim, kv_row = (int64_t)g.kv_heads * g.head_dim;
    const int64_t index_row = (int64_t)(g.index_heads + 1) * g.index_dim, f = sizeof(float);
    float *q = made_up((size_t)(T * q_row)), *k = made_up((size_t)(T * kv_row)), *v = made_up((size_t)(T * kv_row));
    float *index = made_up((size_t)(T * index_row)), *out = made_up((size_t)(T * q_row / 2));
    int32_t sequences[T], positions[T];
    for (int32_t i = 0; i < T; i++)
        sequences[i] = sequence, positions[i] = i;
    qsa_batch batch = {.size = sizeof batch, .rows = T, .sequences = sequences, .positions = positions};
    batch.positions_per_row = 1;
    batch.q = (qsa_rows){q, QSA_F32, q_row * f, 2 * g.head_dim * f};
    batch.gate = (qsa_rows){q + g.head_dim, QSA_F32, q_row * f, 2 * g.head_dim * f};
    batch.k = (qsa_rows){k, QSA_F32, kv_row * f, g.head_dim * f};
    batch.v = (qsa_rows){v, QSA_F32, kv_row * f, g.head_dim * f};
    batch.index_q = (qsa_rows){index, QSA_F32, index_row * f, g.index_dim * f};
    batch.index_k = (qsa_rows){index + g.index_heads * g.index_dim, QSA_F32, index_row * f, 0};
    qsa_rows_out result = {out, QSA_F32, q_row / 2 * f, g.head_dim * f};

    size_t bytes = 0;
    qsa_workspace_size(context, cache, QSA_STAGE_FORWARD, T, &bytes);
    void *workspace = malloc(bytes);
    if (!q || !k || !v || !index || !out || !workspace)
        return fprintf(stderr, "out of memory\n"), 1;
    if (qsa_forward(context, layer, cache, 0, &batch, NULL, &result, workspace, bytes) || qsa_cache_commit(cache))
        return failed("forward");

    int32_t length = 0;
    qsa_sequence_length(cache, sequence, &length);
    printf("%d cells; head 0 of the last row begins %g %g %g\n", (int)length, (double)out[(T - 1) * q_row / 2],
           (double)out[(T - 1) * q_row / 2 + 1], (double)out[(T - 1) * q_row / 2 + 2]);

    free(workspace), free(q), free(k), free(v), free(index), free(out);
    qsa_cache_destroy(cache);
    qsa_layer_destroy(layer);
    qsa_context_destroy(context);
    return length == T ? 0 : 1;
}
