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
static inline double qsa_log64(double x) {
    uint64_t u = qsa_bits_of_f64(x);
    int64_t e = (int64_t)(u >> 52) - 1023;
    double m = qsa_f64_of_bits((u & 0xfffffffffffffu) | 0x3ff0000000000000u);
    if (m > 1.4142135623730951) {
        m *= 0.5;
        e += 1;
    }
    double s = (m - 1.0) / (m + 1.0), s2 = s * s, sum = 0.0;
    for (int k = 23; k >= 3; k -= 2)
        sum = fma(sum, s2, 1.0 / (double)k);
    sum = fma(sum, s2, 1.0);
    double low = fma((double)e, 0x1.abc9e3b39803fp-56, 2.0 * s * sum);
    return fma((double)e, 0x1.62e42fefa39efp-1, low);
}
static inline double qsa_exp64(double y) {
    double n = rint(y * 0x1.71547652b82fep+0);
    double r = fma(-n, 0x1.62e42fefa39efp-1, y);
    r = fma(-n, 0x1.abc9e3b39803fp-56, r);
    double sum = 1.0;
    for (int k = 14; k >= 1; k--)
        sum = fma(sum, r / (double)k, 1.0);
    return qsa_f64_of_bits(qsa_bits_of_f64(sum) + ((uint64_t)(int64_t)n << 52));
}
static inline float qsa_inv_freq(double theta, int32_t i, int32_t rotary_dim) {
    float exponent = (float)(2 * i) / (float)rotary_dim;
    float power = (float)qsa_exp64((double)exponent * qsa_log64(theta));
    return 1.0f / power;
}
static inline void qsa_sincos(float x, float *sine, float *cosine) {
    double k = rint((double)x * 0x1.45f306dc9c883p-1);
    double r = fma(-k, 0x1.921fb54442d18p+0, (double)x);
    r = fma(-k, 0x1.1a62633145c07p-54, r);
    double r2 = r * r, s = 1.0, c = 1.0;
    for (int n = 16; n >= 2; n -= 2) {
        s = fma(s, -r2 / (double)(n * (n + 1)), 1.0);
        c = fma(c, -r2 / (double)(n * (n - 1)), 1.0);
    }
    s *= r;
    switch ((int64_t)k & 3) {
    case 0:
        *sine = (float)s, *cosine = (float)c;
        break;
    case 1:
        *sine = (float)c, *cosine = (float)-s;
        break;
    case 2:
        *sine = (float)-s, *cosine = (float)-c;
        break;
    default:
        *sine = (float)-c, *cosine = (float)s;
        break;
    }
}
void qsa_angles_ref(const qsa_angles_args *args) {
    for (int32_t i = 0; i < args->half; i++) {
        float angle = args->inv_freq[i] * (float)args->positions[args->axis[i]];
        qsa_sincos(angle, &args->sine[i], &args->cosine[i]);
    }
}
