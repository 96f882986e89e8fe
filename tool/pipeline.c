// SPDX-License-Identifier: Apache-2.0
//
// The pipeline's life: options, context with forced kernels, layer, cache, result arrays. The cache is sized for what
// the file holds, every sequence at its full length.

#include "pipeline_scratch.h"

#include "lab/folder.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void pipeline_options_init(pipeline_options *options) {
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    *options = (pipeline_options){
        .kv = QSA_I8,
        .block_keys = QSA_F32,
        .rule = QSA_RULE_OFFICIAL,
        .kernel_class = QSA_CLASS_STRICT,
        .backend = QSA_BACKEND_CPU,
        .threads = cores < 1      ? 1
                   : cores > 1024 ? 1024
                                  : (int32_t)cores,
        .chunk = 512,
        .keep = PIPELINE_KEEP_ALL,
    };
}

qsa_context *pipeline_context(const pipeline_options *options, tool_error *error) {
    qsa_context_config config;
    qsa_context_config_init(&config);
    config.backend = options->backend;
    config.kernel_class = options->kernel_class;
    config.threads = options->threads;
    qsa_context *context = NULL;
    if (qsa_context_create(&config, &context) != QSA_OK) {
        tool_fail(error, "backend %s, class %s: %s", tool_backend_name(options->backend),
                  tool_class_name(options->kernel_class), qsa_last_error());
        return NULL;
    }
    bench_error said = {""};
    if (!lab_folder_use(context, &said)) {
        tool_fail(error, "%s", said.text);
        qsa_context_destroy(context);
        return NULL;
    }
    for (int i = 0; i < options->n_kernels; i++) {
        const pipeline_kernel *kernel = &options->kernels[i];
        if (qsa_context_set_kernel(context, kernel->stage, kernel->name) != QSA_OK) {
            tool_fail(error, "--kernel %s=%s: %s", kernel->stage, kernel->name, qsa_last_error());
            qsa_context_destroy(context);
            return NULL;
        }
    }
    return context;
}

static int32_t longest_sequence(const layer_file *file) {
    int32_t longest = 1;
    for (int32_t b = 0; b < file->batch; b++) {
        longest = file->length[b] > longest ? file->length[b] : longest;
    }
    return longest;
}

static bool open_layer(pipeline *run, tool_error *error) {
    const layer_file *file = run->file;
    const qsa_layer_config config = {
        .size = sizeof config,
        .geometry = run->geometry,
        .norm_form = file->norm_form,
        .norm_type = QSA_F32,
        .q_norm = file->norm[LAYER_Q_NORM],
        .k_norm = file->norm[LAYER_K_NORM],
        .index_q_norm = file->norm[LAYER_INDEX_Q_NORM],
        .index_k_norm = file->norm[LAYER_INDEX_K_NORM],
    };
    return qsa_layer_create(run->context, &config, &run->layer) == QSA_OK || tool_fail_qsa(error, "layer");
}

static bool open_cache(pipeline *run, tool_error *error) {
    const layer_file *file = run->file;
    const int32_t ratio = run->geometry.ratio;
    const int32_t longest = longest_sequence(file);
    const int64_t whole = ((int64_t)longest + ratio - 1) / ratio * ratio;
    qsa_cache_config config;
    qsa_cache_config_init(&config, &run->geometry, longest);
    config.kv_type = run->options.kv;
    config.block_key_type = run->options.block_keys;
    config.max_sequences = file->batch;
    if (whole < config.page_cells) {
        config.page_cells = (int32_t)whole;
    }
    int64_t pages = 0;
    for (int32_t b = 0; b < file->batch; b++) {
        pages += ((int64_t)file->length[b] + config.page_cells - 1) / config.page_cells;
    }
    config.pages = pages < 1 ? 1 : (int32_t)pages;
    if (qsa_cache_size(&config, &run->cache_bytes) != QSA_OK ||
        qsa_cache_create(run->context, &config, &run->cache) != QSA_OK) {
        return tool_fail_qsa(error, "cache");
    }
    run->sequences = tool_array((size_t)file->batch, sizeof *run->sequences, true, error);
    for (int32_t b = 0; run->sequences && b < file->batch; b++) {
        if (qsa_sequence_create(run->cache, &run->sequences[b]) != QSA_OK) {
            return tool_fail_qsa(error, "cache");
        }
    }
    return run->sequences != NULL;
}

static bool open_rows(pipeline *run, tool_error *error) {
    const layer_file *file = run->file;
    const bool all = run->options.all_rows;
    run->n_rows = all ? file->tokens : file->n_rows;
    run->slots = (int64_t)file->batch * run->n_rows;
    run->rows = tool_array((size_t)run->n_rows, sizeof *run->rows, false, error);
    run->cells = tool_array((size_t)run->slots, sizeof *run->cells, false, error);
    run->attended = tool_array((size_t)run->slots, sizeof *run->attended, false, error);
    if (!run->rows || !run->cells || !run->attended) {
        return false;
    }
    for (int32_t r = 0; r < run->n_rows; r++) {
        run->rows[r] = all ? r : file->rows[r];
    }
    for (int64_t slot = 0; slot < run->slots; slot++) {
        const int64_t b = slot / run->n_rows;
        run->cells[slot] = file->token_cells[b * file->tokens + run->rows[slot % run->n_rows]];
        run->attended[slot] = run->cells[slot] > 0;
        run->attending += run->attended[slot];
    }
    for (int32_t b = 0; b < file->batch; b++) {
        run->tokens += file->length[b];
    }
    return true;
}

// An array of NaN if it is to be kept; false only when memory is out.
static bool open_floats(float **array, bool keep, int64_t rows, size_t width, tool_error *error) {
    if (keep && width && (size_t)rows > SIZE_MAX / sizeof(float) / width) {
        return tool_fail(error, "no memory for %lld rows of %zu numbers", (long long)rows, width);
    }
    *array = keep ? tool_nans((size_t)rows * width, error) : NULL;
    return !keep || *array;
}

static bool open_results(pipeline *run, tool_error *error) {
    const layer_file *file = run->file;
    const unsigned keep = run->options.keep;
    const int64_t all = (int64_t)file->batch * file->tokens;
    const size_t heads = result_width(file, RESULT_Q);
    run->blocks = file->tokens / run->geometry.ratio;
    if (!open_floats(&run->q, keep & PIPELINE_KEEP_Q, run->slots, heads, error) ||
        !open_floats(&run->index_q, keep & PIPELINE_KEEP_INDEX_Q, run->slots, result_width(file, RESULT_INDEX_Q),
                     error) ||
        !open_floats(&run->k, keep & PIPELINE_KEEP_KV, all, result_width(file, RESULT_K), error) ||
        !open_floats(&run->v, keep & PIPELINE_KEEP_KV, all, result_width(file, RESULT_V), error) ||
        !open_floats(&run->scores, keep & PIPELINE_KEEP_SCORES, run->slots, (size_t)run->blocks, error) ||
        !open_floats(&run->attn, keep & PIPELINE_KEEP_ATTN, run->slots, heads, error) ||
        !open_floats(&run->gated, keep & (PIPELINE_KEEP_GATED | PIPELINE_KEEP_OUT), run->slots, heads, error) ||
        !open_floats(&run->out, keep & PIPELINE_KEEP_OUT, run->slots, (size_t)file->hidden, error)) {
        return false;
    }
    for (size_t i = 0; run->scores && i < (size_t)run->slots * (size_t)run->blocks; i++) {
        run->scores[i] = -INFINITY;
    }
    const size_t slots = (size_t)run->slots;
    qsa_selection *s = &run->selection;
    s->size = sizeof *s;
    s->stride = qsa_selection_stride(&run->geometry, run->options.rule);
    s->ids = tool_array(slots * (size_t)s->stride, sizeof *s->ids, true, error);
    s->count = tool_array(slots, sizeof *s->count, true, error);
    s->cut_index = tool_array(slots, sizeof *s->cut_index, true, error);
    s->cut_cells = tool_array(slots, sizeof *s->cut_cells, true, error);
    return s->ids && s->count && s->cut_index && s->cut_cells;
}

bool pipeline_open(pipeline *run, const layer_file *file, const pipeline_options *options, tool_error *error) {
    *run = (pipeline){.file = file, .options = *options, .geometry = file->geometry, .started_ms = tool_now_ms()};
    const int32_t ratio = run->geometry.ratio;
    const int64_t reached = ((int64_t)longest_sequence(file) + ratio - 1) / ratio * ratio;
    if (reached < run->geometry.budget) {
        run->geometry.budget = (int32_t)reached;
    }
    run->context = pipeline_context(options, error);
    const bool opened = run->context && open_layer(run, error) && open_cache(run, error) && open_rows(run, error) &&
                        open_results(run, error) && pipeline_scratch_create(run, error);
    if (!opened) {
        pipeline_close(run);
    }
    return opened;
}

void pipeline_close(pipeline *run) {
    pipeline_scratch_destroy(run);
    projection_destroy(run->projection);
    qsa_cache_destroy(run->cache);
    qsa_layer_destroy(run->layer);
    qsa_context_destroy(run->context);
    free(run->sequences);
    free(run->rows);
    free(run->cells);
    free(run->attended);
    free(run->q);
    free(run->index_q);
    free(run->k);
    free(run->v);
    free(run->scores);
    free(run->selection.ids);
    free(run->selection.count);
    free(run->selection.cut_index);
    free(run->selection.cut_cells);
    free(run->attn);
    free(run->gated);
    free(run->out);
    *run = (pipeline){0};
}

int32_t pipeline_selected(const pipeline *run, int64_t slot, uint8_t *tokens) {
    const layer_file *file = run->file;
    const qsa_geometry *g = &run->geometry;
    const qsa_selection *s = &run->selection;
    const int32_t n = run->cells[slot];
    const int32_t *token = file->cell_token + slot / run->n_rows * file->tokens;
    const bool every = n <= g->budget + g->ratio - 1;
    int32_t marked = 0;
    memset(tokens, 0, (size_t)file->tokens);
    for (int32_t c = every ? 0 : n / g->ratio * g->ratio; c < n; c++, marked++) {
        tokens[token[c]] = 1;
    }
    for (int32_t i = 0; !every && i < s->count[slot]; i++) {
        const int32_t id = s->ids[slot * s->stride + i];
        const int32_t cells = s->cut_index[slot] == i ? s->cut_cells[slot] : g->ratio;
        for (int32_t c = 0; c < cells; c++, marked++) {
            tokens[token[id * g->ratio + c]] = 1;
        }
    }
    return marked;
}
