// SPDX-License-Identifier: Apache-2.0
//
// The digest, the JSON object (its keys are the tool's interface: with a model two are added, none is ever left out) and the file of results.

#include "run_report.h"

#include "io/io_util.h"
#include "kernel_list.h"

#include <jansson.h>
#include <math.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const stage_names[PIPELINE_STAGES] = {"project", "prep", "score", "topk", "attend", "merge"};

bool run_digest(const pipeline *run, char text[static RUN_SHA256_TEXT], tool_error *error) {
    const size_t width = result_width(run->file, RESULT_ATTN);
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int size = 0;
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    bool right = context && EVP_DigestInit_ex(context, EVP_sha256(), NULL);
    for (int64_t slot = 0; right && slot < run->slots; slot++) {
        if (run->attended[slot]) {
            right = EVP_DigestUpdate(context, run->gated + (size_t)slot * width, width * sizeof(float));
        }
    }
    right = right && EVP_DigestFinal_ex(context, digest, &size) && size == 32;
    EVP_MD_CTX_free(context);
    for (size_t i = 0; right && i < 32; i++) {
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
    }
    return right || tool_fail(error, "libcrypto cannot compute SHA-256");
}

// A number, or null for one that JSON cannot hold.
static json_t *number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *json_errors(const comparison *result) {
    json_t *errors = json_object();
    for (int i = 0; i < RESULT_TENSORS; i++) {
        const compare_error *error = &result->error[i];
        if (error->compared) {
            json_object_set_new(
                errors, result_name((result_tensor)i),
                json_pack("{s:o, s:o}", "rel_l2", number(error->rel_l2), "max_abs", number(error->max_abs)));
        }
    }
    return errors;
}

static json_t *json_kernels(const pipeline *run) {
    json_t *kernels = json_object();
    for (int i = 0; i < KERNEL_STAGES; i++) {
        json_object_set_new(kernels, kernel_stages[i],
                            json_string(kernel_used(run->context, run->cache, kernel_stages[i], ",").text));
    }
    return kernels;
}

static json_t *json_times(const pipeline *run) {
    json_t *times = json_object();
    for (int i = 0; i < PIPELINE_STAGES; i++) {
        json_object_set_new(times, stage_names[i], number(run->ms[i]));
    }
    json_object_set_new(times, "total", number(run->total_ms));
    return times;
}

// A path, escaped where it is no UTF-8.
static json_t *json_path(const char *path) {
    json_t *string = json_string(path);
    return string ? string : json_string(io_quote_string(path).text);
}

bool run_print_json(const run_report *report, tool_error *error) {
    const pipeline *run = report->run;
    const pipeline_options *options = &run->options;
    const int64_t *rows = report->result->rows;
    json_t *object =
        json_pack("{s:o, s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:I, s:I}", "file", json_path(report->path), "backend",
                  tool_backend_name(options->backend), "kv", tool_type_name(options->kv), "block_keys",
                  tool_type_name(options->block_keys), "select", tool_rule_name(options->rule), "class",
                  tool_class_name(options->kernel_class), "threads", options->threads, "chunk", options->chunk,
                  "tokens", (json_int_t)run->tokens, "rows", (json_int_t)run->attending);
    json_t *rest = json_pack("{s:o, s:{s:I, s:I, s:I, s:I}, s:o, s:o, s:{s:I, s:I}, s:s, s:b}", "kernels",
                             json_kernels(run), "selection", "equal", (json_int_t)rows[COMPARE_EQUAL], "tie",
                             (json_int_t)rows[COMPARE_TIE], "near", (json_int_t)rows[COMPARE_NEAR], "wrong",
                             (json_int_t)rows[COMPARE_WRONG], "error", json_errors(report->result), "ms",
                             json_times(run), "memory", "cache_bytes", (json_int_t)run->cache_bytes, "workspace_bytes",
                             (json_int_t)run->workspace_bytes, "attn_sha256", report->attn_sha256, "ok", report->ok);
    if (report->model) {
        json_object_set_new(object, report->gguf ? "gguf" : "checkpoint", json_path(report->model));
        json_object_set_new(object, "layer", json_integer(report->layer));
    }
    json_object_update(object, rest);
    char *text = object && rest ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(7)) : NULL;
    json_decref(object);
    json_decref(rest);
    if (!text) {
        return tool_fail(error, "no memory for the JSON object");
    }
    puts(text);
    free(text);
    return true;
}

// Adds an array of `rows` per sequence, 2 to 4 dimensions in all.
static void add(st_writer *writer, const pipeline *run, result_tensor which, int64_t rows, int64_t middle, int64_t last,
                const void *data) {
    const int64_t shape[4] = {run->file->batch, rows, middle ? middle : last, last};
    st_writer_add(writer, result_name(which), which == RESULT_SELECTED ? ST_U8 : ST_F32, middle ? 4 : 3, shape, data);
}

static void add_results(st_writer *writer, const run_report *report, const uint8_t *selected) {
    const pipeline *run = report->run;
    const qsa_geometry *g = &run->geometry;
    const int64_t rows = run->n_rows;
    add(writer, run, RESULT_Q, rows, g->heads, g->head_dim, run->q);
    add(writer, run, RESULT_INDEX_Q, rows, g->index_heads, g->index_dim, run->index_q);
    add(writer, run, RESULT_K, run->file->tokens, g->kv_heads, g->head_dim, run->k);
    add(writer, run, RESULT_V, run->file->tokens, g->kv_heads, g->head_dim, run->v);
    add(writer, run, RESULT_SCORES, rows, 0, run->blocks, run->scores);
    add(writer, run, RESULT_SELECTED, rows, 0, run->file->tokens, selected);
    add(writer, run, RESULT_ATTN, rows, g->heads, g->head_dim, run->attn);
    add(writer, run, RESULT_OUT, rows, 0, run->file->hidden, run->out);
    st_writer_add(writer, "rows", ST_I32, 1, &rows, run->rows);
    st_writer_metadata(writer, "config", run->file->config);
    st_writer_metadata(writer, "source", "qsa run");
    st_writer_metadata(writer, "qsa_version", qsa_version_string());
    st_writer_metadata(writer, "kv", tool_type_name(run->options.kv));
    st_writer_metadata(writer, "block_keys", tool_type_name(run->options.block_keys));
    st_writer_metadata(writer, "select", tool_rule_name(run->options.rule));
    st_writer_metadata(writer, "class", tool_class_name(run->options.kernel_class));
    st_writer_metadata(writer, "attn_sha256", report->attn_sha256);
}

bool run_save(const run_report *report, const char *path, tool_error *error) {
    const pipeline *run = report->run;
    const size_t tokens = (size_t)run->file->tokens;
    uint8_t *selected = tool_array((size_t)run->slots, tokens, true, error);
    for (int64_t slot = 0; selected && slot < run->slots; slot++) {
        if (run->attended[slot]) {
            pipeline_selected(run, slot, selected + (size_t)slot * tokens);
        }
    }
    st_writer *writer = selected ? st_writer_new() : NULL;
    char reason[ST_ERR_SIZE] = "no memory";
    if (writer) {
        add_results(writer, report, selected);
    }
    const bool saved = writer && st_writer_save(writer, path, reason, sizeof reason);
    st_writer_free(writer);
    free(selected);
    return saved || tool_fail(error, "%.1000s", reason);
}
