// SPDX-License-Identifier: Apache-2.0
//
// For tests of models on disk: writes the weights of a golden file as a checkpoint or as GGUF, with one thing changed.
// Written here from the formats' rules, not with make-checkpoint: the two must agree.

#ifndef QSA_TESTS_MODEL_TEST_H
#define QSA_TESTS_MODEL_TEST_H

#include "tool_test.h"

#include <sys/stat.h>

#include "io/gguf_write.h"

#define OFFICIAL "model.language_model.layers."

// What is written, and what is changed. Tensor names are those below the layer's number.
typedef struct model_spec {
    const char *golden;
    const char *prefix;       // OFFICIAL where NULL
    int shards;               // 0: model.safetensors; 2: with an index
    const patch *change;      // one tensor in another form, or left out
    const char *config_key;   // of text_config, or of the whole with a leading "/"
    const char *config_value; // JSON text, NULL: left out
    const char *index_tensor; // its file in the index becomes
    const char *index_file;
    bool raw_norms;       // GGUF: without the 1
    uint32_t gguf_change; // GGUF: type of attn_k.weight, 0: F32
    const char *gguf_without;
    int64_t cut; // bytes cut from the end of the (first) weights' file
} model_spec;

static inline void write_text(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

// A path in the test's folder below a folder of its own. Static memory, eight in turn.
static inline const char *model_path(const char *folder, const char *name) {
    static char paths[8][768];
    static int turn;
    char *path = paths[turn++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s%s%s", tool_test_folder, folder, *name ? "/" : "", name);
    return path;
}

static inline json_t *golden_config(const st_file *st) {
    json_t *config = json_loads(st_metadata(st, "config"), 0, NULL);
    assert_non_null(config);
    assert_int_equal(json_object_set_new(config, "num_hidden_layers", json_integer(4)), 0);
    return config;
}

static inline void write_config(const char *folder, const st_file *st, const model_spec *spec) {
    json_t *root = json_pack("{s:s, s:o}", "model_type", "qwen4_exp", "text_config", golden_config(st));
    const char *key = spec->config_key;
    if (key) {
        json_t *object = *key == '/' ? root : json_object_get(root, "text_config");
        key += *key == '/';
        if (spec->config_value) {
            assert_int_equal(json_object_set_new(object, key, json_loads(spec->config_value, JSON_DECODE_ANY, NULL)),
                             0);
        } else {
            assert_int_equal(json_object_del(object, key), 0);
        }
    }
    char *text = json_dumps(root, JSON_INDENT(1));
    assert_non_null(text);
    write_text(model_path(folder, "config.json"), text);
    free(text);
    json_decref(root);
}

static inline void cut_file(const char *path, int64_t bytes) {
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(truncate(path, info.st_size - bytes), 0);
}

// All float tensors of a layer as float32, so that a form with less does not hide a mistake. Freed by the caller.
static inline float *golden_floats(const st_tensor *t) {
    char reason[ST_ERR_SIZE];
    float *values = malloc((size_t)t->count * sizeof *values);
    assert_non_null(values);
    assert_true(st_to_f32(t, values, reason, sizeof reason));
    return values;
}

// The folder's path.
static inline const char *write_checkpoint(const char *folder, const model_spec *spec) {
    static const char *const whole[] = {"model.safetensors"};
    static const char *const sharded[] = {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"};
    const char *const *files = spec->shards ? sharded : whole;
    const int n_files = spec->shards ? 2 : 1;
    char reason[ST_ERR_SIZE];
    float *kept[64] = {0};
    int n_kept = 0;
    st_file *st = st_open(golden_path(spec->golden), reason, sizeof reason);
    st_writer *writers[2] = {st_writer_new(), st_writer_new()};
    json_t *map = json_object();
    assert_non_null(st);
    assert_int_equal(mkdir(model_path(folder, ""), 0777), 0);
    for (int64_t i = 0; i < st_tensor_count(st); i++) {
        const st_tensor *t = st_tensor_at(st, i);
        const patch *p = spec->change && strcmp(spec->change->name, t->name) == 0 ? spec->change : NULL;
        const int file = (int)(i % n_files);
        char name[256];
        if (strncmp(t->name, "self_attn.", 10) != 0) {
            continue;
        }
        snprintf(name, sizeof name, "%s3.%s", spec->prefix ? spec->prefix : OFFICIAL, t->name);
        if (!p || p->dtype >= 0) {
            kept[n_kept] = golden_floats(t);
            assert_true(p ? st_writer_add(writers[file], name, (st_dtype)p->dtype, p->n_dims, p->shape, p->data)
                          : st_writer_add(writers[file], name, ST_F32, t->n_dims, t->shape, kept[n_kept]));
            n_kept++;
            json_object_set_new(map, name,
                                json_string(spec->index_tensor && strcmp(spec->index_tensor, t->name) == 0
                                                ? spec->index_file
                                                : files[file]));
        }
    }
    for (int f = 0; f < n_files; f++) {
        assert_true(st_writer_save(writers[f], model_path(folder, files[f]), reason, sizeof reason));
    }
    cut_file(model_path(folder, files[0]), spec->cut);
    json_t *index = json_pack("{s:{s:i}, s:o}", "metadata", "total_size", 1, "weight_map", map);
    char *text = json_dumps(index, 0);
    if (spec->shards) {
        write_text(model_path(folder, "model.safetensors.index.json"), text);
    }
    write_config(folder, st, spec);
    free(text);
    json_decref(index);
    st_writer_free(writers[0]);
    st_writer_free(writers[1]);
    while (n_kept > 0) {
        free(kept[--n_kept]);
    }
    st_close(st);
    return model_path(folder, "");
}

static inline int64_t config_int(const json_t *config, const char *key) {
    assert_true(json_is_integer(json_object_get(config, key)));
    return json_integer_value(json_object_get(config, key));
}

static inline void put_model_keys(gguf_writer *w, const json_t *config, const model_spec *spec) {
    static const struct {
        const char *key, *from;
    } numbers[] = {
        {"embedding_length", "hidden_size"},
        {"attention.head_count", "num_attention_heads"},
        {"attention.head_count_kv", "num_key_value_heads"},
        {"attention.key_length", "head_dim"},
        {"attention.value_length", "head_dim"},
        {"attention.indexer.head_count", "indexer_n_heads"},
        {"attention.indexer.key_length", "indexer_head_dim"},
        {"attention.indexer.top_k", "indexer_budget"},
    };
    const json_t *rope = json_object_get(config, "rope_parameters");
    const json_t *sections = json_object_get(rope, "mrope_section");
    int32_t axes[4] = {0};
    for (size_t i = 0; i < 3; i++) {
        axes[i] = (int32_t)json_integer_value(json_array_get(sections, i));
    }
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        char key[96];
        snprintf(key, sizeof key, "qwen4exp.%s", numbers[i].key);
        if (!spec->gguf_without || strcmp(spec->gguf_without, key) != 0) {
            gguf_put_u32(w, key, (uint32_t)config_int(config, numbers[i].from));
        }
    }
    const int32_t ratio = (int32_t)config_int(config, "indexer_compress_ratio");
    gguf_put_u32(w, "qwen4exp.block_count", 4);
    gguf_put_i32_array(w, "qwen4exp.attention.compress_ratios", (const int32_t[]){0, 0, 0, ratio}, 4);
    gguf_put_f32(w, "qwen4exp.attention.layer_norm_rms_epsilon",
                 (float)json_number_value(json_object_get(config, "rms_norm_eps")));
    gguf_put_u32(w, "qwen4exp.rope.dimension_count",
                 (uint32_t)((double)config_int(config, "head_dim") *
                            json_number_value(json_object_get(rope, "partial_rotary_factor"))));
    gguf_put_f32(w, "qwen4exp.rope.freq_base", (float)json_number_value(json_object_get(rope, "rope_theta")));
    gguf_put_i32_array(w, "qwen4exp.rope.dimension_sections", axes, 4);
}

// One tensor of a layer; index_qk_proj is split into its queries and its key.
static inline void put_model_tensor(gguf_writer *w, const model_spec *spec, const char *name, const st_tensor *t,
                                    int64_t index_dim, float *values) {
    static const char *const names[][2] = {
        {"self_attn.q_proj", "attn_q"},
        {"self_attn.k_proj", "attn_k"},
        {"self_attn.v_proj", "attn_v"},
        {"self_attn.o_proj", "attn_output"},
        {"self_attn.q_norm", "attn_q_norm"},
        {"self_attn.k_norm", "attn_k_norm"},
        {"self_attn.indexer.index_qk_proj", "indexer.q_proj"},
        {"self_attn.indexer.q_layernorm", "indexer.q_norm"},
        {"self_attn.indexer.k_layernorm", "indexer.k_norm"},
    };
    const char *kind = strrchr(name, '.');
    char full[96];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const size_t size = strlen(names[i][0]);
        if (strncmp(names[i][0], name, size) != 0 || name + size != kind) {
            continue;
        }
        snprintf(full, sizeof full, "blk.3.%s%s", names[i][1], kind);
        for (int64_t k = 0; strstr(names[i][0], "norm") && !spec->raw_norms && k < t->count; k++) {
            values[k] += 1.0F;
        }
        const bool split = strstr(name, "index_qk_proj") != NULL;
        const int64_t last = split ? index_dim : 0;
        const int64_t rows[2] = {t->shape[0] - last, t->shape[1]};
        const bool changed = spec->gguf_change && strcmp(full, "blk.3.attn_k.weight") == 0;
        if (!spec->gguf_without || strcmp(spec->gguf_without, full) != 0) {
            gguf_put_tensor(w, full, changed ? spec->gguf_change : GGUF_TENSOR_F32, t->n_dims, rows, values);
        }
        if (split && (!spec->gguf_without || !strstr(spec->gguf_without, "indexer.k_proj"))) {
            gguf_put_tensor(w, "blk.3.indexer.k_proj.weight", GGUF_TENSOR_F32, 2, (const int64_t[]){last, t->shape[1]},
                            values + rows[0] * t->shape[1]);
        }
        return;
    }
    fail_msg("%s has no GGUF name", name);
}

// A file of its own, of a name in the test's folder. Its path.
static inline const char *write_gguf(const char *name, const model_spec *spec) {
    char reason[ST_ERR_SIZE];
    float *kept[64] = {0};
    int n_kept = 0;
    st_file *st = st_open(golden_path(spec->golden), reason, sizeof reason);
    gguf_writer *w = gguf_writer_new();
    assert_non_null(st);
    assert_non_null(w);
    json_t *config = golden_config(st);
    gguf_put_string(w, "general.architecture", spec->config_value ? spec->config_value : "qwen4exp");
    put_model_keys(w, config, spec);
    for (int64_t i = 0; i < st_tensor_count(st); i++) {
        const st_tensor *t = st_tensor_at(st, i);
        if (strncmp(t->name, "self_attn.", 10) == 0) {
            kept[n_kept] = golden_floats(t);
            put_model_tensor(w, spec, t->name, t, config_int(config, "indexer_head_dim"), kept[n_kept++]);
        }
    }
    const char *path = model_path(name, "");
    if (!gguf_writer_save(w, path, (io_error){reason, sizeof reason})) {
        fail_msg("%s", reason);
    }
    cut_file(path, spec->cut);
    gguf_writer_free(w);
    json_decref(config);
    while (n_kept > 0) {
        free(kept[--n_kept]);
    }
    st_close(st);
    return path;
}

// The digest of a run, in static memory, two in turn.
static inline const char *digest_of(ran result, int code) {
    static char digests[2][80];
    static int turn;
    char *digest = digests[turn++ % 2];
    json_t *run = run_json(result, code);
    snprintf(digest, sizeof digests[0], "%s", json_string_value(json_at(run, "attn_sha256", NULL)));
    json_decref(run);
    return digest;
}

#endif
