// SPDX-License-Identifier: Apache-2.0
//
// The threading rule of the header: qsa_cache_read, score, attend, qsa_snapshot_save and the queries on a sequence that no
// writer touches may run beside the writer, from another context, also while forks of it that share its pages are made,
// appended to and destroyed. The reader's bytes never change; the thread sanitizer sees the rest.
// RUNNER: plain
// LABELS: small threads
#include "support/fixture.h"
#include "support/plain_runner.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { READ_CELLS = 30, ROUNDS = 40 };

static fx_world *world;
static fx_session writer;
static atomic_int reader_rounds, writer_done;

// What a reader gets: the last cells of sequence 0, its scores, its records.
typedef struct reading {
    int8_t k[READ_CELLS * 48], v[READ_CELLS * 48];
    uint16_t k_scales[READ_CELLS * 2], v_scales[READ_CELLS * 2];
    float block_keys[7 * 16], index_keys[READ_CELLS * 16];
    int32_t positions[READ_CELLS * 3], length, chunks;
    float scores[7], records[4 * 26];
    unsigned char snapshot[16384];
    size_t snapshot_bytes;
} reading;

static int keep_piece(void *user, const void *data, size_t bytes) {
    reading *r = user;
    if (bytes > sizeof r->snapshot - r->snapshot_bytes)
        return 1;
    memcpy(r->snapshot + r->snapshot_bytes, data, bytes);
    r->snapshot_bytes += bytes;
    return 0;
}

static const float *index_queries, *queries; // two rows of anything

static void read_all(qsa_context *context, void *workspace, size_t bytes, reading *r) {
    const qsa_cache *cache = writer.cache;
    const int32_t sequence = writer.sequence[0], cells = READ_CELLS;
    const qsa_row_set rows = {sizeof rows, 1, &sequence, &cells};
    qsa_cells arrays = {sizeof arrays, r->k,          r->v,          r->k_scales,
                        r->v_scales,   r->block_keys, r->index_keys, r->positions};
    int32_t ids[4] = {0, 2, 3, 5}, count = 4;
    const qsa_selection selection = {sizeof selection, ids, 4, &count, NULL, NULL};
    FX_OK(qsa_sequence_length(cache, sequence, &r->length));
    FX_OK(qsa_cache_read(cache, 0, sequence, 0, READ_CELLS, &arrays));
    FX_OK(qsa_score(context, cache, 0, &rows, index_queries, r->scores, 7, workspace, bytes));
    FX_OK(qsa_attend(context, cache, 0, &rows, queries, &selection, r->records, 4 * 26, &r->chunks, workspace, bytes));
    r->snapshot_bytes = 0;
    FX_OK(qsa_snapshot_save(cache, 1, &sequence, keep_piece, r));
}

typedef struct reader {
    qsa_context *context;
    void *workspace;
    size_t bytes;
    reading want, got;
    long different;
} reader;

// Bytes, whatever they mean.
static int differs(const void *a, const void *b, size_t bytes) {
    return memcmp(a, b, bytes) != 0;
}

static void *reader_main(void *argument) {
    reader *r = argument;
    while (!atomic_load(&writer_done)) {
        memset(&r->got, 0, sizeof r->got);
        read_all(r->context, r->workspace, r->bytes, &r->got);
        r->different += differs(&r->got, &r->want, sizeof r->want);
        atomic_fetch_add(&reader_rounds, 1);
    }
    return NULL;
}

// Forks of the sequence that is read, its unfilled last page shared: one is discarded, one goes on, is shortened and held.
static void fork_round(qsa_cells *cells) {
    qsa_cache *cache = writer.cache;
    for (int round = 0; round < 2; round++) {
        int32_t fork, page;
        FX_OK(qsa_sequence_fork(cache, writer.sequence[0], &fork));
        for (int32_t layer = 0; layer < writer.layers; layer++)
            FX_OK(qsa_cache_write(cache, layer, fork, 9, cells));
        const int32_t accepted = 5;
        FX_OK(round ? qsa_cache_accept(cache, 1, &fork, &accepted) : qsa_cache_discard(cache));
        FX_OK(qsa_sequence_truncate(cache, fork, round ? 33 : 29));
        FX_OK(qsa_page_hold(cache, fork, 0, &page));
        FX_OK(qsa_sequence_destroy(cache, fork));
        FX_OK(qsa_page_release(cache, page));
    }
}

// Everything that writes: batches committed and discarded, cells written, sequences emptied, made and ended.
static void write_round(void) {
    qsa_cache *cache = writer.cache;
    const int32_t count[FX_MAX_SEQUENCES] = {0, 9, 5};
    int32_t tokens[20];
    const int32_t rows = fx_next(&writer, count, tokens);
    for (int round = 0; round < 2; round++) {
        for (int32_t layer = 0; layer < writer.layers; layer++) {
            fx_batch batch = fx_batch_make(&writer, layer, rows, tokens);
            fx_compute(&writer, layer, &batch, NULL);
            fx_batch_free(&batch);
        }
        FX_OK(round ? qsa_cache_commit(cache) : qsa_cache_discard(cache));
    }
    static reading r;
    qsa_cells cells = {sizeof cells, r.k, r.v, r.k_scales, r.v_scales, r.block_keys, r.index_keys, r.positions};
    FX_OK(qsa_cache_read(cache, 0, writer.sequence[1], 0, 9, &cells));
    FX_OK(qsa_sequence_reset(cache, writer.sequence[1]));
    for (int32_t layer = 0; layer < writer.layers; layer++)
        FX_OK(qsa_cache_write(cache, layer, writer.sequence[1], 9, &cells));
    FX_OK(qsa_cache_commit(cache));
    FX_OK(qsa_sequence_reset(cache, writer.sequence[1]));
    FX_OK(qsa_sequence_destroy(cache, writer.sequence[2]));
    FX_OK(qsa_sequence_create(cache, &writer.sequence[2]));
    fork_round(&cells);
    qsa_cache_info info = {.size = sizeof info};
    FX_OK(qsa_cache_get_info(cache, &info));
    FX_OK(qsa_cache_reset_events(cache));
}

static void readers_beside_a_writer(void) {
    const qsa_geometry g = fx_geometry_small();
    const int32_t lengths[] = {READ_CELLS, 9, 5}, first[FX_MAX_SEQUENCES] = {READ_CELLS, 0, 0};
    world = fx_world_make(131, &g, 2, 3, lengths, 1);
    fx_options o = fx_options_default();
    o.threads = 2;
    o.page_cells = 4;
    o.max_sequences = 4;
    o.max_cells = READ_CELLS + 9;
    o.pages = 30;
    writer = fx_open(world, &o);
    fx_step(&writer, first, NULL);
    index_queries = fx_values(world, 0, FX_INDEX_Q, 0);
    queries = fx_values(world, 0, FX_Q, 0);
    static reader readers[2];
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        qsa_context_config c;
        qsa_context_config_init(&c);
        c.threads = 1 + i;
        FX_OK(qsa_context_create(&c, &readers[i].context));
        FX_OK(qsa_workspace_size(readers[i].context, writer.cache, QSA_STAGE_ATTEND, 1, &readers[i].bytes));
        readers[i].workspace = fx_alloc(readers[i].bytes);
        memset(&readers[i].want, 0, sizeof readers[i].want);
        read_all(readers[i].context, readers[i].workspace, readers[i].bytes, &readers[i].want);
    }
    PLAIN_CHECK_BYTES(&readers[1].want, &readers[0].want, sizeof readers[0].want);
    PLAIN_CHECK_INT(readers[0].want.length, READ_CELLS);
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, reader_main, &readers[i]) != 0)
            fx_die(__FILE__, __LINE__, "pthread_create");
    int rounds = 0;
    while (rounds < ROUNDS || atomic_load(&reader_rounds) < ROUNDS) {
        write_round();
        rounds++;
    }
    atomic_store(&writer_done, 1);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        PLAIN_CHECK_INT(readers[i].different, 0);
        free(readers[i].workspace);
        qsa_context_destroy(readers[i].context);
    }
    fx_close(&writer);
    fx_world_free(world);
}

int main(void) {
    PLAIN_RUN(readers_beside_a_writer);
    return plain_finish();
}
