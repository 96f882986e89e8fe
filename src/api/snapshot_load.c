// SPDX-License-Identifier: Apache-2.0
//
// Loading a snapshot. Everything that the head and the records say is checked before a page is taken; the cells then go
// into pages that no sequence has yet, and the sequences come alive when the last sum was right. A failure gives the pages
// back. Nothing is trusted: the sums find accidents, the checks what a forger could write.

#include "api/snapshot.h"

#include <string.h>

static const char *const call = "qsa_snapshot_load";

typedef struct load_job {
    qsa_cache *cache;
    qsa_stream stream;
    qsa_snapshot_head head;
} load_job;

// What a failed read means is for the reader to say; that it ended early is the usual reason.
static qsa_status read_failed(const load_job *job) {
    return qsa_fail(QSA_ERR_IO,
                    "%s: the read function failed behind byte %llu of %llu: the snapshot ends early, or cannot be read",
                    call, (unsigned long long)job->stream.passed, (unsigned long long)job->stream.total);
}

static qsa_status check_same(const load_job *job) {
    const qsa_cache_config *c = &job->cache->config;
    const qsa_snapshot_head *h = &job->head;
    QSA_REQUIRE_ARG(h->layers == c->layers, "%s: the snapshot has %d layers, the cache %d", call, (int)h->layers,
                    (int)c->layers);
    QSA_REQUIRE_ARG(h->kv_type == (int32_t)c->kv_type, "%s: the snapshot's kv_type is %d, the cache's %d", call,
                    (int)h->kv_type, (int)c->kv_type);
    QSA_REQUIRE_ARG(h->block_key_type == (int32_t)c->block_key_type,
                    "%s: the snapshot's block_key_type is %d, the cache's %d", call, (int)h->block_key_type,
                    (int)c->block_key_type);
    qsa_status status = qsa_check_geometry(call, &h->geometry);
    QSA_REQUIRE(status == QSA_OK, QSA_ERR_DATA, "%s: the snapshot's geometry cannot be computed", call);
    return qsa_check_same_geometry("qsa_snapshot_load (the snapshot's as layer)", &h->geometry, &c->geometry);
}

static qsa_status take_head(load_job *job) {
    unsigned char bytes[QSA_SNAPSHOT_HEAD];
    uint32_t version;
    job->stream.total = QSA_SNAPSHOT_LEAD;
    qsa_stream_take(&job->stream, bytes, QSA_SNAPSHOT_LEAD);
    if (job->stream.failed)
        return read_failed(job);
    memcpy(&version, bytes + 8, sizeof version);
    QSA_REQUIRE(memcmp(bytes, QSA_SNAPSHOT_MAGIC, 8) == 0, QSA_ERR_DATA, "%s: this is no snapshot", call);
    QSA_REQUIRE(version == QSA_SNAPSHOT_VERSION, QSA_ERR_DATA,
                "%s: the snapshot is of version %u, this library knows version %d", call, (unsigned)version,
                QSA_SNAPSHOT_VERSION);
    job->stream.total = QSA_SNAPSHOT_HEAD + sizeof(uint64_t);
    qsa_stream_take(&job->stream, bytes + QSA_SNAPSHOT_LEAD, QSA_SNAPSHOT_HEAD - QSA_SNAPSHOT_LEAD);
    const int right = qsa_stream_take_sum(&job->stream);
    if (job->stream.failed)
        return read_failed(job);
    QSA_REQUIRE(right, QSA_ERR_DATA, "%s: the snapshot's head is damaged", call);
    qsa_snapshot_unpack_head(bytes, &job->head);
    job->stream.total = job->head.total;
    return check_same(job);
}

// Whole pages that a sequence shares with its base.
static int32_t shared_pages(const qsa_cache *cache, const qsa_snapshot_record *r) {
    return r->shared == r->length ? qsa_pages_for(cache, r->length) : r->shared / cache->config.page_cells;
}

static qsa_status check_record(const load_job *job, int32_t k) {
    const qsa_cache *cache = job->cache;
    const qsa_snapshot_record *r = &cache->records[k];
    const int32_t ratio = cache->config.geometry.ratio;
    QSA_REQUIRE(r->length >= 0 && r->raw_first >= 0 && r->raw_first <= r->raw_from && r->raw_from <= r->length &&
                    (r->length % ratio == 0 || r->raw_from <= r->length - r->length % ratio) && r->base >= -1 &&
                    r->base < k && r->shared >= 0 && r->shared <= (r->base < 0 ? 0 : cache->records[r->base].length) &&
                    r->shared <= r->length && (r->base < 0) == (r->shared == 0) &&
                    (r->shared % ratio == 0 || r->shared == r->length),
                QSA_ERR_DATA, "%s: the snapshot's record %d makes no sense", call, (int)k);
    QSA_REQUIRE(r->length <= cache->config.max_cells, QSA_ERR_CAPACITY, "%s: a sequence has %d cells, max_cells is %d",
                call, (int)r->length, (int)cache->config.max_cells);
    return QSA_OK;
}

static qsa_status take_records(load_job *job, int32_t capacity) {
    qsa_cache *cache = job->cache;
    const int32_t count = job->head.count, unused = cache->config.max_sequences - cache->alive;
    QSA_REQUIRE(count >= 0, QSA_ERR_DATA, "%s: the snapshot's count is %d", call, (int)count);
    QSA_REQUIRE(count <= capacity, QSA_ERR_CAPACITY, "%s: the snapshot has %d sequences, capacity is %d", call,
                (int)count, (int)capacity);
    QSA_REQUIRE(count <= unused, QSA_ERR_CAPACITY, "%s: the snapshot has %d sequences, %d of %d are not alive", call,
                (int)count, (int)unused, (int)cache->config.max_sequences);
    memset(cache->counts, 0, (size_t)cache->config.max_sequences * sizeof(int32_t));
    for (int32_t k = 0; k < count; k++) {
        int32_t numbers[6];
        qsa_stream_take(&job->stream, numbers, sizeof numbers);
        cache->records[k] =
            (qsa_snapshot_record){numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5]};
    }
    const int right = qsa_stream_take_sum(&job->stream);
    if (job->stream.failed)
        return read_failed(job);
    QSA_REQUIRE(right, QSA_ERR_DATA, "%s: the snapshot's records are damaged", call);
    uint64_t total = QSA_SNAPSHOT_HEAD + 2 * sizeof(uint64_t) + (uint64_t)count * QSA_SNAPSHOT_RECORD;
    int64_t needed = 0;
    for (int32_t k = 0; k < count; k++) {
        const qsa_snapshot_record *r = &cache->records[k];
        QSA_TRY(check_record(job, k));
        QSA_REQUIRE(r->listed >= 0 && r->listed < count && cache->counts[r->listed]++ == 0, QSA_ERR_DATA,
                    "%s: the snapshot's record %d is listed as %d of %d", call, (int)k, (int)r->listed, (int)count);
        total = qsa_snapshot_plus(total, qsa_snapshot_cells(&cache->config, r));
        needed += qsa_pages_for(cache, r->length) - shared_pages(cache, r);
    }
    QSA_REQUIRE(total == job->head.total, QSA_ERR_DATA, "%s: the snapshot has %llu bytes, its records say %llu", call,
                (unsigned long long)job->head.total, (unsigned long long)total);
    QSA_REQUIRE(needed <= cache->free_pages, QSA_ERR_CAPACITY, "%s: the snapshot needs %lld pages, %d of %d are free",
                call, (long long)needed, (int)cache->free_pages, (int)cache->config.pages);
    return QSA_OK;
}

// Where an item's bytes go that have no place here.
static void skip_item(qsa_snapshot_walk *walk, size_t bytes) {
    unsigned char nowhere[256];
    for (; bytes > 0; bytes -= bytes < sizeof nowhere ? bytes : sizeof nowhere)
        qsa_stream_take(walk->stream, nowhere, bytes < sizeof nowhere ? bytes : sizeof nowhere);
}

static void take_item(qsa_snapshot_walk *walk, void *memory, size_t bytes, qsa_snapshot_kind kind) {
    if (!memory) {
        skip_item(walk, bytes);
        return;
    }
    unsigned char row[QSA_SNAPSHOT_ITEM];
    unsigned char *at = walk->cache->device ? row : memory;
    qsa_stream_take(walk->stream, at, bytes);
    if (walk->cache->device)
        qsa_move(walk->cache, memory, at, bytes);
    for (size_t i = 0; kind == QSA_SNAPSHOT_CODES && i < bytes; i++)
        walk->invalid |= at[i] == 0x80;
    for (size_t i = 1; kind == QSA_SNAPSHOT_SCALES && i < bytes; i += 2)
        walk->invalid |= at[i] >= 0x7c;
    for (size_t i = 3; kind == QSA_SNAPSHOT_POSITIONS && i < bytes; i += 4)
        walk->invalid |= at[i] >= 0x80;
}

// The pages of record k's sequence: those of its base, and new ones. The cells of a page that is shared in part only are
// copied; the base has been read by then.
static void place_sequence(qsa_cache *cache, int32_t k, int32_t sequence) {
    const qsa_snapshot_record *r = &cache->records[k];
    int32_t *table = qsa_page_table(cache, sequence);
    qsa_sequence *s = &cache->sequences[sequence];
    const int32_t whole = shared_pages(cache, r), pages = qsa_pages_for(cache, r->length);
    const int32_t *from = qsa_page_table(cache, r->base < 0 ? sequence : cache->last_row[r->base]);
    for (; s->pages < whole; s->pages++) {
        table[s->pages] = from[s->pages];
        cache->pages[table[s->pages]].references++;
    }
    while (s->pages < pages)
        table[s->pages++] = qsa_page_take(cache);
    if (r->shared < r->length && r->shared % cache->config.page_cells)
        qsa_page_copy(cache, from[whole], table[whole], r->shared % cache->config.page_cells);
}

// First cell whose raw index key the sequence keeps here. Where all are kept, those that the snapshot left out because the
// cells are shared came with the base's pages.
static int32_t raw_first_here(const qsa_cache *cache, const qsa_snapshot_record *r) {
    const int32_t kept = r->length - cache->keep;
    if (cache->config.rollback != QSA_ROLLBACK_ALL)
        return r->raw_from > kept ? r->raw_from : kept;
    if (r->base < 0)
        return r->raw_from;
    const int32_t base = cache->sequences[cache->last_row[r->base]].raw_first;
    const int32_t first = base < r->raw_from && r->raw_from <= r->shared ? base : r->raw_from;
    return first > r->raw_first ? first : r->raw_first;
}

static qsa_status take_sequence(load_job *job, int32_t k, int32_t sequence) {
    qsa_cache *cache = job->cache;
    const qsa_snapshot_record *r = &cache->records[k];
    cache->last_row[k] = sequence;
    cache->sequences[sequence] = (qsa_sequence){.length = r->length};
    place_sequence(cache, k, sequence);
    cache->sequences[sequence].raw_first = raw_first_here(cache, r);
    qsa_snapshot_walk walk = {.cache = cache, .sequence = sequence, .record = r, .stream = &job->stream};
    walk.raw_kept = r->length - cache->keep;
    if (cache->config.rollback == QSA_ROLLBACK_ALL)
        walk.raw_kept = 0;
    for (walk.layer = 0; walk.layer < cache->config.layers && !job->stream.failed; walk.layer++) {
        qsa_snapshot_each(&walk, take_item);
        for (int32_t b = r->shared / cache->config.geometry.ratio; b < r->length / cache->config.geometry.ratio; b++)
            qsa_screen_block(cache, qsa_screen_key_ref, walk.layer, sequence, b);
    }
    const int right = qsa_stream_take_sum(&job->stream);
    if (job->stream.failed)
        return read_failed(job);
    QSA_REQUIRE(right, QSA_ERR_DATA, "%s: the cells of the snapshot's sequence %d are damaged", call, (int)r->listed);
    QSA_REQUIRE(!walk.invalid, QSA_ERR_DATA,
                "%s: the snapshot's sequence %d holds a code, scale or position that no cache holds", call,
                (int)r->listed);
    return qsa_device_settle(call, cache);
}

static qsa_status take_cells(load_job *job) {
    qsa_cache *cache = job->cache;
    int32_t k = 0;
    // Numbers ascend as they were listed.
    for (int32_t i = 0, sequence = 0; i < job->head.count; i++, sequence++) {
        while (cache->sequences[sequence].alive)
            sequence++;
        cache->counts[i] = sequence;
    }
    qsa_status status = QSA_OK;
    for (; k < job->head.count && status == QSA_OK; k++)
        status = take_sequence(job, k, cache->counts[cache->records[k].listed]);
    // Last first: the free list is then as it was.
    for (int32_t i = k - 1; i >= 0 && status != QSA_OK; i--) {
        qsa_pages_cut(cache, cache->last_row[i], 0);
        cache->sequences[cache->last_row[i]] = (qsa_sequence){0};
    }
    return status;
}

qsa_status qsa_snapshot_load(qsa_cache *cache, qsa_read read, void *user, int32_t capacity, int32_t *sequences,
                             int32_t *count) {
    QSA_REQUIRE_ARG(cache, "%s: cache is null", call);
    QSA_REQUIRE_ARG(read, "%s: read is null", call);
    QSA_REQUIRE_ARG(capacity >= 0, "%s: capacity is %d, must not be negative", call, (int)capacity);
    QSA_REQUIRE_ARG(sequences || capacity == 0, "%s: sequences is null", call);
    QSA_REQUIRE_ARG(count, "%s: count is null", call);
    load_job job;
    job = (load_job){.cache = cache, .stream = {.read = read, .user = user}};
    qsa_sum_init(&job.stream.sum);
    QSA_TRY(take_head(&job));
    QSA_TRY(take_records(&job, capacity));
    QSA_TRY(take_cells(&job));
    for (int32_t k = 0; k < job.head.count; k++) {
        cache->sequences[cache->last_row[k]].alive = 1;
        sequences[cache->records[k].listed] = cache->last_row[k];
    }
    cache->alive += job.head.count;
    *count = job.head.count;
    qsa_device_tables_changed(cache);
    return QSA_OK;
}
