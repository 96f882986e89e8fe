// SPDX-License-Identifier: Apache-2.0
//
// Files of a made-up model. A model with more than one QSA layer, or in a form that is usually sharded, lies in two files a
// layer, made and written one at a time; memory holds half a layer.

#include "make_checkpoint.h"

#include "io/file_replace.h"
#include "io/gguf_write.h"
#include "io/io_util.h"
#include "make_form.h"

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define INDEX_FILE  "model.safetensors.index.json"
#define HIDDEN_FILE "hidden.safetensors"

enum { PATH_SIZE = 4096, HIDDEN_STREAM = 1 << 30 };

typedef struct folder {
    const make_plan *plan;
    const char *path;
    bool made;      // the folder is ours to remove
    int32_t layers; // QSA layers
    int32_t parts;  // files with weights
    json_t *index;  // weight_map
    int64_t bytes;  // of all tensors
} folder;

static bool path_of(const folder *f, const char *name, char path[static PATH_SIZE], tool_error *error) {
    return snprintf(path, PATH_SIZE, "%s/%s", f->path, name) < PATH_SIZE || tool_fail(error, "the path is too long");
}

// Name of part `no` (from 0), "model-00001-of-00002.gguf".
static void part_name(const folder *f, int32_t no, char name[static 64]) {
    const char *ending = f->plan->gguf ? "gguf" : "safetensors";
    if (f->parts == 1) {
        snprintf(name, 64, "model.%s", ending);
    } else {
        snprintf(name, 64, "model-%05d-of-%05d.%s", no + 1, f->parts, ending);
    }
}

static bool open_folder(folder *f, tool_error *error) {
    f->made = mkdir(f->path, 0777) == 0;
    if (f->made) {
        return true;
    }
    if (errno != EEXIST) {
        return tool_fail(error, "cannot make the folder: %s", strerror(errno));
    }
    DIR *dir = opendir(f->path);
    if (!dir) {
        return tool_fail(error, "cannot read the folder: %s", strerror(errno));
    }
    bool empty = true;
    for (const struct dirent *entry; empty && (entry = readdir(dir)) != NULL;) {
        empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    }
    closedir(dir);
    return empty || tool_fail(error, "the folder is not empty, and nothing in it is overwritten");
}

static bool save_text(const folder *f, const char *name, const char *text, tool_error *error) {
    char path[PATH_SIZE];
    char line[ST_ERR_SIZE];
    const io_error err = {line, sizeof line};
    io_replacement r;
    if (!path_of(f, name, path, error)) {
        return false;
    }
    if (!io_replace_begin(&r, path, err)) {
        return tool_fail(error, "%s: %.900s", name, line);
    }
    if (!io_replace_write(&r, text, strlen(text), err) || !io_replace_write(&r, "\n", 1, err)) {
        io_replace_abandon(&r);
        return tool_fail(error, "%s: %.900s", name, line);
    }
    return io_replace_commit(&r, err) || tool_fail(error, "%s: %.900s", name, line);
}

static st_dtype st_type(stored_encoding encoding) {
    return encoding == STORED_F32       ? ST_F32
           : encoding == STORED_F16     ? ST_F16
           : encoding == STORED_F8_E4M3 ? ST_F8_E4M3
                                        : ST_BF16;
}

static uint32_t gguf_type(stored_encoding encoding) {
    return encoding == STORED_F32    ? GGUF_TENSOR_F32
           : encoding == STORED_F16  ? GGUF_TENSOR_F16
           : encoding == STORED_BF16 ? GGUF_TENSOR_BF16
                                     : GGUF_TENSOR_Q8_0;
}

static bool save_st(folder *f, const char *name, const make_half *halves, int count, tool_error *error) {
    char path[PATH_SIZE];
    char line[ST_ERR_SIZE] = "no memory";
    st_writer *writer = st_writer_new();
    for (int h = 0; writer && h < count; h++) {
        for (int i = 0; i < halves[h].count; i++) {
            const make_tensor *t = &halves[h].tensors[i];
            const int64_t elements = t->shape[0] * (t->n_dims == 2 ? t->shape[1] : 1);
            st_writer_add(writer, t->name, st_type(t->encoding), t->n_dims, t->shape, t->data);
            json_object_set_new(f->index, t->name, json_string(name));
            f->bytes += elements * (int64_t)st_dtype_size(st_type(t->encoding));
        }
    }
    if (writer) {
        st_writer_metadata(writer, "format", "pt");
    }
    const bool saved = path_of(f, name, path, error) && writer && st_writer_save(writer, path, line, sizeof line);
    st_writer_free(writer);
    return saved || tool_fail(error, "%s: %.900s", name, line);
}

// The model's metadata, in the first file only.
static void put_metadata(const folder *f, gguf_writer *w) {
    const make_plan *plan = f->plan;
    const qsa_geometry *g = &plan->geometry;
    const int32_t sections[4] = {g->sections[0], g->sections[1], g->sections[2], 0};
    int32_t ratios[4096];
    for (int32_t i = 0; i < plan->layers; i++) {
        ratios[i] = (i + 1) % MAKE_INTERVAL ? 0 : g->ratio;
    }
    gguf_put_string(w, "general.architecture", "qwen4exp");
    gguf_put_string(w, "general.type", "model");
    gguf_put_string(w, "general.name", "made by qsa make-checkpoint");
    gguf_put_u32(w, "qwen4exp.block_count", (uint32_t)plan->layers);
    gguf_put_u32(w, "qwen4exp.context_length", 262144);
    gguf_put_u32(w, "qwen4exp.embedding_length", (uint32_t)plan->hidden);
    gguf_put_u32(w, "qwen4exp.full_attention_interval", MAKE_INTERVAL);
    gguf_put_u32(w, "qwen4exp.attention.head_count", (uint32_t)g->heads);
    gguf_put_u32(w, "qwen4exp.attention.head_count_kv", (uint32_t)g->kv_heads);
    gguf_put_u32(w, "qwen4exp.attention.key_length", (uint32_t)g->head_dim);
    gguf_put_u32(w, "qwen4exp.attention.value_length", (uint32_t)g->head_dim);
    gguf_put_f32(w, "qwen4exp.attention.layer_norm_rms_epsilon", g->eps);
    gguf_put_u32(w, "qwen4exp.attention.indexer.head_count", (uint32_t)g->index_heads);
    gguf_put_u32(w, "qwen4exp.attention.indexer.key_length", (uint32_t)g->index_dim);
    gguf_put_u32(w, "qwen4exp.attention.indexer.top_k", (uint32_t)g->budget);
    gguf_put_i32_array(w, "qwen4exp.attention.compress_ratios", ratios, (size_t)plan->layers);
    gguf_put_u32(w, "qwen4exp.rope.dimension_count", (uint32_t)g->rotary_dim);
    gguf_put_f32(w, "qwen4exp.rope.freq_base", (float)g->theta);
    gguf_put_i32_array(w, "qwen4exp.rope.dimension_sections", sections, 4);
    gguf_put_u32(w, "general.quantization_version", 2);
}

static bool save_gguf(const folder *f, int32_t no, const char *name, const make_half *halves, int count,
                      tool_error *error) {
    char path[PATH_SIZE];
    char line[ST_ERR_SIZE] = "no memory";
    gguf_writer *w = gguf_writer_new();
    if (w && no == 0) {
        put_metadata(f, w);
    }
    if (w && f->parts > 1) {
        gguf_put_u16(w, "split.no", (uint16_t)no);
        gguf_put_u16(w, "split.count", (uint16_t)f->parts);
        gguf_put_i32(w, "split.tensors.count", f->layers * make_layer_tensors(f->plan));
    }
    for (int h = 0; w && h < count; h++) {
        for (int i = 0; i < halves[h].count; i++) {
            const make_tensor *t = &halves[h].tensors[i];
            gguf_put_tensor(w, t->name, gguf_type(t->encoding), t->n_dims, t->shape, t->data);
        }
    }
    const bool saved = path_of(f, name, path, error) && w && gguf_writer_save(w, path, (io_error){line, sizeof line});
    gguf_writer_free(w);
    return saved || tool_fail(error, "%s: %.900s", name, line);
}

// One file: both halves of the only layer, or one half.
static bool save_part(folder *f, int32_t no, tool_error *error) {
    const int count = f->parts == 1 ? MAKE_HALVES : 1;
    make_half halves[MAKE_HALVES] = {0};
    char name[64];
    bool saved = true;
    for (int h = 0; saved && h < count; h++) {
        const int32_t layer = (no / MAKE_HALVES + 1) * MAKE_INTERVAL - 1;
        saved = make_layer_half(f->plan, layer, count == 1 ? no % MAKE_HALVES : h, &halves[h], error);
    }
    part_name(f, no, name);
    saved = saved &&
            (f->plan->gguf ? save_gguf(f, no, name, halves, count, error) : save_st(f, name, halves, count, error));
    for (int h = 0; h < count; h++) {
        make_half_free(&halves[h]);
    }
    return saved;
}

static bool save_hidden(const folder *f, int32_t tokens, tool_error *error) {
    const int64_t shape[3] = {1, tokens, f->plan->hidden};
    const size_t count = (size_t)tokens * (size_t)f->plan->hidden;
    char path[PATH_SIZE];
    char line[ST_ERR_SIZE] = "no memory";
    float *values = tool_array(count, sizeof *values, false, error);
    if (!values || !path_of(f, HIDDEN_FILE, path, error)) {
        free(values);
        return false;
    }
    make_normal(f->plan->seed, HIDDEN_STREAM, 1, count, values);
    void *data = make_form(STORED_BF16, values, count, error);
    free(values);
    st_writer *writer = data ? st_writer_new() : NULL;
    if (writer) {
        st_writer_add(writer, "hidden", ST_BF16, 3, shape, data);
    }
    const bool saved = writer && st_writer_save(writer, path, line, sizeof line);
    st_writer_free(writer);
    free(data);
    return saved || tool_fail(error, HIDDEN_FILE ": %.900s", line);
}

// What stands beside the weights of a checkpoint: the index, and config.json last.
static bool save_config(folder *f, tool_error *error) {
    bool saved = true;
    if (f->parts > 1) {
        json_t *index =
            json_pack("{s:{s:I}, s:O}", "metadata", "total_size", (json_int_t)f->bytes, "weight_map", f->index);
        char *text = index ? json_dumps(index, JSON_INDENT(2) | JSON_SORT_KEYS) : NULL;
        saved = text ? save_text(f, INDEX_FILE, text, error) : tool_fail(error, "no memory for the index");
        free(text);
        json_decref(index);
    }
    char *config = saved ? make_config(f->plan, error) : NULL;
    saved = config && save_text(f, "config.json", config, error);
    free(config);
    return saved;
}

static void remove_all(const folder *f) {
    static const char *const others[] = {HIDDEN_FILE, INDEX_FILE, "config.json"};
    tool_error ignored;
    char path[PATH_SIZE];
    char name[64];
    for (int32_t i = 0; i < f->parts; i++) {
        part_name(f, i, name);
        if (path_of(f, name, path, &ignored)) {
            unlink(path);
        }
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (path_of(f, others[i], path, &ignored)) {
            unlink(path);
        }
    }
    if (f->made) {
        rmdir(f->path);
    }
}

bool make_checkpoint(const make_plan *plan, const char *path, make_result *result, tool_error *error) {
    folder f = {.plan = plan, .path = path, .layers = plan->layers / MAKE_INTERVAL};
    // Forms that people ship whole are whole where one layer is all there is: both ways of lying on disk are made.
    const bool whole = f.layers == 1 && (plan->encoding == STORED_F32 || plan->encoding == STORED_F16);
    f.parts = whole ? 1 : f.layers * MAKE_HALVES;
    *result = (make_result){.files = f.parts, .qsa_layer = MAKE_INTERVAL - 1};
    // Past the budget, and no multiple of the ratio.
    result->tokens = plan->geometry.budget + 8 * plan->geometry.ratio + plan->geometry.budget / 8 + 1;
    if (!open_folder(&f, error)) {
        return false;
    }
    f.index = json_object();
    bool saved = f.index ? save_hidden(&f, result->tokens, error) : tool_fail(error, "no memory for the index");
    for (int32_t i = f.parts - 1; saved && i >= 0; i--) {
        saved = save_part(&f, i, error);
    }
    saved = saved && (plan->gguf || save_config(&f, error));
    if (plan->gguf) {
        part_name(&f, 0, result->first);
    }
    if (!saved) {
        remove_all(&f);
    }
    json_decref(f.index);
    return saved;
}
