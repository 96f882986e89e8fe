// SPDX-License-Identifier: Apache-2.0
//
// The configuration of the model's attention: preset, checks, and the sizes that follow from it.

#include "api/internal.h"

#include <string.h>

qsa_status qsa_geometry_preset(const char *name, qsa_geometry *geometry) {
    QSA_REQUIRE_ARG(name, "qsa_geometry_preset: name is null");
    QSA_REQUIRE_ARG(geometry, "qsa_geometry_preset: geometry is null");
    QSA_REQUIRE_ARG(strcmp(name, "qwen3.8-flash-next") == 0,
                    "qsa_geometry_preset: no preset is called '%.64s'; there is: qwen3.8-flash-next", name);
    *geometry = (qsa_geometry){.size = sizeof *geometry,
                               .heads = 24,
                               .kv_heads = 2,
                               .head_dim = 256,
                               .index_heads = 4,
                               .index_dim = 128,
                               .rotary_dim = 64,
                               .sections = {11, 11, 10},
                               .ratio = 4,
                               .budget = 2048,
                               .eps = 1e-6f,
                               .theta = 1e7};
    return QSA_OK;
}

#define RANGE(field, low, high)                                                                                        \
    QSA_REQUIRE_ARG(g->field >= (low) && g->field <= (high), "%s: geometry.%s is %d, must be %d..%d", call, #field,    \
                    (int)g->field, (int)(low), (int)(high))

qsa_status qsa_check_geometry(const char *call, const qsa_geometry *g) {
    QSA_REQUIRE_ARG(g, "%s: geometry is null", call);
    QSA_REQUIRE_ARG(g->size == sizeof *g, "%s: geometry.size is %zu, this library's is %zu", call, g->size, sizeof *g);
    RANGE(heads, 1, QSA_MAX_HEADS);
    RANGE(kv_heads, 1, QSA_MAX_HEADS);
    RANGE(head_dim, 1, QSA_MAX_HEAD_DIM);
    RANGE(index_heads, 1, QSA_MAX_HEADS);
    RANGE(index_dim, 1, QSA_MAX_HEAD_DIM);
    RANGE(rotary_dim, 2, QSA_MAX_HEAD_DIM);
    RANGE(ratio, 1, QSA_MAX_RATIO);
    RANGE(budget, 1, QSA_MAX_BUDGET);
    QSA_REQUIRE_ARG(g->heads % g->kv_heads == 0, "%s: geometry.heads is %d, no multiple of kv_heads %d", call,
                    (int)g->heads, (int)g->kv_heads);
    QSA_REQUIRE_ARG(g->heads / g->kv_heads <= QSA_MAX_HEADS_PER_KV,
                    "%s: geometry.heads %d over kv_heads %d are more than %d heads per KV head", call, (int)g->heads,
                    (int)g->kv_heads, QSA_MAX_HEADS_PER_KV);
    QSA_REQUIRE_ARG(g->rotary_dim % 2 == 0, "%s: geometry.rotary_dim is %d, must be even", call, (int)g->rotary_dim);
    QSA_REQUIRE_ARG(g->rotary_dim <= g->head_dim, "%s: geometry.rotary_dim is %d, above head_dim %d", call,
                    (int)g->rotary_dim, (int)g->head_dim);
    QSA_REQUIRE_ARG(g->rotary_dim <= g->index_dim, "%s: geometry.rotary_dim is %d, above index_dim %d", call,
                    (int)g->rotary_dim, (int)g->index_dim);
    int64_t sum = 0;
    for (int i = 0; i < 3; i++) {
        QSA_REQUIRE_ARG(g->sections[i] >= 0, "%s: geometry.sections[%d] is %d, must not be negative", call, i,
                        (int)g->sections[i]);
        sum += g->sections[i];
    }
    QSA_REQUIRE_ARG(sum == g->rotary_dim / 2, "%s: geometry.sections sum to %lld, must be rotary_dim / 2 = %d", call,
                    (long long)sum, (int)g->rotary_dim / 2);
    QSA_REQUIRE_ARG(g->budget % g->ratio == 0, "%s: geometry.budget is %d, no multiple of ratio %d", call,
                    (int)g->budget, (int)g->ratio);
    QSA_REQUIRE_ARG(g->eps > 0.0f && g->eps < 1.0f, "%s: geometry.eps is %g, must be above 0 and below 1", call,
                    (double)g->eps);
    QSA_REQUIRE_ARG(g->theta >= 1.0 && g->theta <= 1e30, "%s: geometry.theta is %g, must be 1..1e30", call, g->theta);
    return QSA_OK;
}

qsa_status qsa_geometry_check(const qsa_geometry *geometry) {
    return qsa_check_geometry("qsa_geometry_check", geometry);
}

#define SAME(field)                                                                                                    \
    QSA_REQUIRE_ARG(a->field == b->field, "%s: layer and cache differ in geometry.%s: %g and %g", call, #field,        \
                    (double)a->field, (double)b->field)

qsa_status qsa_check_same_geometry(const char *call, const qsa_geometry *a, const qsa_geometry *b) {
    SAME(heads);
    SAME(kv_heads);
    SAME(head_dim);
    SAME(index_heads);
    SAME(index_dim);
    SAME(rotary_dim);
    SAME(sections[0]);
    SAME(sections[1]);
    SAME(sections[2]);
    SAME(ratio);
    SAME(budget);
    SAME(eps);
    SAME(theta);
    return QSA_OK;
}

static int valid(const qsa_geometry *geometry, qsa_rule rule) {
    return qsa_geometry_check(geometry) == QSA_OK && (rule == QSA_RULE_OFFICIAL || rule == QSA_RULE_CUT);
}

int32_t qsa_selected_cells(const qsa_geometry *geometry, qsa_rule rule, int32_t n) {
    if (!valid(geometry, rule) || n < 0)
        return -1;
    int64_t width = qsa_width(geometry);
    if (n <= width)
        return n;
    return rule == QSA_RULE_CUT ? (int32_t)width : geometry->budget + n % geometry->ratio;
}

int32_t qsa_selection_stride(const qsa_geometry *geometry, qsa_rule rule) {
    if (!valid(geometry, rule))
        return -1;
    return geometry->budget / geometry->ratio + (rule == QSA_RULE_CUT ? 1 : 0);
}

int32_t qsa_max_chunks(const qsa_geometry *geometry) {
    if (!valid(geometry, QSA_RULE_OFFICIAL))
        return -1;
    return (int32_t)((qsa_width(geometry) + QSA_CHUNK - 1) / QSA_CHUNK);
}
