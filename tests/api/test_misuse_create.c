// SPDX-License-Identifier: Apache-2.0
//
// Misuse of what makes things: geometry, context, kernels, layer, cache. Every argument null, every field out of range.
// LABELS: small cross
// RUNNER: plain
#include "misuse.h"

#include <limits.h>
#include <math.h>

static void words(void) {
    PLAIN_CHECK_INT(qsa_version(), QSA_VERSION_NUMBER);
    PLAIN_CHECK(strcmp(qsa_version_string(), "0.1.0") == 0);
    const int values[] = {-1, 9, 1000, INT_MAX, INT_MIN};
    for (int i = 0; i < 5; i++)
        PLAIN_CHECK(strcmp(qsa_status_string((qsa_status)values[i]), "unknown") == 0);
    for (int i = QSA_OK; i <= QSA_ERR_DEVICE; i++)
        PLAIN_CHECK(strcmp(qsa_status_string((qsa_status)i), "unknown") != 0);
    PLAIN_CHECK(qsa_last_error()[0] == 0); // this test runs first
    PLAIN_CHECK(qsa_cpu_features() != NULL);
}

#define GEOMETRY(change, word)                                                                                         \
    WITH(qsa_geometry, good, change, "qsa_geometry_check", qsa_geometry_check(&x), QSA_ERR_ARGUMENT, word)

static void geometry(void) {
    qsa_geometry good, untouched;
    memset(&untouched, 0x77, sizeof untouched);
    misuse_guard(&untouched, sizeof untouched);
    const char *preset = "qsa_geometry_preset";
    REFUSED(preset, qsa_geometry_preset(NULL, &untouched), QSA_ERR_ARGUMENT, "name");
    REFUSED(preset, qsa_geometry_preset("qwen3.8-flash-next", NULL), QSA_ERR_ARGUMENT, "geometry");
    REFUSED(preset, qsa_geometry_preset("", &untouched), QSA_ERR_ARGUMENT, "preset");
    REFUSED(preset, qsa_geometry_preset("a\nb", &untouched), QSA_ERR_ARGUMENT, "preset");
    FX_OK(qsa_geometry_preset("qwen3.8-flash-next", &good));
    PLAIN_CHECK_INT(qsa_geometry_check(&good), QSA_OK);
    REFUSED("qsa_geometry_check", qsa_geometry_check(NULL), QSA_ERR_ARGUMENT, "geometry");
    GEOMETRY(x.size = 0, "size");
    GEOMETRY(x.size = sizeof x + 8, "size");
    const int32_t bad[] = {0, -1, INT32_MIN, INT32_MAX};
    for (int i = 0; i < 4; i++) {
        GEOMETRY(x.heads = bad[i], "heads");
        GEOMETRY(x.kv_heads = bad[i], "kv_heads");
        GEOMETRY(x.head_dim = bad[i], "head_dim");
        GEOMETRY(x.index_heads = bad[i], "index_heads");
        GEOMETRY(x.index_dim = bad[i], "index_dim");
        GEOMETRY(x.rotary_dim = bad[i], "rotary_dim");
        GEOMETRY(x.ratio = bad[i], "ratio");
        GEOMETRY(x.budget = bad[i], "budget");
        if (i)
            GEOMETRY(x.sections[i - 1] = bad[i], "sections");
    }
    GEOMETRY(x.heads = 25, "heads is 25, no multiple of kv_heads 2");
    GEOMETRY(x.heads = 130, "heads 130 over kv_heads 2");
    GEOMETRY(x.heads = QSA_MAX_HEADS + 2, "heads");
    GEOMETRY(x.kv_heads = 5, "no multiple of kv_heads 5");
    GEOMETRY(x.head_dim = QSA_MAX_HEAD_DIM + 1, "head_dim");
    GEOMETRY(x.head_dim = 62, "above head_dim 62");
    GEOMETRY(x.index_dim = 62, "above index_dim 62");
    GEOMETRY(x.rotary_dim = 63, "rotary_dim is 63");
    GEOMETRY(x.rotary_dim = 62, "sections sum to 32");
    GEOMETRY(x.sections[2] = 11, "sections sum to 33");
    GEOMETRY(x.ratio = 257, "ratio");
    GEOMETRY(x.ratio = 3, "no multiple of ratio 3");
    GEOMETRY(x.budget = 2049, "budget is 2049");
    GEOMETRY(x.budget = QSA_MAX_BUDGET + 4, "budget");
    const double eps[] = {0, -1e-6, 1, INFINITY, NAN};
    for (int i = 0; i < 5; i++) {
        GEOMETRY(x.eps = (float)eps[i], "eps");
        GEOMETRY(x.theta = i == 2 ? 1.1e30 : eps[i], "theta");
    }
    misuse_end();
}

static void geometry_numbers(void) {
    qsa_geometry good, bad;
    FX_OK(qsa_geometry_preset("qwen3.8-flash-next", &good));
    bad = good;
    bad.budget = 3;
    PLAIN_CHECK_INT(qsa_selected_cells(&good, QSA_RULE_OFFICIAL, 2052), 2048);
    PLAIN_CHECK_INT(qsa_selected_cells(&good, QSA_RULE_CUT, INT32_MAX), 2051);
    PLAIN_CHECK_INT(qsa_selected_cells(&good, QSA_RULE_OFFICIAL, -1), -1);
    PLAIN_CHECK_INT(qsa_selected_cells(&good, (qsa_rule)2, 5), -1);
    PLAIN_CHECK_INT(qsa_selected_cells(&good, (qsa_rule)-1, 5), -1);
    PLAIN_CHECK_INT(qsa_selected_cells(&bad, QSA_RULE_CUT, 5), -1);
    PLAIN_CHECK_INT(qsa_selected_cells(NULL, QSA_RULE_CUT, 5), -1);
    PLAIN_CHECK_INT(qsa_selection_stride(&good, QSA_RULE_OFFICIAL), 512);
    PLAIN_CHECK_INT(qsa_selection_stride(&good, QSA_RULE_CUT), 513);
    PLAIN_CHECK_INT(qsa_selection_stride(&good, (qsa_rule)2), -1);
    PLAIN_CHECK_INT(qsa_selection_stride(&bad, QSA_RULE_CUT), -1);
    PLAIN_CHECK_INT(qsa_selection_stride(NULL, QSA_RULE_CUT), -1);
    PLAIN_CHECK_INT(qsa_max_chunks(&good), 33);
    PLAIN_CHECK_INT(qsa_max_chunks(&bad), -1);
    PLAIN_CHECK_INT(qsa_max_chunks(NULL), -1);
}

static void *no_alloc(void *user, size_t bytes, size_t align) {
    (void)user;
    (void)bytes;
    (void)align;
    return NULL;
}
static void no_free(void *user, void *memory, size_t bytes) {
    (void)user;
    (void)memory;
    (void)bytes;
}

#define CONTEXT(change, status, word)                                                                                  \
    WITH(qsa_context_config, good, change, "qsa_context_create", qsa_context_create(&x, &context), status, word)

static bool runs_fast(void) {
    bool any = false;
    for (int32_t i = 0; i < qsa_kernel_count(); i++) {
        qsa_kernel_info info = {.size = sizeof info};
        FX_OK(qsa_kernel_at(i, &info));
        any |= info.usable && info.kernel_class == QSA_CLASS_FAST;
    }
    return any;
}

// On the CPU; on a GPU see tests/cuda.
static void device_calls(void) {
    qsa_context *context;
    PLAIN_CHECK_INT(qsa_context_create(NULL, &context), QSA_OK);
    static int guarded; // looked at whenever a call is refused
    int from = 7;
    void *memory = &guarded;
    misuse_guard(&guarded, sizeof guarded);
    PLAIN_CHECK(strcmp(qsa_context_device(context), "cpu") == 0 && strcmp(qsa_context_device(NULL), "cpu") == 0);
    REFUSED("qsa_context_set_stream", qsa_context_set_stream(NULL, NULL), QSA_ERR_ARGUMENT, "context");
    REFUSED("qsa_context_set_stream", qsa_context_set_stream(context, NULL), QSA_ERR_UNSUPPORTED, "cpu");
    REFUSED("qsa_context_wait", qsa_context_wait(NULL), QSA_ERR_ARGUMENT, "context");
    PLAIN_CHECK_INT(qsa_context_wait(context), QSA_OK);
    REFUSED("qsa_memory_alloc", qsa_memory_alloc(NULL, 1, &memory), QSA_ERR_ARGUMENT, "context");
    REFUSED("qsa_memory_alloc", qsa_memory_alloc(context, 1, NULL), QSA_ERR_ARGUMENT, "memory");
    REFUSED("qsa_memory_alloc", qsa_memory_alloc(context, 0, &memory), QSA_ERR_ARGUMENT, "bytes");
    REFUSED("qsa_memory_copy", qsa_memory_copy(NULL, &guarded, &from, 4), QSA_ERR_ARGUMENT, "context");
    REFUSED("qsa_memory_copy", qsa_memory_copy(context, NULL, &from, 4), QSA_ERR_ARGUMENT, "to");
    REFUSED("qsa_memory_copy", qsa_memory_copy(context, &guarded, NULL, 4), QSA_ERR_ARGUMENT, "from");
    PLAIN_CHECK_INT(qsa_memory_copy(context, NULL, NULL, 0), QSA_OK);
    PLAIN_CHECK(memory == &guarded);
    PLAIN_CHECK_INT(qsa_memory_alloc(context, 100, &memory), QSA_OK);
    PLAIN_CHECK_INT((int64_t)((uintptr_t)memory % 256), 0);
    PLAIN_CHECK_INT(qsa_memory_copy(context, memory, &from, sizeof from), QSA_OK);
    PLAIN_CHECK(memcmp(memory, &from, sizeof from) == 0);
    qsa_memory_free(context, memory, 100);
    qsa_memory_free(context, NULL, 100);
    qsa_memory_free(NULL, &from, 4);
    REFUSED("qsa_replay", qsa_replay(NULL, NULL, NULL), QSA_ERR_ARGUMENT, "context");
    REFUSED("qsa_replay", qsa_replay(context, NULL, NULL), QSA_ERR_ARGUMENT, "cache");
    qsa_context_destroy(context);
}

static void context(void) {
    qsa_context_config good;
    qsa_context *context = (qsa_context *)&good;
    misuse_guard(&context, sizeof context);
    qsa_context_config_init(NULL);
    qsa_context_config_init(&good);
    qsa_context_destroy(NULL);
    REFUSED("qsa_context_create", qsa_context_create(&good, NULL), QSA_ERR_ARGUMENT, "context");
    REFUSED("qsa_context_create", qsa_context_create(NULL, NULL), QSA_ERR_ARGUMENT, "context");
    CONTEXT(x.size = 0, QSA_ERR_ARGUMENT, "config->size");
    CONTEXT(x.size--, QSA_ERR_ARGUMENT, "config->size");
    CONTEXT((x.backend = QSA_BACKEND_CUDA, x.plugin = "/nowhere/libqsa_cuda.so"), QSA_ERR_UNSUPPORTED,
            "/nowhere/libqsa_cuda.so");
    CONTEXT((x.backend = QSA_BACKEND_CUDA, x.plugin = "libc.so.6"), QSA_ERR_UNSUPPORTED, "qsa_device_backend");
    CONTEXT(x.device = -1, QSA_ERR_ARGUMENT, "config->device");
    CONTEXT(x.backend = (qsa_backend)2, QSA_ERR_ARGUMENT, "config->backend");
    CONTEXT(x.backend = (qsa_backend)-1, QSA_ERR_ARGUMENT, "config->backend");
    if (!runs_fast())
        CONTEXT(x.kernel_class = QSA_CLASS_FAST, QSA_ERR_UNSUPPORTED, "fast");
    CONTEXT(x.kernel_class = (qsa_class)2, QSA_ERR_ARGUMENT, "config->kernel_class");
    const int32_t threads[] = {0, -1, 1025, INT32_MAX, INT32_MIN};
    for (int i = 0; i < 5; i++)
        CONTEXT(x.threads = threads[i], QSA_ERR_ARGUMENT, "config->threads");
    CONTEXT(x.allocator.alloc = no_alloc, QSA_ERR_ARGUMENT, "config->allocator.free");
    CONTEXT(x.allocator.free = no_free, QSA_ERR_ARGUMENT, "config->allocator.alloc");
    CONTEXT((x.allocator.alloc = no_alloc, x.allocator.free = no_free), QSA_ERR_MEMORY, "memory");
    misuse_end();
    qsa_context *made = NULL;
    FX_OK(qsa_context_create(NULL, &made)); // defaults
    qsa_context_destroy(made);
}

static void kernels(void) {
    qsa_context *c = NULL;
    FX_OK(qsa_context_create(NULL, &c));
    qsa_kernel_info info = {.size = sizeof info};
    misuse_guard(&info, sizeof info);
    misuse_guard(c, sizeof *c);
    const int32_t n = qsa_kernel_count();
    PLAIN_CHECK(n > 0);
    const int32_t bad[] = {-1, n, INT32_MAX, INT32_MIN};
    for (int i = 0; i < 4; i++)
        REFUSED("qsa_kernel_at", qsa_kernel_at(bad[i], &info), QSA_ERR_ARGUMENT, "i is");
    REFUSED("qsa_kernel_at", qsa_kernel_at(0, NULL), QSA_ERR_ARGUMENT, "info");
    WITH(qsa_kernel_info, info, x.size = 8, "qsa_kernel_at", qsa_kernel_at(0, &x), QSA_ERR_ARGUMENT, "info->size");
    const char *set = "qsa_context_set_kernel";
    REFUSED(set, qsa_context_set_kernel(NULL, "prep", "ref"), QSA_ERR_ARGUMENT, "context");
    REFUSED(set, qsa_context_set_kernel(c, NULL, "ref"), QSA_ERR_ARGUMENT, "stage");
    REFUSED(set, qsa_context_set_kernel(c, "prep", NULL), QSA_ERR_ARGUMENT, "name");
    REFUSED(set, qsa_context_set_kernel(c, "", "ref"), QSA_ERR_ARGUMENT, "stage");
    REFUSED(set, qsa_context_set_kernel(c, "pre\np", "ref"), QSA_ERR_ARGUMENT, "stage");
    REFUSED(set, qsa_context_set_kernel(c, "prep", "re"), QSA_ERR_ARGUMENT, "norm_rope_ref");
    REFUSED(set, qsa_context_set_kernel(c, "prep", "score_ref"), QSA_ERR_ARGUMENT, "norm_rope_ref");
    REFUSED(set, qsa_context_set_kernel(c, "attend", "a\r\n"), QSA_ERR_ARGUMENT, "attend_ref");
    char longest[1000];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    REFUSED(set, qsa_context_set_kernel(c, "prep", longest), QSA_ERR_ARGUMENT, "xxxx");
    REFUSED(set, qsa_context_set_kernel(c, longest, longest), QSA_ERR_ARGUMENT, "xxxx");
    PLAIN_CHECK(!qsa_context_kernel(NULL, "score") && !qsa_context_kernel(c, NULL) && !qsa_context_kernel(c, "none"));
    misuse_end();
    int unusable = 0;
    for (int32_t i = 0; i < n; i++) { // each row by its name: picked, or refused with the reason
        FX_OK(qsa_kernel_at(i, &info));
        const bool strict = info.kernel_class == QSA_CLASS_STRICT, right = info.usable && strict;
        const char *reason = info.usable && !strict ? "class fast" : info.reason;
        const qsa_status status = qsa_context_set_kernel(c, info.stage, info.name);
        PLAIN_CHECK_INT(status, right ? QSA_OK : QSA_ERR_UNSUPPORTED);
        PLAIN_CHECK(right ? strcmp(qsa_context_kernel(c, info.kernel), info.name) == 0
                          : strstr(qsa_last_error(), reason) != NULL && reason[0] != 0);
        unusable += !info.usable;
    }
    PLAIN_CHECK(unusable < n);
    qsa_context_destroy(c);
}

#define LAYER(change, word)                                                                                            \
    WITH(qsa_layer_config, good, change, "qsa_layer_create", qsa_layer_create(c, &x, &layer), QSA_ERR_ARGUMENT, word)

static void layer(void) {
    qsa_context *c = NULL;
    FX_OK(qsa_context_create(NULL, &c));
    const float weights[32] = {0};
    const qsa_layer_config good = {
        sizeof good, fx_geometry_small(), QSA_NORM_FACTOR, QSA_F32, weights, weights, weights, weights};
    qsa_layer *layer = (qsa_layer *)&c;
    misuse_guard(&layer, sizeof layer);
    qsa_layer_destroy(NULL);
    REFUSED("qsa_layer_create", qsa_layer_create(NULL, &good, &layer), QSA_ERR_ARGUMENT, "context");
    REFUSED("qsa_layer_create", qsa_layer_create(c, NULL, &layer), QSA_ERR_ARGUMENT, "config");
    REFUSED("qsa_layer_create", qsa_layer_create(c, &good, NULL), QSA_ERR_ARGUMENT, "layer");
    LAYER(x.size = 1, "config->size");
    LAYER(x.geometry.size = 1, "geometry.size");
    LAYER(x.geometry.heads = 0, "geometry.heads");
    LAYER(x.norm_form = (qsa_norm_form)2, "config->norm_form");
    LAYER(x.norm_type = QSA_I8, "config->norm_type");
    LAYER(x.norm_type = (qsa_type)0, "config->norm_type");
    LAYER(x.norm_type = (qsa_type)5, "config->norm_type");
    LAYER(x.q_norm = NULL, "config->q_norm");
    LAYER(x.k_norm = NULL, "config->k_norm");
    LAYER(x.index_q_norm = NULL, "config->index_q_norm");
    LAYER(x.index_k_norm = NULL, "config->index_k_norm");
    misuse_end();
    qsa_context_destroy(c);
}

#define CACHE(change, word)                                                                                            \
    {                                                                                                                  \
        WITH(qsa_cache_config, good, change, "qsa_cache_size", qsa_cache_size(&x, &bytes), QSA_ERR_ARGUMENT, word);    \
        WITH(qsa_cache_config, good, change, "qsa_cache_create", qsa_cache_create(c, &x, &cache), QSA_ERR_ARGUMENT,    \
             word);                                                                                                    \
    }

static void cache(void) {
    qsa_context *c = NULL;
    FX_OK(qsa_context_create(NULL, &c));
    const qsa_geometry g = fx_geometry_small();
    qsa_cache_config good;
    qsa_cache_config_init(NULL, &g, 5);
    qsa_cache_config_init(&good, NULL, 5);
    PLAIN_CHECK_INT(good.pages, 0);
    qsa_cache_config_init(&good, &g, -1);
    PLAIN_CHECK_INT(good.pages, 0);
    qsa_cache_config_init(&good, &g, INT32_MAX);
    PLAIN_CHECK(good.pages > 0);
    qsa_cache_config_init(&good, &g, 100);
    size_t bytes = 77;
    qsa_cache *cache = (qsa_cache *)&c;
    misuse_guard(&bytes, sizeof bytes);
    misuse_guard(&cache, sizeof cache);
    qsa_cache_destroy(NULL);
    REFUSED("qsa_cache_size", qsa_cache_size(NULL, &bytes), QSA_ERR_ARGUMENT, "config");
    REFUSED("qsa_cache_size", qsa_cache_size(&good, NULL), QSA_ERR_ARGUMENT, "bytes");
    REFUSED("qsa_cache_create", qsa_cache_create(NULL, &good, &cache), QSA_ERR_ARGUMENT, "context");
    REFUSED("qsa_cache_create", qsa_cache_create(c, NULL, &cache), QSA_ERR_ARGUMENT, "config");
    REFUSED("qsa_cache_create", qsa_cache_create(c, &good, NULL), QSA_ERR_ARGUMENT, "cache");
    CACHE(x.size = 0, "config->size");
    CACHE(x.geometry.size = 0, "geometry.size");
    CACHE(x.geometry.theta = 0, "geometry.theta");
    const int32_t bad[] = {0, -1, INT32_MIN};
    for (int i = 0; i < 3; i++) {
        CACHE(x.layers = bad[i], "config->layers");
        CACHE(x.page_cells = bad[i], "config->page_cells");
        CACHE(x.pages = bad[i], "config->pages");
        CACHE(x.max_sequences = bad[i], "config->max_sequences");
        CACHE(x.max_cells = bad[i], "config->max_cells");
    }
    CACHE(x.page_cells = 66, "config->page_cells is 66");
    CACHE(x.rollback = -2, "config->rollback");
    CACHE(x.rollback = INT32_MAX, "config->rollback");
    CACHE(x.screen = 2, "config->screen");
    CACHE(x.screen = -1, "config->screen");
    CACHE(x.max_cells = INT32_MAX, "config->max_cells");
    CACHE(x.pages = INT32_MAX, "config->pages");
    CACHE((x.pages = 1 << 14, x.page_cells = 1 << 17), "config->pages");
    CACHE((x.pages = 1 << 23, x.layers = INT32_MAX), "layers");
    CACHE((x.max_sequences = INT32_MAX, x.layers = INT32_MAX, x.rollback = 1 << 30), "config");
    const int types[] = {0, 5, -1, INT_MAX};
    for (int i = 0; i < 4; i++) {
        CACHE(x.kv_type = (qsa_type)types[i], "config->kv_type");
        CACHE(x.block_key_type = (qsa_type)types[i], "config->block_key_type");
    }
    CACHE(x.block_key_type = QSA_I8, "config->block_key_type");
    misuse_end();
    qsa_context_destroy(c);
}

int main(void) {
    PLAIN_RUN(words);
    PLAIN_RUN(geometry);
    PLAIN_RUN(geometry_numbers);
    PLAIN_RUN(context);
    PLAIN_RUN(device_calls);
    PLAIN_RUN(kernels);
    PLAIN_RUN(layer);
    PLAIN_RUN(cache);
    return plain_finish();
}
