// SPDX-License-Identifier: Apache-2.0
//
// Long contexts: 262,144 and 1,048,576 cells of the real geometry written straight into an i8 cache (65,536
// blocks overflow a grid dimension elsewhere), and byte offsets above 2^31 and 2^32 in every array of a
// cache (int32 offsets at 349,525 cells x 12 layers elsewhere). Memory comes from mmap without a
// reservation, so that only what is written exists, and is counted.
// LABELS: real
// RUNNER: plain
#define _DEFAULT_SOURCE // MAP_ANONYMOUS, MAP_NORESERVE
#include "api/cache.h"
#include "cases.h"

#include <sys/mman.h>

typedef struct {
    size_t held, peak;
    long allocations;
} hook;

static void *hook_alloc(void *user, size_t bytes, size_t align) {
    hook *h = user;
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    (void)align; // a page aligns to anything the library asks for
    h->held += bytes;
    h->peak = h->held > h->peak ? h->held : h->peak;
    h->allocations++;
    return p == MAP_FAILED ? NULL : p;
}

static void hook_free(void *user, void *memory, size_t bytes) {
    hook *h = user;
    h->held -= bytes;
    munmap(memory, bytes);
}

// ---- Many cells -------------------------------------------------------------------------------

enum { PIECE = 50000, ROWS = 6, GROUPS = 4 }; // no power of two: a wrapped offset finds other cells

// One piece of cells in i8: the same codes and scales in every piece.
typedef struct {
    size_t row;
    int8_t *k, *v;
    uint16_t *k_scales, *v_scales;
    float *keys; // of the piece's blocks
} piece;

static void make_piece(const oracle_geometry *g, piece *p) {
    rng random = rng_make(91);
    p->row = (size_t)g->kv_heads * (size_t)g->head_dim;
    const size_t scales = (size_t)PIECE * (size_t)g->kv_heads * (size_t)GROUPS;
    p->k = rig_new(PIECE * p->row, 1);
    p->v = rig_new(PIECE * p->row, 1);
    p->k_scales = rig_new(scales, 2);
    p->v_scales = rig_new(scales, 2);
    p->keys = rig_new((size_t)(PIECE / g->ratio) * (size_t)g->index_dim, sizeof(float));
    rng_fill_bytes(&random, PIECE * p->row, p->k);
    rng_fill_bytes(&random, PIECE * p->row, p->v);
    for (size_t i = 0; i < PIECE * p->row; i++) {
        p->k[i] = p->k[i] == -128 ? 0 : p->k[i];
        p->v[i] = p->v[i] == -128 ? 0 : p->v[i];
    }
    for (size_t i = 0; i < scales; i++) {
        p->k_scales[i] = oracle_f16_encode((1 + rng_uniform(&random)) / 127);
        p->v_scales[i] = oracle_f16_encode((1 + rng_uniform(&random)) / 64);
    }
}

static void free_piece(piece *p) {
    free(p->k);
    free(p->v);
    free(p->k_scales);
    free(p->v_scales);
    free(p->keys);
}

// The number that block b of `blocks` is ranked by: a permutation of 1..blocks, so that the best ones lie
// all over; `blocks` is a power of two.
static int32_t rank_of(int32_t b, int32_t blocks) {
    return (int32_t)(((int64_t)b * 40503 + 12345) % blocks) + 1;
}

// Fills the cache with `cells` cells, piece by piece; the last dim of a block key is its rank / 2^18, so
// that scores differ in 18 bits at most.
static void write_cells(rig *r, piece *p, int32_t cells) {
    const oracle_geometry *g = &r->config.geometry;
    for (int32_t first = 0; first < cells; first += PIECE) {
        const int32_t count = cells - first < PIECE ? cells - first : PIECE;
        for (int32_t b = 0; b < count / g->ratio; b++)
            p->keys[(b + 1) * g->index_dim - 1] = (float)rank_of(first / g->ratio + b, cells / g->ratio) * 0x1p-18f;
        const qsa_cells written = {.size = sizeof written,
                                   .k = p->k,
                                   .v = p->v,
                                   .k_scales = p->k_scales,
                                   .v_scales = p->v_scales,
                                   .block_keys = p->keys};
        RIG_OK(qsa_cache_write(r->cache, 0, 0, count, &written));
        RIG_OK(qsa_cache_commit(r->cache));
    }
}

// float64 attention of row i over the cells that it must select: those written come from the piece, the
// row set's own from the rows.
static void check_row(rig *r, const rig_rows *rows, const piece *p, const rig_result *result, const rig_stored *tail,
                      const int32_t *ids, int32_t i, int32_t n) {
    const oracle_geometry *g = &r->config.geometry;
    const size_t q = (size_t)g->heads * (size_t)g->head_dim, dim = (size_t)g->head_dim, heads = (size_t)g->kv_heads;
    const int32_t written = n - i - 1, width = qsa_selected_cells(&r->geometry, QSA_RULE_OFFICIAL, n);
    double *k = rig_new((size_t)width * p->row, sizeof *k), *v = rig_new((size_t)width * p->row, sizeof *v);
    double *query = rig_new(q, sizeof *query), *want = rig_new(q, sizeof *want);
    int32_t *list = rig_new((size_t)width, sizeof *list);
    for (int32_t c = 0; c < width; c++) {
        const int32_t at = c < width - n % g->ratio ? ids[c / g->ratio] * g->ratio + c % g->ratio : n - width + c;
        list[c] = c;
        for (size_t h = 0; h < heads; h++) {
            double *k_to = k + (size_t)c * p->row + h * dim, *v_to = v + (size_t)c * p->row + h * dim;
            const size_t from = (size_t)(at % PIECE) * heads + h;
            if (at >= written) {
                memcpy(k_to, tail->k + ((size_t)at - (size_t)written) * p->row + h * dim, dim * sizeof *k);
                memcpy(v_to, tail->v + ((size_t)at - (size_t)written) * p->row + h * dim, dim * sizeof *v);
                continue;
            }
            oracle_i8_decode(g->head_dim, p->k + from * dim, p->k_scales + from * GROUPS, k_to);
            oracle_i8_decode(g->head_dim, p->v + from * dim, p->v_scales + from * GROUPS, v_to);
        }
    }
    oracle_query(g, &r->norms, rig_q(rows, g, i), rows->positions + 3 * i, query, NULL);
    oracle_attend(g, query, (oracle_rows){.f64 = k}, (oracle_rows){.f64 = v}, list, width, want, NULL);
    const double error = oracle_rel_l2_f32(q, result->out + (size_t)i * q, want);
    printf("  row with %d cells: blocks %d..%d, attention off by %.2e\n", n, ids[0], ids[511], error);
    PLAIN_CHECK(error <= 5e-6);
    free(k);
    free(v);
    free(query);
    free(want);
    free(list);
}

// The keys and values of the rows themselves, read back.
static void read_tail(rig *r, int32_t first, int32_t count, rig_stored *s) {
    const oracle_geometry *g = &r->config.geometry;
    const size_t vectors = (size_t)count * (size_t)g->kv_heads, dim = (size_t)g->head_dim;
    int8_t *k = rig_new(vectors * dim, 1), *v = rig_new(vectors * dim, 1);
    uint16_t *k_scales = rig_new(vectors * GROUPS, 2), *v_scales = rig_new(vectors * GROUPS, 2);
    qsa_cells cells = {.size = sizeof cells, .k = k, .v = v, .k_scales = k_scales, .v_scales = v_scales};
    RIG_OK(qsa_cache_read(r->cache, 0, 0, first, count, &cells));
    *s = (rig_stored){.cells = count};
    s->k = rig_new(vectors * dim, sizeof *s->k);
    s->v = rig_new(vectors * dim, sizeof *s->v);
    for (size_t i = 0; i < vectors; i++) {
        oracle_i8_decode(g->head_dim, k + i * dim, k_scales + i * GROUPS, s->k + i * dim);
        oracle_i8_decode(g->head_dim, v + i * dim, v_scales + i * GROUPS, s->v + i * dim);
    }
    free(k);
    free(v);
    free(k_scales);
    free(v_scales);
}

// ids: the 512 best of the blocks that the row with n cells has. Written blocks rank by rank_of; the one
// that the rows complete ranks first (its score is sqrt(ID)).
static void expected_ids(int32_t cells, int32_t n, int32_t ids[512]) {
    const int32_t blocks = cells / 4, own = n / 4 - blocks;
    int32_t count = 0;
    for (int32_t b = 0; b < blocks; b++)
        if (rank_of(b, blocks) > blocks - (512 - own))
            ids[count++] = b;
    for (int32_t b = blocks; b < n / 4; b++)
        ids[count++] = b;
    PLAIN_CHECK_INT(count, 512);
}

// Every set of kernels gives the same rows (one wrong only above 16K passed short tests elsewhere): the last
// row again, pending, then discarded.
static void every_kernel(rig *r, const rig_rows *rows) {
    const char *wheres[16];
    rig_result result[2];
    const qsa_batch batch = rig_batch(rows, &r->config.geometry, ROWS - 1, 1, false);
    rig_result_init(&result[0], r, 1);
    rig_result_init(&result[1], r, 1);
    rig_forward(r, 0, &batch, QSA_RULE_OFFICIAL, &result[0]);
    for (int i = 0, count = rig_wheres(wheres); i < count; i++) {
        rig_force(r->context, wheres[i]);
        memset(result[1].out, 0xff, (size_t)r->geometry.heads * (size_t)r->geometry.head_dim * sizeof(float));
        rig_forward(r, 0, &batch, QSA_RULE_OFFICIAL, &result[1]);
        PLAIN_CHECK(same_rows(r, &result[0], 0, &result[1], 0, 1));
        printf("  kernels %s ran\n", wheres[i]);
    }
    RIG_OK(qsa_cache_discard(r->cache));
    rig_result_free(&result[0]);
    rig_result_free(&result[1]);
}

static void long_context(int32_t cells) {
    const oracle_geometry g = oracle_geometry_flash_next();
    hook h = {0};
    rig r;
    rig_rows rows;
    rig_result result;
    rig_stored tail;
    piece p;
    rig_config config = rig_defaults(&g, cells + ROWS + 1);
    config.seed = 0;
    config.kv_type = QSA_I8;
    config.page_cells = 64;
    config.threads = 2;
    config.hook = (qsa_allocator){hook_alloc, hook_free, &h};
    rig_open(&r, &config);
    qsa_cache_info info = {.size = sizeof info};
    RIG_OK(qsa_cache_get_info(r.cache, &info));
    make_piece(&g, &p);
    const size_t held = h.held;
    write_cells(&r, &p, cells);
    rig_rows_init(&rows, &g, ROWS, 92);
    for (int32_t i = 0; i < ROWS; i++) {
        steer(&rows, &g, i, 1);
        for (int axis = 0; axis < 3; axis++)
            rows.positions[3 * i + axis] = cells + i;
    }
    rig_result_init(&result, &r, ROWS);
    rig_run(&r, &rows, ROWS, QSA_RULE_OFFICIAL, false, &result);
    read_tail(&r, cells, ROWS, &tail);
    size_t workspace;
    RIG_OK(qsa_workspace_size(r.context, r.cache, QSA_STAGE_FORWARD, ROWS, &workspace));
    printf("%d cells: cache %.1f MiB, peak %.1f MiB, workspace %.1f MiB\n", cells, (double)info.bytes / 0x1p20,
           (double)h.peak / 0x1p20, (double)workspace / 0x1p20);
    for (int32_t i = 0; i < ROWS; i++) {
        int32_t ids[512];
        expected_ids(cells, cells + i + 1, ids);
        PLAIN_CHECK_INT(result.selection.count[i], 512);
        PLAIN_CHECK_BYTES(result.selection.ids + i * result.selection.stride, ids, sizeof ids);
        PLAIN_CHECK(ids[511] > cells / 4 - 1000);
        check_row(&r, &rows, &p, &result, &tail, ids, i, cells + i + 1);
    }
    every_kernel(&r, &rows);
    PLAIN_CHECK_INT(h.peak, held); // nothing since the cache was made
    PLAIN_CHECK(held - info.bytes < 1 << 20);
    rig_stored_free(&tail);
    rig_result_free(&result);
    rig_rows_free(&rows);
    free_piece(&p);
    rig_close(&r);
    PLAIN_CHECK_INT(h.held, 0);
}

static void cells_262144(void) {
    long_context(262144);
}

#ifndef QSA_SANITIZED // one of a kind is enough there
static void cells_1048576(void) {
    long_context(1048576);
}
#endif

// ---- Large offsets ----------------------------------------------------------------------------

enum { SHORT = 150 };

// False, and the test skipped, where the system promises no more memory than it has.
static bool can_map(size_t bytes, const char *test) {
    hook h = {0};
    void *p = hook_alloc(&h, bytes, 64);
    if (!p) {
        plain_skip(test, "no address space without a reservation");
        return false;
    }
    hook_free(&h, p, bytes);
    return true;
}

// 150 cells in the pages at the end of a pool of 1,048,576 cells, in the last of the layers, against the
// same cells in a small cache. The order of the free list is turned around by hand, since pages are
// taken from the front and filling them would take all this memory.
static void far_offsets(const oracle_geometry *g, qsa_type kv_type, qsa_type key_type, int32_t layers,
                        int32_t rollback) {
    hook h = {0};
    rig far, near;
    rig_result got, want;
    rig_rows rows;
    rig_config config = rig_defaults(g, SHORT);
    config.kv_type = kv_type;
    config.block_key_type = key_type;
    config.rollback = rollback;
    rig_rows_init(&rows, g, SHORT, 93);
    for (int32_t i = 0; i < SHORT; i++)
        rows.attend[i] = i % 8 == 0 || i == SHORT - 1;
    rig_open(&near, &config);
    rig_result_init(&want, &near, SHORT);
    rig_run(&near, &rows, 40, QSA_RULE_OFFICIAL, true, &want);
    config.layers = layers;
    config.page_cells = 64;
    config.pages = 1048576 / 64;
    config.hook = (qsa_allocator){hook_alloc, hook_free, &h};
    rig_open(&far, &config);
    for (int32_t i = 0; i < config.pages; i++)
        far.cache->free_list[i] = i;
    rig_result_init(&got, &far, SHORT);
    for (int32_t first = 0; first < SHORT; first += 60) {
        const int32_t count = SHORT - first < 60 ? SHORT - first : 60;
        const qsa_batch batch = rig_batch(&rows, g, first, count, true);
        const size_t q = (size_t)g->heads * (size_t)g->head_dim;
        for (int32_t layer = 0; layer < layers; layer++) {
            rig_result view = got;
            view.selection.ids += first * view.selection.stride;
            view.selection.count += first;
            view.selection.cut_index += first;
            view.selection.cut_cells += first;
            view.out += (size_t)first * q;
            view.lse += first * g->heads;
            rig_forward(&far, layer, &batch, QSA_RULE_OFFICIAL, &view);
            for (int32_t i = first; i < first + count; i++)
                PLAIN_CHECK(!rows.attend[i] || same_rows(&near, &want, i, &got, i, 1));
            memset(view.out, 0xff, (size_t)count * q * sizeof(float));
        }
        RIG_OK(qsa_cache_commit(far.cache));
    }
    const qsa_layout *l = &far.cache->layout;
    printf("%d layers: cache %.1f GiB; a layer's keys %.2f GiB, block keys %.2f GiB; last offset in keys %.2f GiB\n",
           layers, (double)l->total / 0x1p30, (double)l->kv_layer / 0x1p30, (double)l->block_layer / 0x1p30,
           (double)l->kv_layer * layers / 0x1p30);
    PLAIN_CHECK((uint64_t)l->kv_layer * (uint64_t)layers > UINT64_C(1) << 32);
    rig_stored a, b;
    rig_read(&near, 0, 0, &a);
    rig_read(&far, layers - 1, 0, &b);
    PLAIN_CHECK_BYTES(b.k_bits, a.k_bits,
                      (size_t)SHORT * (size_t)g->kv_heads * (size_t)g->head_dim * rig_element(kv_type));
    PLAIN_CHECK_BYTES(b.v_bits, a.v_bits,
                      (size_t)SHORT * (size_t)g->kv_heads * (size_t)g->head_dim * rig_element(kv_type));
    PLAIN_CHECK_BYTES(b.key_bits, a.key_bits,
                      (size_t)(SHORT / g->ratio) * (size_t)g->index_dim * rig_element(key_type));
    rig_stored_free(&a);
    rig_stored_free(&b);
    rig_result_free(&got);
    rig_result_free(&want);
    rig_rows_free(&rows);
    rig_close(&near);
    rig_close(&far);
}

// The real geometry's slice of one KV head, twelve layers and more: offsets grow by layers.
static void offsets_by_layer(void) {
    oracle_geometry g = oracle_geometry_flash_next();
    g.heads = 12;
    g.kv_heads = 1;
    g.budget = 64;
    if (!can_map((size_t)20 << 30, __func__))
        return;
    far_offsets(&g, QSA_I8, QSA_F32, 20, 64);
    far_offsets(&g, QSA_F16, QSA_F16, 12, QSA_ROLLBACK_ALL);
}

// The largest head: one layer's keys take 4 GiB, so offsets above 2^32 occur within a layer, also
// among the raw index keys that are all kept; block keys pass 2^32 in the fifth.
static void offsets_within_a_layer(void) {
    oracle_geometry g = oracle_geometry_flash_next();
    g.heads = 2;
    g.kv_heads = 1;
    g.head_dim = 1024;
    g.index_dim = 1024;
    g.index_heads = 1;
    g.budget = 64;
    if (!can_map((size_t)80 << 30, __func__))
        return;
    far_offsets(&g, QSA_F32, QSA_F32, 6, QSA_ROLLBACK_ALL);
}

int main(void) {
    PLAIN_RUN(cells_262144);
#ifndef QSA_SANITIZED
    PLAIN_RUN(cells_1048576);
#endif
    PLAIN_RUN(offsets_by_layer);
    PLAIN_RUN(offsets_within_a_layer);
    return plain_finish();
}
