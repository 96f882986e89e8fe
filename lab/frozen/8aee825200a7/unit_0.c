#include <stddef.h>
#include <stdint.h>
typedef enum qsa_status {
    QSA_OK = 0,
    QSA_ERR_ARGUMENT = 1,
    QSA_ERR_MEMORY = 2,
    QSA_ERR_CAPACITY = 3,
    QSA_ERR_STATE = 4,
    QSA_ERR_UNSUPPORTED = 5,
} qsa_status;
__attribute__((visibility("default"))) int qsa_version(void);
__attribute__((visibility("default"))) const char *qsa_version_string(void);
__attribute__((visibility("default"))) const char *qsa_status_string(qsa_status status);
__attribute__((visibility("default"))) const char *qsa_last_error(void);
typedef enum qsa_type {
    QSA_F32 = 1,
    QSA_F16 = 2,
    QSA_BF16 = 3,
    QSA_I8 = 4,
} qsa_type;
typedef struct qsa_rows {
    const void *data;
    qsa_type type;
    int64_t row_stride;
    int64_t head_stride;
} qsa_rows;
typedef struct qsa_rows_out {
    void *data;
    qsa_type type;
    int64_t row_stride;
    int64_t head_stride;
} qsa_rows_out;
typedef struct qsa_geometry {
    size_t size;
    int32_t heads;
    int32_t kv_heads;
    int32_t head_dim;
    int32_t index_heads;
    int32_t index_dim;
    int32_t rotary_dim;
    int32_t sections[3];
    int32_t ratio;
    int32_t budget;
    float eps;
    double theta;
} qsa_geometry;
__attribute__((visibility("default"))) qsa_status qsa_geometry_preset(const char *name, qsa_geometry *geometry);
__attribute__((visibility("default"))) qsa_status qsa_geometry_check(const qsa_geometry *geometry);
typedef enum qsa_rule {
    QSA_RULE_OFFICIAL = 0,
    QSA_RULE_CUT = 1,
} qsa_rule;
__attribute__((visibility("default"))) int32_t qsa_selected_cells(const qsa_geometry *geometry, qsa_rule rule, int32_t n);
typedef enum qsa_backend {
    QSA_BACKEND_CPU = 0,
    QSA_BACKEND_CUDA = 1,
} qsa_backend;
typedef enum qsa_class {
    QSA_CLASS_STRICT = 0,
    QSA_CLASS_FAST = 1,
} qsa_class;
typedef void (*qsa_task)(void *arg, int32_t index);
typedef void (*qsa_parallel_for)(void *user, int32_t n, qsa_task task, void *arg);
typedef struct qsa_allocator {
    void *(*alloc)(void *user, size_t bytes, size_t align);
    void (*free)(void *user, void *memory, size_t bytes);
    void *user;
} qsa_allocator;
typedef void (*qsa_log)(void *user, const char *line);
typedef struct qsa_context_config {
    size_t size;
    qsa_backend backend;
    qsa_class kernel_class;
    int32_t threads;
    qsa_parallel_for parallel_for;
    void *parallel_user;
    qsa_allocator allocator;
    qsa_log log;
    void *log_user;
} qsa_context_config;
typedef struct qsa_context qsa_context;
__attribute__((visibility("default"))) void qsa_context_config_init(qsa_context_config *config);
__attribute__((visibility("default"))) qsa_status qsa_context_create(const qsa_context_config *config, qsa_context **context);
__attribute__((visibility("default"))) void qsa_context_destroy(qsa_context *context);
typedef struct qsa_kernel_info {
    size_t size;
    const char *stage;
    const char *kernel;
    const char *where;
    const char *name;
    int32_t rank;
    qsa_class kernel_class;
    int32_t usable;
    const char *reason;
} qsa_kernel_info;
__attribute__((visibility("default"))) int32_t qsa_kernel_count(void);
__attribute__((visibility("default"))) qsa_status qsa_kernel_at(int32_t i, qsa_kernel_info *info);
__attribute__((visibility("default"))) const char *qsa_cpu_features(void);
__attribute__((visibility("default"))) qsa_status qsa_context_set_kernel(qsa_context *context, const char *stage, const char *name);
__attribute__((visibility("default"))) const char *qsa_context_kernel(const qsa_context *context, const char *kernel);
typedef enum qsa_norm_form {
    QSA_NORM_ZERO_CENTRED = 0,
    QSA_NORM_FACTOR = 1,
} qsa_norm_form;
typedef struct qsa_layer_config {
    size_t size;
    qsa_geometry geometry;
    qsa_norm_form norm_form;
    qsa_type norm_type;
    const void *q_norm;
    const void *k_norm;
    const void *index_q_norm;
    const void *index_k_norm;
} qsa_layer_config;
typedef struct qsa_layer qsa_layer;
__attribute__((visibility("default"))) qsa_status qsa_layer_create(qsa_context *context, const qsa_layer_config *config, qsa_layer **layer);
__attribute__((visibility("default"))) void qsa_layer_destroy(qsa_layer *layer);
typedef struct qsa_cache_config {
    size_t size;
    qsa_geometry geometry;
    int32_t layers;
    qsa_type kv_type;
    qsa_type block_key_type;
    int32_t page_cells;
    int32_t pages;
    int32_t max_sequences;
    int32_t max_cells;
    int32_t rollback;
    int32_t screen;
} qsa_cache_config;
typedef struct qsa_cache qsa_cache;
__attribute__((visibility("default"))) void qsa_cache_config_init(qsa_cache_config *config, const qsa_geometry *geometry, int32_t cells);
__attribute__((visibility("default"))) qsa_status qsa_cache_size(const qsa_cache_config *config, size_t *bytes);
__attribute__((visibility("default"))) qsa_status qsa_cache_create(qsa_context *context, const qsa_cache_config *config, qsa_cache **cache);
__attribute__((visibility("default"))) void qsa_cache_destroy(qsa_cache *cache);
typedef struct qsa_cache_events {
    size_t size;
    uint64_t nan;
    uint64_t infinite;
    uint64_t saturated;
} qsa_cache_events;
__attribute__((visibility("default"))) qsa_status qsa_cache_get_events(const qsa_cache *cache, qsa_cache_events *events);
__attribute__((visibility("default"))) qsa_status qsa_cache_reset_events(qsa_cache *cache);
typedef struct qsa_cache_info {
    size_t size;
    size_t bytes;
    int32_t pages;
    int32_t free_pages;
    int32_t sequences;
    int32_t pending_rows;
} qsa_cache_info;
__attribute__((visibility("default"))) qsa_status qsa_cache_get_info(const qsa_cache *cache, qsa_cache_info *info);
__attribute__((visibility("default"))) qsa_status qsa_sequence_create(qsa_cache *cache, int32_t *sequence);
__attribute__((visibility("default"))) qsa_status qsa_sequence_destroy(qsa_cache *cache, int32_t sequence);
__attribute__((visibility("default"))) qsa_status qsa_sequence_reset(qsa_cache *cache, int32_t sequence);
__attribute__((visibility("default"))) qsa_status qsa_sequence_length(const qsa_cache *cache, int32_t sequence, int32_t *length);
__attribute__((visibility("default"))) qsa_status qsa_cache_commit(qsa_cache *cache);
__attribute__((visibility("default"))) qsa_status qsa_cache_discard(qsa_cache *cache);
typedef struct qsa_cells {
    size_t size;
    void *k;
    void *v;
    uint16_t *k_scales;
    uint16_t *v_scales;
    void *block_keys;
    float *index_keys;
    int32_t *positions;
} qsa_cells;
__attribute__((visibility("default"))) qsa_status qsa_cache_read(const qsa_cache *cache, int32_t layer, int32_t sequence, int32_t first, int32_t count,
                                  qsa_cells *cells);
__attribute__((visibility("default"))) qsa_status qsa_cache_write(qsa_cache *cache, int32_t layer, int32_t sequence, int32_t count,
                                   const qsa_cells *cells);
typedef struct qsa_batch {
    size_t size;
    int32_t rows;
    const int32_t *sequences;
    const int32_t *positions;
    int32_t positions_per_row;
    qsa_rows q;
    qsa_rows k;
    qsa_rows v;
    qsa_rows index_q;
    qsa_rows index_k;
    qsa_rows gate;
    const uint8_t *attend;
} qsa_batch;
typedef struct qsa_selection {
    size_t size;
    int32_t *ids;
    int64_t stride;
    int32_t *count;
    int32_t *cut_index;
    int32_t *cut_cells;
} qsa_selection;
__attribute__((visibility("default"))) int32_t qsa_selection_stride(const qsa_geometry *geometry, qsa_rule rule);
typedef struct qsa_forward_options {
    size_t size;
    qsa_rule rule;
    const qsa_selection *use;
    qsa_selection *give;
    float *lse;
} qsa_forward_options;
__attribute__((visibility("default"))) qsa_status qsa_forward(qsa_context *context, const qsa_layer *layer, qsa_cache *cache, int32_t layer_index,
                               const qsa_batch *batch, const qsa_forward_options *options, const qsa_rows_out *out,
                               void *workspace, size_t workspace_bytes);
typedef enum qsa_stage {
    QSA_STAGE_FORWARD = 0,
    QSA_STAGE_PREP = 1,
    QSA_STAGE_SCORE = 2,
    QSA_STAGE_TOPK = 3,
    QSA_STAGE_ATTEND = 4,
    QSA_STAGE_MERGE = 5,
} qsa_stage;
__attribute__((visibility("default"))) qsa_status qsa_workspace_size(const qsa_context *context, const qsa_cache *cache, qsa_stage stage, int32_t rows,
                                      size_t *bytes);
typedef struct qsa_row_set {
    size_t size;
    int32_t rows;
    const int32_t *sequences;
    const int32_t *cells;
} qsa_row_set;
typedef struct qsa_prep_out {
    size_t size;
    float *q;
    float *index_q;
    float *k;
    float *v;
    int32_t *cells;
} qsa_prep_out;
__attribute__((visibility("default"))) qsa_status qsa_prep(qsa_context *context, const qsa_layer *layer, qsa_cache *cache, int32_t layer_index,
                            const qsa_batch *batch, const qsa_prep_out *out, void *workspace, size_t workspace_bytes);
__attribute__((visibility("default"))) qsa_status qsa_score(qsa_context *context, const qsa_cache *cache, int32_t layer_index, const qsa_row_set *rows,
                             const float *index_q, float *scores, int64_t stride, void *workspace,
                             size_t workspace_bytes);
__attribute__((visibility("default"))) qsa_status qsa_topk(qsa_context *context, const qsa_geometry *geometry, qsa_rule rule, int32_t rows,
                            const int32_t *cells, const float *scores, int64_t stride, qsa_selection *selection);
__attribute__((visibility("default"))) int32_t qsa_max_chunks(const qsa_geometry *geometry);
__attribute__((visibility("default"))) qsa_status qsa_attend(qsa_context *context, const qsa_cache *cache, int32_t layer_index,
                              const qsa_row_set *rows, const float *q, const qsa_selection *selection, float *records,
                              int64_t row_stride, int32_t *chunks, void *workspace, size_t workspace_bytes);
__attribute__((visibility("default"))) qsa_status qsa_merge(qsa_context *context, const qsa_geometry *geometry, int32_t rows, const float *records,
                             int64_t row_stride, const int32_t *chunks, const qsa_rows *gate, const qsa_rows_out *out,
                             float *lse);
__attribute__((visibility("default"))) qsa_status qsa_gate(qsa_context *context, const qsa_geometry *geometry, int32_t rows, const qsa_rows *x,
                            const qsa_rows *gate, const qsa_rows_out *out);
typedef struct qsa_attend_args {
    const float *q;
    int32_t heads;
    int32_t dim;
    float scale;
    qsa_type format;
    const void *k, *v;
    const uint16_t *k_scales;
    const uint16_t *v_scales;
    const int32_t *cells;
    int32_t count;
    float *records;
    int64_t chunk_stride;
} qsa_attend_args;
typedef void (*qsa_attend_fn)(const qsa_attend_args *args);
typedef struct qsa_merge_args {
    const float *records;
    int64_t chunk_stride;
    int32_t chunks;
    int32_t heads;
    int32_t dim;
    const void *gate;
    qsa_type gate_type;
    int64_t gate_stride;
    void *out;
    qsa_type out_type;
    int64_t out_stride;
    float *lse;
} qsa_merge_args;
typedef void (*qsa_merge_fn)(const qsa_merge_args *args);
typedef struct qsa_gate_args {
    const void *x;
    qsa_type x_type;
    int64_t x_stride;
    const void *gate;
    qsa_type gate_type;
    int64_t gate_stride;
    void *out;
    qsa_type out_type;
    int64_t out_stride;
    int32_t heads;
    int32_t dim;
} qsa_gate_args;
typedef void (*qsa_gate_fn)(const qsa_gate_args *args);
typedef struct qsa_angles_args {
    const float *inv_freq;
    const uint8_t *axis;
    const int32_t *positions;
    int32_t half;
    float *cosine;
    float *sine;
} qsa_angles_args;
typedef void (*qsa_angles_fn)(const qsa_angles_args *args);
typedef struct qsa_norm_rope_args {
    const void *x;
    qsa_type type;
    int64_t x_stride;
    int32_t vectors;
    int32_t dim;
    int32_t half;
    const float *factor;
    const float *cosine;
    const float *sine;
    float eps;
    float *out;
    int64_t out_stride;
} qsa_norm_rope_args;
typedef void (*qsa_norm_rope_fn)(const qsa_norm_rope_args *args);
typedef struct qsa_store_args {
    const void *x;
    qsa_type type;
    int64_t x_stride;
    int32_t vectors;
    int32_t dim;
    qsa_type format;
    void *codes;
    int64_t code_stride;
    uint16_t *scales;
    int64_t scale_stride;
    uint64_t *events;
} qsa_store_args;
typedef void (*qsa_store_fn)(const qsa_store_args *args);
typedef struct qsa_raw_key {
    const void *data;
    qsa_type type;
} qsa_raw_key;
typedef struct qsa_pool_args {
    const qsa_raw_key *keys;
    int32_t ratio;
    int32_t dim;
    int32_t half;
    const float *factor;
    const float *cosine;
    const float *sine;
    float eps;
    qsa_type format;
    void *out;
    uint64_t *events;
} qsa_pool_args;
typedef void (*qsa_pool_fn)(const qsa_pool_args *args);
typedef struct qsa_screen_key_args {
    const void *key;
    qsa_type format;
    int32_t dim;
    int8_t *codes;
    float *scale;
    float *residual;
} qsa_screen_key_args;
typedef void (*qsa_screen_key_fn)(const qsa_screen_key_args *args);
#include <math.h>
#include <string.h>
static inline uint32_t qsa_bits_of_f32(float x) {
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}
static inline float qsa_f32_of_bits(uint32_t u) {
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}
static inline uint64_t qsa_bits_of_f64(double x) {
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}
static inline double qsa_f64_of_bits(uint64_t u) {
    double x;
    memcpy(&x, &u, sizeof x);
    return x;
}
static inline float qsa_nan(void) {
    return qsa_f32_of_bits(0x7fc00000u);
}
static inline float qsa_infinity(void) {
    return qsa_f32_of_bits(0x7f800000u);
}
static inline float qsa_canonical(float x) {
    return x == x ? x : qsa_nan();
}
static inline float qsa_fold_lanes(float lane[16]) {
    for (int half = 16 / 2; half >= 1; half /= 2)
        for (int j = 0; j < half; j++)
            lane[j] = lane[j] + lane[j + half];
    return lane[0];
}
static inline float qsa_dot(const float *a, const float *b, int32_t n) {
    float lane[16] = {0};
    int32_t i = 0;
    for (; i + 16 <= n; i += 16)
        for (int j = 0; j < 16; j++)
            lane[j] = fmaf(a[i + j], b[i + j], lane[j]);
    for (int j = 0; i + j < n; j++)
        lane[j] = fmaf(a[i + j], b[i + j], lane[j]);
    return qsa_fold_lanes(lane);
}
static inline float qsa_relu(float x) {
    return x > 0.0f ? x : (x == x ? 0.0f : qsa_nan());
}
static inline float qsa_exp(float x) {
    if (!(x >= (-80.0f)))
        return x == x ? 0.0f : qsa_nan();
    float n = rintf(x * 0x1.715476p+0f);
    float r = fmaf(n, -0x1.62e400p-1f, x);
    r = fmaf(n, -0x1.7f7d1cp-20f, r);
    float t = 0x1.6a243ap-10f;
    t = fmaf(t, r, 0x1.1239e0p-7f);
    t = fmaf(t, r, 0x1.5558f2p-5f);
    t = fmaf(t, r, 0x1.555492p-3f);
    t = fmaf(t, r, 0x1.fffffcp-2f);
    t = fmaf(t, r, 1.0f);
    t = fmaf(t, r, 1.0f);
    return qsa_f32_of_bits(qsa_bits_of_f32(t) + ((uint32_t)(int32_t)n << 23));
}
static inline float qsa_sigmoid(float g) {
    if (g != g)
        return qsa_nan();
    float e = qsa_exp(g < 0.0f ? g : -g);
    return g >= 0.0f ? 1.0f / (1.0f + e) : e / (1.0f + e);
}
static inline float qsa_f32_of_f16(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    uint32_t exponent = (h >> 10) & 31u, fraction = h & 1023u;
    if (exponent == 31)
        return fraction ? qsa_nan() : qsa_f32_of_bits(sign | 0x7f800000u);
    if (exponent)
        return qsa_f32_of_bits(sign | ((exponent + 112u) << 23) | (fraction << 13));
    float magnitude = (float)fraction * 0x1p-24f;
    return qsa_f32_of_bits(sign | qsa_bits_of_f32(magnitude));
}
static inline float qsa_f32_of_bf16(uint16_t b) {
    return qsa_canonical(qsa_f32_of_bits((uint32_t)b << 16));
}
static inline uint16_t qsa_f16_of_f32(float x) {
    uint32_t u = qsa_bits_of_f32(x);
    uint32_t sign = (u >> 16) & 0x8000u, magnitude = u & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return 0x7e00u;
    if (magnitude >= 0x477ff000u)
        return (uint16_t)(sign | 0x7c00u);
    if (magnitude < 0x38800000u) {
        float scaled = rintf(qsa_f32_of_bits(magnitude) * 0x1p24f);
        return (uint16_t)(sign | (uint32_t)scaled);
    }
    uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    return (uint16_t)(sign | ((rounded - 0x38000000u) >> 13));
}
static inline uint16_t qsa_bf16_of_f32(float x) {
    uint32_t u = qsa_bits_of_f32(x);
    if ((u & 0x7fffffffu) > 0x7f800000u)
        return 0x7fc0u;
    return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}
enum {
    QSA_SCREEN_LANES = 32,
    QSA_SCREEN_HEADS = 4,
};
static inline int32_t qsa_screen_stride(int32_t dim) {
    return (dim + QSA_SCREEN_LANES - 1) / QSA_SCREEN_LANES * QSA_SCREEN_LANES;
}
static inline int32_t qsa_screen_heads(int32_t heads) {
    return (heads + QSA_SCREEN_HEADS - 1) / QSA_SCREEN_HEADS * QSA_SCREEN_HEADS;
}
static inline float qsa_screen_largest(const float *x, int32_t dim) {
    float largest = 0.0f;
    for (int32_t d = 0; d < dim; d++) {
        const float magnitude = fabsf(x[d]);
        largest = !(magnitude < qsa_infinity()) ? qsa_infinity() : magnitude > largest ? magnitude : largest;
    }
    return largest;
}
static inline float qsa_screen_norm(double squares) {
    const double norm = sqrt(squares) * (1.0 + 0x1p-30);
    const float rounded = (float)norm;
    return (double)rounded >= norm ? rounded : qsa_f32_of_bits(qsa_bits_of_f32(rounded) + 1);
}
typedef struct qsa_score_args {
    const float *index_q;
    int32_t heads;
    int32_t dim;
    float divisor;
    const void *block_keys;
    qsa_type format;
    const int32_t *page_table;
    int32_t page_blocks;
    int32_t first, end;
    float *scores;
    const int32_t *blocks;
} qsa_score_args;
typedef void (*qsa_score_fn)(const qsa_score_args *args);
typedef struct qsa_screen_query_args {
    const float *index_q;
    int32_t heads;
    int32_t dim;
    int16_t *codes;
    float *scales;
    float *bound;
    int32_t *usable;
} qsa_screen_query_args;
typedef void (*qsa_screen_query_fn)(const qsa_screen_query_args *args);
typedef struct qsa_screen_args {
    const int16_t *codes;
    const float *scales;
    const float *bound;
    int32_t heads;
    int32_t stride;
    const int8_t *keys;
    const float *key_scales;
    const float *residuals;
    const int32_t *page_table;
    int32_t page_blocks;
    int32_t first, end;
    float *lower;
    float *upper;
} qsa_screen_args;
typedef void (*qsa_screen_fn)(const qsa_screen_args *args);
typedef struct qsa_topk_args {
    const float *scores;
    int32_t blocks;
    int32_t take;
    int32_t *ids;
    int32_t *last;
} qsa_topk_args;
typedef void (*qsa_topk_fn)(const qsa_topk_args *args);
typedef struct qsa_candidates_args {
    float *lower;
    const float *upper;
    int32_t blocks;
    int32_t groups;
    int32_t take;
    int32_t *chosen;
    int32_t *ids;
    int32_t *count;
} qsa_candidates_args;
typedef void (*qsa_candidates_fn)(const qsa_candidates_args *args);
static inline float qsa_candidate_bar(float threshold) {
    return threshold > 0x1p-100f ? threshold * (1.0f - 0x1p-20f) : -qsa_infinity();
}
typedef enum qsa_kernel_number { QSA_K_angles, QSA_K_norm_rope, QSA_K_store, QSA_K_pool, QSA_K_screen_key, QSA_K_score, QSA_K_screen_query, QSA_K_screen, QSA_K_topk, QSA_K_candidates, QSA_K_attend, QSA_K_merge, QSA_K_gate, QSA_K_COUNT } qsa_kernel_number;
void qsa_angles_ref(const qsa_angles_args *args);
void qsa_norm_rope_ref(const qsa_norm_rope_args *args);
void qsa_norm_rope_fma(const qsa_norm_rope_args *args);
void qsa_norm_rope_avx2(const qsa_norm_rope_args *args);
void qsa_norm_rope_avx512(const qsa_norm_rope_args *args);

void qsa_store_ref(const qsa_store_args *args);
void qsa_store_fma(const qsa_store_args *args);
void qsa_store_avx2(const qsa_store_args *args);
void qsa_store_avx512(const qsa_store_args *args);

void qsa_pool_ref(const qsa_pool_args *args);
void qsa_pool_fma(const qsa_pool_args *args);
void qsa_pool_avx2(const qsa_pool_args *args);
void qsa_pool_avx512(const qsa_pool_args *args);

void qsa_screen_key_ref(const qsa_screen_key_args *args);
void qsa_screen_key_fma(const qsa_screen_key_args *args);
void qsa_score_ref(const qsa_score_args *args);
void qsa_score_fma(const qsa_score_args *args);
void qsa_score_avx2(const qsa_score_args *args);
void qsa_score_avx512(const qsa_score_args *args);

void qsa_screen_query_ref(const qsa_screen_query_args *args);
void qsa_screen_query_fma(const qsa_screen_query_args *args);
void qsa_screen_ref(const qsa_screen_args *args);
void qsa_screen_fma(const qsa_screen_args *args);
void qsa_screen_avx2(const qsa_screen_args *args);
void qsa_screen_avx2_vnni(const qsa_screen_args *args);
void qsa_screen_avx512(const qsa_screen_args *args);
void qsa_screen_avx512_vnni(const qsa_screen_args *args);

void qsa_topk_ref(const qsa_topk_args *args);
void qsa_topk_avx2(const qsa_topk_args *args);
void qsa_topk_avx512(const qsa_topk_args *args);

void qsa_candidates_ref(const qsa_candidates_args *args);
void qsa_candidates_avx2(const qsa_candidates_args *args);
void qsa_candidates_avx512(const qsa_candidates_args *args);

void qsa_attend_ref(const qsa_attend_args *args);
void qsa_attend_fma(const qsa_attend_args *args);
void qsa_attend_avx2(const qsa_attend_args *args);
void qsa_attend_avx512(const qsa_attend_args *args);

void qsa_attend_avx2_i16(const qsa_attend_args *args);
void qsa_attend_avx2_vnni(const qsa_attend_args *args);
void qsa_attend_avx512_i16(const qsa_attend_args *args);
void qsa_attend_avx512_vnni(const qsa_attend_args *args);
void qsa_merge_ref(const qsa_merge_args *args);
void qsa_merge_fma(const qsa_merge_args *args);
void qsa_merge_avx2(const qsa_merge_args *args);
void qsa_merge_avx512(const qsa_merge_args *args);

void qsa_gate_ref(const qsa_gate_args *args);
void qsa_gate_fma(const qsa_gate_args *args);
void qsa_gate_avx2(const qsa_gate_args *args);
void qsa_gate_avx512(const qsa_gate_args *args);

typedef struct qsa_kernel_set {
    qsa_angles_fn angles; qsa_norm_rope_fn norm_rope; qsa_store_fn store; qsa_pool_fn pool; qsa_screen_key_fn screen_key; qsa_score_fn score; qsa_screen_query_fn screen_query; qsa_screen_fn screen; qsa_topk_fn topk; qsa_candidates_fn candidates; qsa_attend_fn attend; qsa_merge_fn merge; qsa_gate_fn gate;
} qsa_kernel_set;
static inline size_t qsa_type_size(qsa_type type) {
    return type == QSA_F32 ? 4u : type == QSA_I8 ? 1u : 2u;
}
static inline float qsa_load(const void *data, qsa_type type, int32_t i) {
    const unsigned char *p = (const unsigned char *)data + (size_t)i * qsa_type_size(type);
    if (type == QSA_F32) {
        float x;
        memcpy(&x, p, sizeof x);
        return x;
    }
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return type == QSA_F16 ? qsa_f32_of_f16(h) : qsa_f32_of_bf16(h);
}
static inline void qsa_load_row(float *out, const void *data, qsa_type type, int32_t n) {
    if (type == QSA_F32) {
        memcpy(out, data, (size_t)n * sizeof(float));
        return;
    }
    const unsigned char *p = (const unsigned char *)data;
    for (int32_t i = 0; i < n; i++) {
        uint16_t h;
        memcpy(&h, p + 2 * (size_t)i, sizeof h);
        out[i] = type == QSA_F16 ? qsa_f32_of_f16(h) : qsa_f32_of_bf16(h);
    }
}
static inline void qsa_put(void *data, qsa_type type, int32_t i, float x) {
    unsigned char *p = (unsigned char *)data + (size_t)i * qsa_type_size(type);
    if (type == QSA_F32) {
        x = qsa_canonical(x);
        memcpy(p, &x, sizeof x);
        return;
    }
    uint16_t h = type == QSA_F16 ? qsa_f16_of_f32(x) : qsa_bf16_of_f32(x);
    memcpy(p, &h, sizeof h);
}
static inline void qsa_decode_row(float *out, const void *codes, const uint16_t *scales, qsa_type format, int32_t dim) {
    if (format != QSA_I8) {
        qsa_load_row(out, codes, format, dim);
        return;
    }
    const int8_t *code = (const int8_t *)codes;
    for (int32_t first = 0, g = 0; first < dim; first += 64, g++) {
        float scale = qsa_f32_of_f16(scales[g]);
        int32_t end = dim - first < 64 ? dim : first + 64;
        for (int32_t d = first; d < end; d++)
            out[d] = (float)code[d] * scale;
    }
}
#include <immintrin.h>
enum { QSA_DOT_HEADS = 3, QSA_DOT_CELLS = 2 };
typedef struct v16 {
    __m256 a, b;
} v16;
enum { QSA_REGS = 2, QSA_REG_LANES = 8 };
typedef __m256 vreg;
static inline __attribute__((always_inline)) vreg vreg_zero(void) {
    return _mm256_setzero_ps();
}
static inline __attribute__((always_inline)) vreg vreg_load(const float *p) {
    return _mm256_loadu_ps(p);
}
static inline __attribute__((always_inline)) vreg vreg_fma(vreg x, vreg y, vreg z) {
    return _mm256_fmadd_ps(x, y, z);
}
static inline __attribute__((always_inline)) v16 v16_of_regs(const vreg r[QSA_REGS]) {
    return (v16){r[0], r[1]};
}
static inline __attribute__((always_inline)) vreg vreg_hold(vreg x) {
    __asm__("" : "+x"(x));
    return x;
}
static inline __attribute__((always_inline)) v16 v16_zero(void) {
    return (v16){_mm256_setzero_ps(), _mm256_setzero_ps()};
}
static inline __attribute__((always_inline)) v16 v16_set(float x) {
    const __m256 v = _mm256_set1_ps(x);
    return (v16){v, v};
}
static inline __attribute__((always_inline)) v16 v16_load(const float *p) {
    return (v16){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
static inline __attribute__((always_inline)) void v16_store(float *p, v16 v) {
    _mm256_storeu_ps(p, v.a);
    _mm256_storeu_ps(p + 8, v.b);
}
static inline __attribute__((always_inline)) v16 v16_fma(v16 x, v16 y, v16 z) {
    return (v16){_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
static inline __attribute__((always_inline)) v16 v16_add(v16 x, v16 y) {
    return (v16){_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)};
}
static inline __attribute__((always_inline)) v16 v16_sub(v16 x, v16 y) {
    return (v16){_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)};
}
static inline __attribute__((always_inline)) v16 v16_mul(v16 x, v16 y) {
    return (v16){_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)};
}
static inline __attribute__((always_inline)) v16 v16_div(v16 x, v16 y) {
    return (v16){_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)};
}
static inline __attribute__((always_inline)) v16 v16_neg(v16 x) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return (v16){_mm256_xor_ps(x.a, sign), _mm256_xor_ps(x.b, sign)};
}
static inline __attribute__((always_inline)) v16 v16_abs(v16 x) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return (v16){_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b)};
}
static inline __attribute__((always_inline)) v16 v16_max(v16 x, v16 y) {
    return (v16){_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)};
}
static inline __attribute__((always_inline)) v16 v16_min(v16 x, v16 y) {
    return (v16){_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)};
}
static inline __attribute__((always_inline)) v16 v16_rint(v16 x) {
    enum { NEAREST = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC };
    return (v16){_mm256_round_ps(x.a, NEAREST), _mm256_round_ps(x.b, NEAREST)};
}
static inline __attribute__((always_inline)) v16 v16_hold(v16 x) {
    __asm__("" : "+x"(x.a), "+x"(x.b));
    return x;
}
static inline __attribute__((always_inline)) uint32_t v16_at_least(v16 x, v16 y) {
    return (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(x.a, y.a, _CMP_GE_OQ)) |
           (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(x.b, y.b, _CMP_GE_OQ)) << 8;
}
static inline __attribute__((always_inline)) int v16_unordered(v16 x) {
    return _mm256_movemask_ps(
        _mm256_or_ps(_mm256_cmp_ps(x.a, x.a, _CMP_UNORD_Q), _mm256_cmp_ps(x.b, x.b, _CMP_UNORD_Q)));
}
static inline __attribute__((always_inline)) __m256 qsa_canonical8(__m256 x) {
    const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32((int)0x7fc00000u));
    return _mm256_blendv_ps(x, nan, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}
static inline __attribute__((always_inline)) v16 v16_canonical(v16 x) {
    return (v16){qsa_canonical8(x.a), qsa_canonical8(x.b)};
}
static inline __attribute__((always_inline)) __m256 qsa_scale8(__m256 t, __m256 n) {
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(t), _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23)));
}
static inline __attribute__((always_inline)) v16 v16_scale_by_power(v16 t, v16 n) {
    return (v16){qsa_scale8(t.a, n.a), qsa_scale8(t.b, n.b)};
}
static inline __attribute__((always_inline)) __m256 qsa_cut8(__m256 value, __m256 x) {
    const __m256 kept = _mm256_and_ps(value, _mm256_cmp_ps(x, _mm256_set1_ps((-80.0f)), _CMP_GE_OQ));
    const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32((int)0x7fc00000u));
    return _mm256_blendv_ps(kept, nan, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}
static inline __attribute__((always_inline)) v16 v16_cut(v16 value, v16 x) {
    return (v16){qsa_cut8(value.a, x.a), qsa_cut8(value.b, x.b)};
}
static inline __attribute__((always_inline)) __m256 qsa_select8(__m256 x, __m256 yes, __m256 no) {
    return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_LT_OQ));
}
static inline __attribute__((always_inline)) v16 v16_select_negative(v16 x, v16 yes, v16 no) {
    return (v16){qsa_select8(x.a, yes.a, no.a), qsa_select8(x.b, yes.b, no.b)};
}
static inline __attribute__((always_inline)) __m256 qsa_relu8(__m256 x) {
    const __m256 positive = _mm256_and_ps(x, _mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_GT_OQ));
    return _mm256_or_ps(positive, _mm256_and_ps(x, _mm256_cmp_ps(x, x, _CMP_UNORD_Q)));
}
static inline __attribute__((always_inline)) v16 v16_relu(v16 x) {
    return (v16){qsa_relu8(x.a), qsa_relu8(x.b)};
}
static inline __attribute__((always_inline)) float v16_fold(v16 v) {
    const __m256 eight = _mm256_add_ps(v.a, v.b);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}
static inline __attribute__((always_inline)) float v16_fold_max(v16 v) {
    const __m256 eight = _mm256_max_ps(v.a, v.b);
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}
typedef __m256 v16_half;
static inline __attribute__((always_inline)) v16_half v16_halve(v16 v) {
    return _mm256_add_ps(v.a, v.b);
}
static inline __attribute__((always_inline)) void v16_fold8(const float (*part)[8], float scale, float out[8]) {
    __m256 four[4], two[2];
    for (int i = 0; i < 4; i++) {
        const __m256 x = _mm256_load_ps(part[i]), y = _mm256_load_ps(part[i + 4]);
        four[i] = _mm256_add_ps(_mm256_permute2f128_ps(x, y, 0x20), _mm256_permute2f128_ps(x, y, 0x31));
    }
    for (int i = 0; i < 2; i++) {
        const __m256 x = four[2 * i], y = four[2 * i + 1];
        two[i] = _mm256_add_ps(_mm256_shuffle_ps(x, y, 0x44), _mm256_shuffle_ps(x, y, 0xee));
    }
    const __m256 sum = _mm256_add_ps(_mm256_shuffle_ps(two[0], two[1], 0x88), _mm256_shuffle_ps(two[0], two[1], 0xdd));
    _mm256_storeu_ps(out, _mm256_add_ps(_mm256_mul_ps(sum, _mm256_set1_ps(scale)), _mm256_setzero_ps()));
}
static inline __attribute__((always_inline)) void v16_store_half(float *p, v16_half v) {
    _mm256_store_ps(p, v);
}
static inline __attribute__((always_inline)) v16 v16_of_f16(const unsigned char *p) {
    const v16 x = {_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)),
                   _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p + 16)))};
    return v16_canonical(x);
}
static inline __attribute__((always_inline)) __m256 qsa_of_bf16_8(const unsigned char *p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)), 16));
}
static inline __attribute__((always_inline)) v16 v16_of_bf16(const unsigned char *p) {
    return v16_canonical((v16){qsa_of_bf16_8(p), qsa_of_bf16_8(p + 16)});
}
static inline __attribute__((always_inline)) __m256 qsa_of_i8(const unsigned char *p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}
static inline __attribute__((always_inline)) v16 v16_decode(const unsigned char *row, qsa_type format, int32_t d, v16 scale) {
    const unsigned char *half = row + 2 * (size_t)d;
    switch (format) {
    case QSA_F32:
        return v16_load((const float *)row + d);
    case QSA_F16:
        return (v16){_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)half)),
                     _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(half + 16)))};
    case QSA_BF16:
        return (v16){qsa_of_bf16_8(half), qsa_of_bf16_8(half + 16)};
    default:
        return v16_mul((v16){qsa_of_i8(row + d), qsa_of_i8(row + d + 8)}, scale);
    }
}
static inline __attribute__((always_inline)) void v16_to_i8(int8_t *out, v16 v) {
    const __m256i x = _mm256_packs_epi32(_mm256_cvtps_epi32(v.a), _mm256_cvtps_epi32(v.b));
    const __m256i y = _mm256_permute4x64_epi64(x, 0xd8);
    _mm_storeu_si128((__m128i *)out, _mm_packs_epi16(_mm256_castsi256_si128(y), _mm256_extracti128_si256(y, 1)));
}
static inline __attribute__((always_inline)) float qsa_half_to_float(uint16_t h) {
    return _cvtsh_ss(h);
}
static inline __attribute__((always_inline)) v16 v16_load_n(const float *p, int32_t n) {
    float x[16] = {0};
    for (int32_t i = 0; i < n; i++)
        x[i] = p[i];
    return v16_load(x);
}
static inline __attribute__((always_inline)) void v16_store_n(float *p, v16 v, int32_t n) {
    float x[16];
    v16_store(x, v);
    for (int32_t i = 0; i < n; i++)
        p[i] = x[i];
}
static __attribute__((noinline)) void v16_decode_tail(float out[16], const unsigned char *row, const uint16_t *scales,
                                                      qsa_type format, int32_t d, int32_t dim) {
    const float scale = format == QSA_I8 ? qsa_f32_of_f16(scales[d / 64]) : 0.0f;
    for (int32_t i = 0; i < 16; i++)
        out[i] = d + i >= dim ? 0.0f
                 : format == QSA_I8 ? (float)((const int8_t *)row)[d + i] * scale
                                    : qsa_load(row, format, d + i);
}
static inline __attribute__((always_inline)) void v16_decode_row(float *out, const unsigned char *row, const uint16_t *scales, qsa_type format,
                               int32_t dim) {
    int32_t d = 0;
    for (; d + 64 <= dim; d += 64) {
        const v16 scale = v16_set(format == QSA_I8 ? qsa_half_to_float(scales[d / 64]) : 0.0f);
        for (int32_t i = 0; i < 64; i += 16)
            v16_store(out + d + i, v16_decode(row, format, d + i, scale));
    }
    for (; d + 16 <= dim; d += 16)
        v16_store(out + d, v16_decode(row, format, d,
                                      v16_set(format == QSA_I8 ? qsa_half_to_float(scales[d / 64]) : 0.0f)));
    if (d < dim)
        v16_decode_tail(out + d, row, scales, format, d, dim);
}
static inline __attribute__((always_inline)) v16 v16_exp(v16 x) {
    const v16 n = v16_rint(v16_mul(x, v16_set(0x1.715476p+0f)));
    v16 r = v16_fma(n, v16_set(-0x1.62e400p-1f), x);
    r = v16_fma(n, v16_set(-0x1.7f7d1cp-20f), r);
    v16 t = v16_set(0x1.6a243ap-10f);
    t = v16_fma(t, r, v16_set(0x1.1239e0p-7f));
    t = v16_fma(t, r, v16_set(0x1.5558f2p-5f));
    t = v16_fma(t, r, v16_set(0x1.555492p-3f));
    t = v16_fma(t, r, v16_set(0x1.fffffcp-2f));
    t = v16_fma(t, r, v16_set(1.0f));
    t = v16_fma(t, r, v16_set(1.0f));
    return v16_cut(v16_scale_by_power(t, n), x);
}
static inline __attribute__((always_inline)) v16 v16_sigmoid(v16 g) {
    const v16 e = v16_exp(v16_neg(v16_abs(g))), one = v16_set(1.0f);
    return v16_canonical(v16_div(v16_select_negative(g, e, one), v16_add(one, e)));
}
static inline __attribute__((always_inline)) float v16_dot(const float *a, const float *b, int32_t n) {
    v16 sum = v16_zero();
    int32_t i = 0;
    for (; i + 16 <= n; i += 16)
        sum = v16_fma(v16_load(a + i), v16_load(b + i), sum);
    if (i < n)
        sum = v16_fma(v16_load_n(a + i, n - i), v16_load_n(b + i, n - i), sum);
    return v16_fold(sum);
}
static inline __attribute__((always_inline)) void v16_load_row(float *out, const void *data, qsa_type type, int32_t n) {
    int32_t i = 0;
    if (type == QSA_F32) {
        memcpy(out, data, (size_t)n * sizeof(float));
        return;
    }
    const unsigned char *p = (const unsigned char *)data;
    for (; i + 16 <= n; i += 16)
        v16_store(out + i, type == QSA_F16 ? v16_of_f16(p + 2 * i) : v16_of_bf16(p + 2 * i));
    for (; i < n; i++)
        out[i] = qsa_load(data, type, i);
}
enum { BLOCKS = 8, MOST_HEADS = 4 };
static inline __attribute__((always_inline)) void score_dots(float (*part)[BLOCKS][8], const qsa_score_args *args, const float *q, const int heads,
                           const unsigned char *key, qsa_type format, int b, const unsigned char *next) {
    for (size_t at = 0; next && at < (size_t)args->dim * qsa_type_size(format); at += 64)
        __builtin_prefetch(next + at);
    const int32_t dim = args->dim, whole = dim / 16 * 16;
    v16 sum[MOST_HEADS];
    for (int h = 0; h < heads; h++)
        sum[h] = v16_zero();
    for (int32_t d = 0; d < whole; d += 16) {
        const v16 k = v16_hold(v16_decode(key, format, d, v16_zero()));
        for (int h = 0; h < heads; h++)
            sum[h] = v16_fma(v16_load(q + (int64_t)h * dim + d), k, sum[h]);
    }
    if (whole < dim) {
        float tail[16];
        v16_decode_tail(tail, key, NULL, format, whole, dim);
        const v16 k = v16_load(tail);
        for (int h = 0; h < heads; h++)
            sum[h] = v16_fma(v16_load_n(q + (int64_t)h * dim + whole, dim - whole), k, sum[h]);
    }
    for (int h = 0; h < heads; h++)
        v16_store_half(part[h][b], v16_halve(sum[h]));
}
static inline __attribute__((always_inline)) void score_heads(float sum[BLOCKS], const qsa_score_args *args, int32_t first, const int heads,
                            const unsigned char *const keys[BLOCKS], const unsigned char *const next[BLOCKS],
                            qsa_type format) {
    _Alignas(64) float part[MOST_HEADS][BLOCKS][8];
    for (int b = 0; b < BLOCKS; b++)
        score_dots(part, args, args->index_q + (int64_t)first * args->dim, heads, keys[b], format, b, next[b]);
    for (int h = 0; h < heads; h++) {
        float dot[BLOCKS];
        v16_fold8((const float(*)[8])part[h], 1.0f, dot);
        for (int b = 0; b < BLOCKS; b++)
            sum[b] = sum[b] + qsa_relu(dot[b]);
    }
}
static inline __attribute__((always_inline)) const unsigned char *score_key(const qsa_score_args *args, int32_t i, size_t bytes) {
    const int32_t block = args->blocks ? args->blocks[i] : i;
    const size_t page = (size_t)args->page_table[block / args->page_blocks];
    return (const unsigned char *)args->block_keys +
           (page * (size_t)args->page_blocks + (size_t)(block % args->page_blocks)) * bytes;
}
static inline __attribute__((always_inline)) void score_format(const qsa_score_args *args, qsa_type format) {
    const size_t bytes = (size_t)args->dim * qsa_type_size(format);
    for (int32_t b = args->first; b < args->end; b += BLOCKS) {
        const unsigned char *keys[BLOCKS];
        const int32_t count = args->end - b < BLOCKS ? args->end - b : BLOCKS;
        for (int32_t i = 0; i < BLOCKS; i++)
            keys[i] = score_key(args, b + (i < count ? i : count - 1), bytes);
        const unsigned char *next[BLOCKS] = {NULL}, *none[BLOCKS] = {NULL};
        if (b + 2 * BLOCKS <= args->end)
            for (int32_t i = 0; i < BLOCKS; i++)
                next[i] = score_key(args, b + BLOCKS + i, bytes);
        float sum[BLOCKS] = {0};
        int32_t h = 0;
        for (; h + MOST_HEADS <= args->heads; h += MOST_HEADS)
            score_heads(sum, args, h, MOST_HEADS, keys, h ? none : next, format);
        for (; h < args->heads; h++)
            score_heads(sum, args, h, 1, keys, h ? none : next, format);
        for (int32_t i = 0; i < count; i++)
            args->scores[b - args->first + i] = qsa_canonical(sum[i] / args->divisor);
    }
}
static inline __attribute__((always_inline)) void score_simd(const qsa_score_args *args) {
    if (args->format == QSA_F32)
        score_format(args, QSA_F32);
    else if (args->format == QSA_F16)
        score_format(args, QSA_F16);
    else
        score_format(args, QSA_BF16);
}
void qsa_score_avx2(const qsa_score_args *args) {
    score_simd(args);
}
