// SPDX-License-Identifier: Apache-2.0
//
// JSON to geometry. Every refusal names the key, what it holds and what it should hold; what the library itself checks
// (heads a multiple of KV heads, sections that sum to R / 2, ...) is left to qsa_geometry_check.

#include "layer_config.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

layer_config_shown layer_config_show(const json_t *value) {
    layer_config_shown shown = {"missing"};
    if (value) {
        char text[sizeof shown.text + 1];
        size_t size = json_dumpb(value, text, sizeof text, JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII);
        size_t kept = size < sizeof shown.text ? size : sizeof shown.text - 4;
        memcpy(shown.text, text, kept);
        memcpy(shown.text + kept, size < sizeof shown.text ? "" : "...", size < sizeof shown.text ? 1 : 4);
    }
    return shown;
}

static bool read_int(const json_t *object, const char *key, int32_t least, int32_t most, int32_t *out,
                     tool_error *error) {
    const json_t *value = json_object_get(object, key);
    if (!json_is_integer(value) || json_integer_value(value) < least || json_integer_value(value) > most) {
        return tool_fail(error, "config: %s is %s, expected an integer from %d to %d", key,
                         layer_config_show(value).text, least, most);
    }
    *out = (int32_t)json_integer_value(value);
    return true;
}

// A positive finite number. A missing key takes `fallback` unless that is 0.
static bool read_positive(const json_t *object, const char *key, double fallback, double *out, tool_error *error) {
    const json_t *value = json_object_get(object, key);
    if (!value && fallback > 0) {
        *out = fallback;
        return true;
    }
    double number = json_number_value(value);
    if (!json_is_number(value) || !(number > 0) || !isfinite(number)) {
        return tool_fail(error, "config: %s is %s, expected a number above 0", key, layer_config_show(value).text);
    }
    *out = number;
    return true;
}

static bool read_sections(const json_t *rope, qsa_geometry *geometry, tool_error *error) {
    const json_t *sections = json_object_get(rope, "mrope_section");
    if (!sections) {
        // Text only: every frequency takes the temporal position.
        geometry->sections[0] = geometry->rotary_dim / 2;
        return true;
    }
    bool right = json_is_array(sections) && json_array_size(sections) == 3;
    for (size_t i = 0; right && i < 3; i++) {
        const json_t *item = json_array_get(sections, i);
        json_int_t number = json_integer_value(item);
        right = json_is_integer(item) && number >= 0 && number <= QSA_MAX_HEAD_DIM;
        geometry->sections[i] = right ? (int32_t)number : 0;
    }
    if (!right) {
        return tool_fail(error, "config: mrope_section is %s, expected 3 integers from 0 to %d",
                         layer_config_show(sections).text, QSA_MAX_HEAD_DIM);
    }
    const json_t *interleaved = json_object_get(rope, "mrope_interleaved");
    if (interleaved && !json_is_true(interleaved)) {
        return tool_fail(error, "config: mrope_interleaved is %s, this library computes the interleaved form (true)",
                         layer_config_show(interleaved).text);
    }
    return true;
}

static bool read_rope(const json_t *config, qsa_geometry *geometry, tool_error *error) {
    const json_t *rope = json_object_get(config, "rope_parameters");
    if (!json_is_object(rope)) {
        return tool_fail(error, "config: rope_parameters is %s, expected an object", layer_config_show(rope).text);
    }
    const json_t *type = json_object_get(rope, "rope_type");
    if (type && (!json_is_string(type) || strcmp(json_string_value(type), "default") != 0)) {
        return tool_fail(error, "config: rope_type is %s, this library computes \"default\"",
                         layer_config_show(type).text);
    }
    double factor = 0;
    if (!read_positive(rope, "rope_theta", 0, &geometry->theta, error) ||
        !read_positive(rope, "partial_rotary_factor", 1.0, &factor, error)) {
        return false;
    }
    if (factor > 1) {
        return tool_fail(error, "config: partial_rotary_factor is %g, expected at most 1", factor);
    }
    geometry->rotary_dim = (int32_t)(geometry->head_dim * factor);
    return read_sections(rope, geometry, error);
}

bool layer_config_geometry(const json_t *config, qsa_geometry *geometry, int32_t *hidden_size, tool_error *error) {
    *geometry = (qsa_geometry){.size = sizeof *geometry};
    *hidden_size = 0;
    int32_t index_kv_heads = 1;
    double eps = 0;
    bool has_hidden = json_object_get(config, "hidden_size") != NULL;
    bool has_index_kv_heads = json_object_get(config, "indexer_kv_heads") != NULL;
    if ((has_hidden && !read_int(config, "hidden_size", 1, INT32_MAX, hidden_size, error)) ||
        !read_int(config, "num_attention_heads", 1, QSA_MAX_HEADS, &geometry->heads, error) ||
        !read_int(config, "num_key_value_heads", 1, QSA_MAX_HEADS, &geometry->kv_heads, error) ||
        !read_int(config, "head_dim", 1, QSA_MAX_HEAD_DIM, &geometry->head_dim, error) ||
        !read_int(config, "indexer_n_heads", 1, QSA_MAX_HEADS, &geometry->index_heads, error) ||
        !read_int(config, "indexer_head_dim", 1, QSA_MAX_HEAD_DIM, &geometry->index_dim, error) ||
        !read_int(config, "indexer_budget", 1, QSA_MAX_BUDGET, &geometry->budget, error) ||
        !read_int(config, "indexer_compress_ratio", 1, QSA_MAX_BUDGET, &geometry->ratio, error) ||
        (has_index_kv_heads && !read_int(config, "indexer_kv_heads", 1, INT32_MAX, &index_kv_heads, error)) ||
        !read_positive(config, "rms_norm_eps", 0, &eps, error)) {
        return false;
    }
    if (index_kv_heads != 1) {
        return tool_fail(error, "config: indexer_kv_heads is %d, this library computes 1", index_kv_heads);
    }
    geometry->eps = (float)eps;
    if (!read_rope(config, geometry, error)) {
        return false;
    }
    return qsa_geometry_check(geometry) == QSA_OK || tool_fail_qsa(error, "config");
}

bool layer_config_read(const char *text, qsa_geometry *geometry, int32_t *hidden_size, tool_error *error) {
    json_error_t where;
    json_t *config = json_loads(text, JSON_REJECT_DUPLICATES, &where);
    if (!config) {
        return tool_fail(error, "metadata config: JSON line %d column %d: %s", where.line, where.column, where.text);
    }
    bool read = json_is_object(config) ? layer_config_geometry(config, geometry, hidden_size, error)
                                       : tool_fail(error, "metadata config is no JSON object");
    json_decref(config);
    return read;
}

// The share of the head that the reader's product turns into `rotary_dim` again, in the 15 digits that JSON gets.
static double rotary_factor(const qsa_geometry *g) {
    char text[40];
    snprintf(text, sizeof text, "%.15g", (double)g->rotary_dim / g->head_dim);
    const double factor = strtod(text, NULL);
    return (int32_t)(g->head_dim * factor) == g->rotary_dim ? factor : (g->rotary_dim + 0.5) / g->head_dim;
}

json_t *layer_config_make(const qsa_geometry *g, int32_t hidden_size) {
    // eps through its shortest decimal: 1e-6, not the double next to the float.
    char eps[32];
    snprintf(eps, sizeof eps, "%.9g", (double)g->eps);
    for (int digits = 1; digits < 9; digits++) {
        char shorter[32];
        snprintf(shorter, sizeof shorter, "%.*g", digits, (double)g->eps);
        if ((float)strtod(shorter, NULL) == g->eps) {
            memcpy(eps, shorter, sizeof eps);
            break;
        }
    }
    json_t *rope = json_pack("{s:s, s:f, s:f, s:[i, i, i], s:b}", "rope_type", "default", "rope_theta", g->theta,
                             "partial_rotary_factor", rotary_factor(g), "mrope_section", g->sections[0], g->sections[1],
                             g->sections[2], "mrope_interleaved", 1);
    return json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:f, s:o}", "hidden_size", hidden_size,
                     "num_attention_heads", g->heads, "num_key_value_heads", g->kv_heads, "head_dim", g->head_dim,
                     "indexer_n_heads", g->index_heads, "indexer_kv_heads", 1, "indexer_head_dim", g->index_dim,
                     "indexer_budget", g->budget, "indexer_compress_ratio", g->ratio, "rms_norm_eps", strtod(eps, NULL),
                     "rope_parameters", rope);
}
