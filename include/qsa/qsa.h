// SPDX-License-Identifier: Apache-2.0
//
// libqsa: QSA (Qwen Sparse Attention), the attention of the model family qwen4_exp.
//
// An engine brings its own projections. It passes raw projected rows, libqsa norms and rotates them, keeps the cache
// (keys, values, block keys), scores the blocks, selects, attends and merges. What is computed stands in
// docs/semantics.md, why its bits can be trusted in docs/numerics.md, and a guided tour in docs/api.md.
//
// Terms: a *cell* is one token of one sequence in the cache, counted from 0 by rank whatever its position id. A
// *block* is `ratio` consecutive cells. A *row* is one token of a batch. A row that has n cells (itself included) sees
// cells 0..n-1, of which n / ratio blocks are complete and n % ratio cells are its *tail*.
//
// Rules that hold for every function
// - It returns a qsa_status. When that is not QSA_OK, nothing that the caller can see has changed, and
//   qsa_last_error() gives one line that names the argument and the values that disagree.
// - Structs begin with `size`, which the caller sets to sizeof the struct (qsa_context_config_init, qsa_cache_config_init
//   and qsa_geometry_preset do). It must be this version's size exactly.
// - Pointers stay the caller's. Handles (qsa_context, qsa_layer, qsa_cache) are made by *_create and ended by
//   *_destroy, which takes NULL. A context outlives the layers and caches made with it, whose memory hook they use; a
//   call may use any context with any layer and cache.
// - Nothing prints, exits, aborts, or reads the environment or a file. Only *_create of a handle allocates; everything
//   else works in the memory of its handles and in the workspace that the caller passes.
// - Threads: a context may be used by one call at a time. A cache has one writer (prep, forward, write, commit,
//   accept, discard, sequence_*, page_*, snapshot_load); qsa_cache_read, qsa_score, qsa_attend, qsa_sequence_length and
//   qsa_snapshot_save of listed sequences, on sequences that the writer does not touch, and qsa_cache_get_events, may run
//   beside it, score and attend in another context (not qsa_cache_get_info and qsa_sequence_get_info, which read what
//   the writer changes). A sequence is touched by a call that names it or whose batch has rows of it; that two sequences
//   share pages does not matter, since no page is written while another sequence has it, and a fork's source is read
//   only. topk, merge and gate touch no cache. Different contexts are independent of each other.
// - Data passed in may be unaligned, and strides may be any multiple of a byte, negative ones too, in inputs and
//   outputs. The head stride of an array with one head is not used.
// - Data of the types f16 and bf16 are IEEE 754 binary16 and the upper half of binary32, little-endian as all
//   numbers.

#ifndef QSA_QSA_H
#define QSA_QSA_H

#include <stddef.h>
#include <stdint.h>

#define QSA_VERSION_MAJOR  0
#define QSA_VERSION_MINOR  1
#define QSA_VERSION_PATCH  0
#define QSA_VERSION_NUMBER (QSA_VERSION_MAJOR * 10000 + QSA_VERSION_MINOR * 100 + QSA_VERSION_PATCH)

#if defined(_WIN32)
#define QSA_API
#elif defined(__GNUC__)
#define QSA_API __attribute__((visibility("default")))
#else
#define QSA_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

// -------------------------------------------------------------------------------------------------------------------
// Status and version

typedef enum qsa_status {
    QSA_OK = 0,
    QSA_ERR_ARGUMENT = 1,    // an argument is null, out of range, or disagrees with another
    QSA_ERR_MEMORY = 2,      // the allocator hook returned NULL, or a thread could not be started
    QSA_ERR_CAPACITY = 3,    // out of pages, sequences or cells; retry after freeing some
    QSA_ERR_STATE = 4,       // the call does not fit what was called before (e.g. commit with a layer missing)
    QSA_ERR_UNSUPPORTED = 5, // this build or machine has no such backend, class or kernel, or no exact way to do it
    QSA_ERR_IO = 6,          // the caller's read or write function failed
    QSA_ERR_DATA = 7,        // a snapshot is damaged, or of a version that this library does not know
    QSA_ERR_DEVICE = 8,      // the GPU or its driver reported an error; its own words are in the message
} qsa_status;

// Version of the library that is linked, as QSA_VERSION_NUMBER of the header it was built with. Any thread.
QSA_API int qsa_version(void);
// The same as text, "0.1.0". Static storage.
QSA_API const char *qsa_version_string(void);
// A word for a status ("ok", "argument", ...). Static storage; "unknown" for other values.
QSA_API const char *qsa_status_string(qsa_status status);
// The message of the calling thread's last call that did not return QSA_OK, "" before the first. One line without a
// newline, valid until the thread's next failing call.
QSA_API const char *qsa_last_error(void);

// -------------------------------------------------------------------------------------------------------------------
// Types of numbers, and arrays of rows

typedef enum qsa_type {
    QSA_F32 = 1,
    QSA_F16 = 2,
    QSA_BF16 = 3,
    QSA_I8 = 4, // cache rows only: codes with one half scale per 64 dims
} qsa_type;

// A read-only array of `rows` rows of `heads` vectors. Element d of head h of row i lies at data + i * row_stride + h
// * head_stride + d * element size. Strides are bytes.
typedef struct qsa_rows {
    const void *data;
    qsa_type type; // QSA_F32, QSA_F16 or QSA_BF16
    int64_t row_stride;
    int64_t head_stride;
} qsa_rows;

// The same, written to. Rows may not overlap each other, nor anything that the same call reads.
typedef struct qsa_rows_out {
    void *data;
    qsa_type type;
    int64_t row_stride;
    int64_t head_stride;
} qsa_rows_out;

// -------------------------------------------------------------------------------------------------------------------
// Geometry

// Limits of every build. A geometry beyond them is refused.
#define QSA_MAX_HEAD_DIM     1024 // of head_dim and index_dim
#define QSA_MAX_HEADS_PER_KV 64   // heads / kv_heads
#define QSA_MAX_HEADS        4096 // heads and index_heads
#define QSA_MAX_RATIO        256
#define QSA_MAX_BUDGET       16777216 // 2^24 cells
#define QSA_CHUNK            64       // selected cells per record of the attention (docs/numerics.md)
#define QSA_GROUP            64       // dims per scale of an i8 row; the last group may be shorter
#define QSA_ROLLBACK_ALL     (-1)

typedef struct qsa_geometry {
    size_t size;
    int32_t heads;       // query heads H; query head h reads KV head h / (heads / kv_heads)
    int32_t kv_heads;    // G, divides heads
    int32_t head_dim;    // D
    int32_t index_heads; // IH, query heads of the indexer (it has one key head)
    int32_t index_dim;   // ID
    int32_t rotary_dim;  // R: the first R dims of head_dim and of index_dim are rotated; even, <= both
    int32_t sections[3]; // M-RoPE: temporal, height, width; they sum to R / 2 and may be 0
    int32_t ratio;       // r, cells per block
    int32_t budget;      // cells a row selects; a multiple of ratio, <= 2^24
    float eps;           // of every RMS norm; above 0, below 1
    double theta;        // RoPE base; 1..1e30
} qsa_geometry;

// Fills *geometry with a preset: "qwen3.8-flash-next" (24 / 2 heads x 256, indexer 4 x 128, R 64, sections 11 11 10,
// ratio 4, budget 2048, eps 1e-6, theta 1e7). QSA_ERR_ARGUMENT for other names. geometry->size is set too.
QSA_API qsa_status qsa_geometry_preset(const char *name, qsa_geometry *geometry);
// QSA_OK if the geometry can be computed, else QSA_ERR_ARGUMENT and a message that names the field.
QSA_API qsa_status qsa_geometry_check(const qsa_geometry *geometry);

// Which cells a row above the budget attends.
typedef enum qsa_rule {
    QSA_RULE_OFFICIAL = 0, // min(K, n / ratio) best blocks and the tail, K = budget / ratio
    QSA_RULE_CUT = 1,      // exactly min(n, budget + ratio - 1) cells: the tail, then blocks by score,
                           // the last one cut
} qsa_rule;
// Cells that a row with n cells attends under a rule: n while n <= budget + ratio - 1, then budget + n % ratio
// (official) or budget + ratio - 1 (cut). -1 for a null or invalid geometry, n < 0 or an unknown rule.
QSA_API int32_t qsa_selected_cells(const qsa_geometry *geometry, qsa_rule rule, int32_t n);

// -------------------------------------------------------------------------------------------------------------------
// Context: how the work is run

typedef enum qsa_backend {
    QSA_BACKEND_CPU = 0,
    // NVIDIA GPUs of compute capability 8.0 and newer, through the plugin libqsa_cuda.so. Rules: see "Contexts on a GPU".
    // QSA_ERR_UNSUPPORTED, with the reason, where the plugin, a driver or a device is missing.
    QSA_BACKEND_CUDA = 1,
} qsa_backend;

typedef enum qsa_class {
    QSA_CLASS_STRICT = 0, // the reference's bits, whatever the machine, threads, chunks, pages and batch
    // Kernels with an error bound where there are such (attention over an i8 cache), else the strict ones: the usable row
    // of the highest rank of both classes. QSA_ERR_UNSUPPORTED where the build has none or this machine can run none.
    QSA_CLASS_FAST = 1,
} qsa_class;

// Task i of n. Tasks write disjoint memory and may run in any order, on any thread.
typedef void (*qsa_task)(void *arg, int32_t index);
// Runs task(arg, i) once for each i in 0..n-1 and returns when all are done. n >= 1.
typedef void (*qsa_parallel_for)(void *user, int32_t n, qsa_task task, void *arg);

// Memory hook. alloc returns `bytes` (> 0) aligned to `align` (a power of two) or NULL; its contents may be anything.
typedef struct qsa_allocator {
    void *(*alloc)(void *user, size_t bytes, size_t align);
    void (*free)(void *user, void *memory, size_t bytes);
    void *user;
} qsa_allocator;

// One line of information without a newline, e.g. which kernels were picked. Called only inside qsa_context_* calls.
typedef void (*qsa_log)(void *user, const char *line);

typedef struct qsa_context_config {
    size_t size;
    qsa_backend backend;
    qsa_class kernel_class;
    int32_t threads; // 1..1024 threads that work, the caller's included; the pool sleeps between calls
    // Optional: the caller's own parallel-for in place of the pool; then `threads` says how many it
    // uses.
    qsa_parallel_for parallel_for;
    void *parallel_user;
    // Both functions null: aligned_alloc and free; for blocks of 4 MiB and more the system is asked for huge pages (Linux,
    // madvise), which an allocator of the caller's does well to do too (docs/performance.md).
    qsa_allocator allocator;
    qsa_log log; // may be null
    void *log_user;
    int32_t device; // CUDA: the device's number, 0..
    const char
        *plugin; // CUDA: path of the plugin; null: libqsa_cuda.so.0, beside the program or where the system looks
} qsa_context_config;

typedef struct qsa_context qsa_context;

// Sets every field to its default: CPU, strict, one thread, no hooks, device 0. Does nothing for NULL. With the backend CUDA
// the class fast is the usual choice; strict gives the CPU's bits.
QSA_API void qsa_context_config_init(qsa_context_config *config);
// Makes a context. config may be NULL (defaults). *context is set only on success.
QSA_API qsa_status qsa_context_create(const qsa_context_config *config, qsa_context **context);
// Ends the pool's threads and frees. Its layers and caches must be gone.
QSA_API void qsa_context_destroy(qsa_context *context);

// Contexts on a GPU (backend CUDA). The same calls, with these differences:
// - A cache made with such a context has its pages in the device's memory and is used with contexts of that device only, and
//   so are layers. Rows (q, k, v, index_q, index_k, gate, x), outputs, scores, records, selections (ids, count, cut_*),
//   chunks, lse and workspaces are device memory. Sequences, positions, cells, attend and everything in structs by value stay
//   host memory, read before the call returns, and so do the arrays of qsa_cells.
// - Work is queued on the context's stream and calls return at once: qsa_context_wait waits, and only then do errors of
//   the device show for certain. qsa_cache_read, qsa_snapshot_*, qsa_cache_get_events and qsa_memory_copy wait themselves. A
//   cache's own work (commit, accept, fork, read, write, ...) goes to the stream of the context that it was made with and counts
//   as a call of it; whoever uses the cache from contexts with other streams orders them.
// - Ids given to forward or attend are not checked by the host: ids of blocks that the row does not have are left out.
// - A batch has at most 32,768 rows, a cache no screening copy (config.screen), threads is not used.
// - CUDA graphs: run forward once for a batch on a stream of yours, for every layer; then capture the same calls for the same
//   batch. For each later batch of the same shape (rows, attend, strides and addresses; sequences, positions and lengths may
//   differ) call qsa_replay, launch the graph on the context's stream, then qsa_cache_commit. Nothing in the graph depends
//   on a length.

// The stream that work is queued on from now on: a cudaStream_t of the context's device, or NULL, the default stream. The
// caller's; it outlives its use here. QSA_ERR_UNSUPPORTED for a context of the CPU.
QSA_API qsa_status qsa_context_set_stream(qsa_context *context, void *stream);
// Waits until everything queued on the context's stream is done. QSA_ERR_DEVICE if anything of it failed. At once on the CPU.
QSA_API qsa_status qsa_context_wait(qsa_context *context);
// "cpu", or the device's name and compute capability; the context's.
QSA_API const char *qsa_context_device(const qsa_context *context);
// Memory where the context's rows live: the device's, or through the allocator hook, aligned to 256. bytes > 0.
// QSA_ERR_MEMORY if there is none. free takes NULL, and the same number of bytes.
QSA_API qsa_status qsa_memory_alloc(qsa_context *context, size_t bytes, void **memory);
QSA_API void qsa_memory_free(qsa_context *context, void *memory, size_t bytes);
// Copies in either direction, after everything queued before, and waits until it is done.
QSA_API qsa_status qsa_memory_copy(qsa_context *context, void *to, const void *from, size_t bytes);

// A kernel of the library, as listed in src/kernels/kernels.tbl.
typedef struct qsa_kernel_info {
    size_t size;
    const char *stage;  // "prep", "score", "topk", "attend", "merge"
    const char *kernel; // e.g. "norm_rope"
    const char *where;  // "ref", "fma", "avx2", ...
    const char *name;   // the full stem, e.g. "norm_rope_ref"
    int32_t rank;       // the usable row of the highest rank is picked
    qsa_class kernel_class;
    int32_t usable;     // 1 if this machine can run it
    const char *reason; // why not, "" if usable
} qsa_kernel_info;
// Number of rows in the table of this build.
QSA_API int32_t qsa_kernel_count(void);
// Row i of the table; strings are static. Sets all fields but size, which the caller sets.
QSA_API qsa_status qsa_kernel_at(int32_t i, qsa_kernel_info *info);
// The CPU features the dispatch looks at that this machine has, e.g. "avx2 fma f16c avx512f"; static storage.
QSA_API const char *qsa_cpu_features(void);
// Forces kernels of a stage. name is a `where` (applies to every kernel of the stage that has such a row; at least one
// must) or a full stem. QSA_ERR_ARGUMENT with the list of the stage's names for an unknown one, QSA_ERR_UNSUPPORTED
// for one that this machine cannot run. Changes nothing on failure.
QSA_API qsa_status qsa_context_set_kernel(qsa_context *context, const char *stage, const char *name);
// The stem of the row that a kernel ("norm_rope", "score", ...) uses in this context; NULL for an unknown kernel.
QSA_API const char *qsa_context_kernel(const qsa_context *context, const char *kernel);

// -------------------------------------------------------------------------------------------------------------------
// Layer: geometry and the four norm weights

typedef enum qsa_norm_form {
    QSA_NORM_ZERO_CENTRED = 0, // the factor is 1 + w: checkpoints
    QSA_NORM_FACTOR = 1,       // w is the factor itself: GGUF files
} qsa_norm_form;

typedef struct qsa_layer_config {
    size_t size;
    qsa_geometry geometry;
    qsa_norm_form norm_form;
    qsa_type norm_type;       // f32, f16 or bf16, of all four
    const void *q_norm;       // [head_dim]
    const void *k_norm;       // [head_dim]
    const void *index_q_norm; // [index_dim]
    const void *index_k_norm; // [index_dim]
} qsa_layer_config;

typedef struct qsa_layer qsa_layer;

// Copies the weights (the caller's may go afterwards) and computes the rotary frequencies f32(1 / f32(theta ^ f32(2 i
// / R))), two roundings as the model does. *layer is set only on success.
QSA_API qsa_status qsa_layer_create(qsa_context *context, const qsa_layer_config *config, qsa_layer **layer);
QSA_API void qsa_layer_destroy(qsa_layer *layer);

// -------------------------------------------------------------------------------------------------------------------
// Cache: pages of cells for several sequences over several layers

typedef struct qsa_cache_config {
    size_t size;
    qsa_geometry geometry;   // of every layer in it
    int32_t layers;          // L >= 1
    qsa_type kv_type;        // f32, f16, bf16 or i8: keys and values
    qsa_type block_key_type; // f32, f16 or bf16
    int32_t page_cells;      // cells per page, a multiple of ratio
    int32_t pages;           // pages in the pool; a page holds its cells for all layers
    int32_t max_sequences;   // sequences alive at once
    int32_t max_cells;       // longest sequence
    int32_t rollback;        // raw index keys of the last rollback + ratio - 1 cells are kept (the open block needs
                             // ratio - 1 of them, taking cells back the rest); QSA_ROLLBACK_ALL keeps all
    int32_t screen;          // 1: a copy of the block keys in 8 bits, with which forward selects; 0: none
} qsa_cache_config;

typedef struct qsa_cache qsa_cache;

// Limits: pages * page_cells * kv_heads <= 2^31 - 1; max_cells and rollback <= 2^31 - 1 - QSA_MAX_RATIO. pages is one
// pool for all sequences: more sequences need more pages.
//
// screen: forward bounds the score of every block from the copy and computes only those scores that may be among the best
// (docs/numerics.md, screened scoring): the selection, and so every output bit, is the same as without, and of the block
// keys a fraction is read. It takes index_dim bytes (rounded up to 32) and two floats per block and layer in the cache, and
// 4 bytes per block of max_cells, for each row in flight, in forward's workspace. Rows below 4 x budget cells are scored as
// without, and where most blocks have equal scores, all of them are computed. The stage calls do not use the copy.
//
// Defaults: the geometry given, 1 layer, i8 with f32 block keys, 64 cells a page (the next multiple of ratio), 1
// sequence, rollback 64, no screening, room for `cells` cells in one sequence. Leaves config->pages 0 if geometry is
// null or cells < 0.
QSA_API void qsa_cache_config_init(qsa_cache_config *config, const qsa_geometry *geometry, int32_t cells);
// Bytes that qsa_cache_create takes from the allocator, exactly. Checks the config as create does.
QSA_API qsa_status qsa_cache_size(const qsa_cache_config *config, size_t *bytes);
// The same bytes by what they hold. Checks the config as create does.
typedef struct qsa_cache_parts {
    size_t size;
    size_t bytes;  // the sum of the others
    size_t keys;   // K and V, codes or numbers
    size_t scales; // of K and V, i8 only
    size_t block_keys;
    size_t screen;     // screening's copy of the block keys
    size_t index_keys; // raw index keys and their positions
    size_t tables;     // page tables, reference counts, sequences, the handle itself
} qsa_cache_parts;
QSA_API qsa_status qsa_cache_get_parts(const qsa_cache_config *config, qsa_cache_parts *parts);
// Takes all memory at once; it is not cleared, and no result ever depends on what unwritten cells hold.
QSA_API qsa_status qsa_cache_create(qsa_context *context, const qsa_cache_config *config, qsa_cache **cache);
QSA_API void qsa_cache_destroy(qsa_cache *cache);

// What went into the cache changed: counted over all layers and sequences since creation or the last reset, block keys
// included (a NaN in a raw index key counts again in its block's key). A row that is written twice, or discarded,
// counts each time it is written.
typedef struct qsa_cache_events {
    size_t size;
    uint64_t nan;       // NaN values met: stored as code 0 (i8) or as 7fc00000's form (others)
    uint64_t infinite;  // infinities met: clamped to +-127 codes (i8) or stored as they are (others)
    uint64_t saturated; // finite values that would round to infinity: clamped to the largest finite one
} qsa_cache_events;
QSA_API qsa_status qsa_cache_get_events(const qsa_cache *cache, qsa_cache_events *events);
QSA_API qsa_status qsa_cache_reset_events(qsa_cache *cache);

typedef struct qsa_cache_info {
    size_t size;
    size_t bytes;  // as qsa_cache_size
    int32_t pages; // in the pool
    int32_t free_pages;
    int32_t sequences;    // alive
    int32_t pending_rows; // rows written by the batch that is not committed yet, 0 if none
    int32_t held_pages;   // that qsa_page_hold keeps, in use by sequences or not
} qsa_cache_info;
QSA_API qsa_status qsa_cache_get_info(const qsa_cache *cache, qsa_cache_info *info);

// A sequence is a number that stays valid until it is destroyed; numbers are reused. A new one is empty.
// QSA_ERR_CAPACITY when max_sequences are alive.
QSA_API qsa_status qsa_sequence_create(qsa_cache *cache, int32_t *sequence);
// Gives the pages back that no other sequence has and nothing holds. QSA_ERR_STATE while a batch is pending that has rows
// of this sequence.
QSA_API qsa_status qsa_sequence_destroy(qsa_cache *cache, int32_t sequence);
// Empties it, keeps the number. The same states as destroy.
QSA_API qsa_status qsa_sequence_reset(qsa_cache *cache, int32_t sequence);
// Committed cells.
QSA_API qsa_status qsa_sequence_length(const qsa_cache *cache, int32_t sequence, int32_t *length);

typedef struct qsa_sequence_info {
    size_t size;
    int32_t length;          // committed cells
    int32_t pending_rows;    // rows behind them
    int32_t pages;           // in its page table, those of pending rows included
    int32_t shared_pages;    // of these, pages that another sequence has too, or that are held
    int32_t index_keys_from; // raw index keys of cells index_keys_from..length-1 are kept
} qsa_sequence_info;
// For the writer, like qsa_cache_get_info.
QSA_API qsa_status qsa_sequence_get_info(const qsa_cache *cache, int32_t sequence, qsa_sequence_info *info);

// A new sequence that holds the same cells. It takes no page: both have the same pages, and the one that first writes into
// the last, unfilled page gets a copy of that page (one page more for each sequence of a batch whose last page is not full
// and shared; counted before anything is written). The kept raw index keys are copied. From then on the two are
// independent, also of each other's end. QSA_ERR_CAPACITY when max_sequences are alive, QSA_ERR_STATE while `source` has
// pending rows. *sequence is set only on success.
QSA_API qsa_status qsa_sequence_fork(qsa_cache *cache, int32_t source, int32_t *sequence);

// Shortens a sequence to its first `cells` cells (0..length) and gives pages back. What follows is bit for bit what would
// follow in a sequence that never was longer. That needs the raw index keys of the block that becomes open again: any
// number is exact while cells - cells % ratio >= index_keys_from, and so is any multiple of ratio; else QSA_ERR_STATE, and
// nothing has changed. index_keys_from reaches at least `rollback` cells back from the longest that the sequence has been,
// pending rows included, but not into cells that were attached, or written without index_keys. Raw index keys are not
// made again: after a truncation fewer than rollback + ratio - 1 are kept until as many rows have been appended.
// QSA_ERR_STATE while the sequence has pending rows.
QSA_API qsa_status qsa_sequence_truncate(qsa_cache *cache, int32_t sequence, int32_t cells);

// Adds `delta` to the positions of cells first..length-1, where that can be done exactly: if delta is 0 or there are no such
// cells. Anything else is QSA_ERR_UNSUPPORTED with the reason: keys and block keys are stored rotated at their positions and
// rounded to the cache's type, so turning them further gives other bits than a sequence that was appended at the new
// positions. An engine that shifts its context appends the cells again.
QSA_API qsa_status qsa_sequence_shift(qsa_cache *cache, int32_t sequence, int32_t first, int32_t delta);

// Pending rows. forward or prep of a layer writes the rows of a batch behind each sequence's length. All layers get
// the same batch, each once or again (the last write counts; the number of rows of every sequence is checked); then
// commit moves the lengths. Until then the sequences are as before, and discard takes the rows back (pages too: a page that
// was copied because it was shared is shared again). commit: QSA_ERR_STATE if a layer has not been written; with nothing
// pending it does nothing.
QSA_API qsa_status qsa_cache_commit(qsa_cache *cache);
QSA_API qsa_status qsa_cache_discard(qsa_cache *cache);

// Commits a part of the pending batch: of sequences[i] (count of them, each at most once) the first rows[i] pending rows
// (0..pending), of sequences that are not listed all. The other rows are taken back, as if they had never been there: the
// accepted part of a draft after its verification. States as commit; also QSA_ERR_STATE if the new length is no multiple
// of ratio and the raw index keys of its open block are not kept, which happens only if more than `rollback` rows of one
// sequence are taken back, or after qsa_cache_write without index_keys. Nothing has changed then.
QSA_API qsa_status qsa_cache_accept(qsa_cache *cache, int32_t count, const int32_t *sequences, const int32_t *rows);

// Pages as units, for an engine's prefix cache. A page that is held or shared never changes. `hold` keeps page
// `index` of a sequence (its cells index * page_cells .. (index + 1) * page_cells - 1, all committed) alive beyond the
// sequence and gives its number, under which the engine files it, e.g. beside a hash of all tokens and positions up to its
// end. `attach` appends held pages to a sequence whose length is a multiple of page_cells: the cells are there at once,
// committed, for every layer, and shared. It refuses pages that held other cell numbers than they would become
// (QSA_ERR_UNSUPPORTED: that would be a position shift); that the tokens before are the same is the engine's part.
// QSA_ERR_STATE while the sequence has pending rows, QSA_ERR_CAPACITY above max_cells. Raw index keys come along only with
// QSA_ROLLBACK_ALL; otherwise the sequence can be truncated into attached cells at multiples of ratio only.
// A page may be held several times; each hold is ended by one release, which frees the page when no sequence has it.
QSA_API qsa_status qsa_page_hold(qsa_cache *cache, int32_t sequence, int32_t index, int32_t *page);
QSA_API qsa_status qsa_page_release(qsa_cache *cache, int32_t page);
QSA_API qsa_status qsa_sequence_attach(qsa_cache *cache, int32_t sequence, int32_t count, const int32_t *pages);

// Cells in stored form, for prefix caches, transfer between machines and tests. A null array is skipped. count cells
// from `first`; groups = ceil(head_dim / 64); element sizes follow the cache's types, and so does the alignment that
// these arrays need.
typedef struct qsa_cells {
    size_t size;
    void *k; // [count][kv_heads][head_dim] codes (i8) or numbers
    void *v;
    uint16_t *k_scales; // [count][kv_heads][groups] halves; i8 only, null otherwise
    uint16_t *v_scales;
    void *block_keys;   // [blocks][index_dim] of the blocks first / ratio .. (first + count) / ratio - 1, those
                        // whose last cell is among the count cells
    float *index_keys;  // [count][index_dim] raw; read: QSA_ERR_STATE unless those of all count cells are kept;
                        // write: see below
    int32_t *positions; // [count][3], as index_keys
} qsa_cells;

// Copies committed cells first..first+count-1 of a layer out. Changes nothing.
QSA_API qsa_status qsa_cache_read(const qsa_cache *cache, int32_t layer, int32_t sequence, int32_t first, int32_t count,
                                  qsa_cells *cells);
// Writes `count` cells behind the length of one sequence as a pending batch, to be committed as one of forward. k and v
// are required, block_keys if a block is completed, scales for i8. index_keys and positions (both or neither, of all
// count cells) are required when the new length is no multiple of ratio, since the open block's key is still to be made
// of them; without them no raw index key before the new length can be read any more. Codes of -128 and negative, NaN or
// infinite scales are refused: no kernel ever makes them. Screening's copy of the block keys is made here.
QSA_API qsa_status qsa_cache_write(qsa_cache *cache, int32_t layer, int32_t sequence, int32_t count,
                                   const qsa_cells *cells);

// Snapshots: committed cells of sequences as a stream of bytes, versioned and checksummed. The library opens no file; it
// passes the stream through the caller's function, in pieces of at most 8 KiB and in order. A function returns 0 when all
// `bytes` bytes were taken or given, anything else ends the call with QSA_ERR_IO. It may not call the library with the
// same cache. docs/api.md shows how a file is replaced so that a crash leaves the old or the new one.
typedef int (*qsa_write)(void *user, const void *data, size_t bytes);
typedef int (*qsa_read)(void *user, void *data, size_t bytes);

// Writes `count` sequences, or all that are alive if sequences is NULL (count is not used then; that call belongs to the
// writer, one with a list may run beside it). Pending rows are left out. Pages that sequences share from their first on are
// written once. Held pages that no sequence has are not written. An error leaves an unusable stream behind.
QSA_API qsa_status qsa_snapshot_save(const qsa_cache *cache, int32_t count, const int32_t *sequences, qsa_write write,
                                     void *user);
// Makes new sequences of a snapshot's, beside those that are there: sequences[i] becomes the number of the i-th that was
// listed (or alive, ascending), *count how many there are. Geometry, layers and types of keys, values and block keys must
// be the snapshot's (QSA_ERR_ARGUMENT); page_cells, pages, rollback, screen, max_* and the machine may differ, the bits
// do not. Sharing is kept as far as the pages allow. Fewer raw index keys are kept where the cache has a smaller rollback.
// QSA_ERR_CAPACITY if `capacity`, free sequences, pages or max_cells do not suffice, QSA_ERR_IO if `read` fails (a stream
// that ends early), QSA_ERR_DATA if anything is damaged or the version is newer. No sequence and no page has
// changed then. Exactly the snapshot's bytes are read. No event is counted.
QSA_API qsa_status qsa_snapshot_load(qsa_cache *cache, qsa_read read, void *user, int32_t capacity, int32_t *sequences,
                                     int32_t *count);

// -------------------------------------------------------------------------------------------------------------------
// Batches, selections, and the one call that does it all

// Rows of any number of sequences in any order; the rows of one sequence come in its order. Raw projections, before
// norm and RoPE: element types and strides are each array's own. rows = 0 is allowed (no array is read then).
typedef struct qsa_batch {
    size_t size;
    int32_t rows;              // T
    const int32_t *sequences;  // [T]
    const int32_t *positions;  // [T] or [T][3] (temporal, height, width), >= 0
    int32_t positions_per_row; // 1 or 3
    qsa_rows q;                // [T][heads][head_dim]
    qsa_rows k;                // [T][kv_heads][head_dim]
    qsa_rows v;                // [T][kv_heads][head_dim]
    qsa_rows index_q;          // [T][index_heads][index_dim]
    qsa_rows index_k;          // [T][1][index_dim]
    qsa_rows gate;             // [T][heads][head_dim] raw gates; data NULL: no gate
    // [T], 0: the row is appended but does not attend, its outputs are left alone; NULL: all attend. For the last layer
    // of a model, where only some rows are read on.
    const uint8_t *attend;
} qsa_batch;

// Which blocks each row attends, by row of the batch or row set; entries of rows that do not attend are left alone. ids
// ascend; tail cells follow from n and are not listed. A row with n <= budget + ratio - 1 cells attends every cell: its
// ids are written as 0..n/ratio-1 but never read.
typedef struct qsa_selection {
    size_t size;
    int32_t *ids;       // [rows][stride]
    int64_t stride;     // elements; >= qsa_selection_stride where ids are written, >= count where they are read
    int32_t *count;     // [rows] ids of the row
    int32_t *cut_index; // [rows] index in ids of the block of which only the first cut_cells cells
                        // count, -1: none.
    int32_t *cut_cells; // [rows] Both may be null with QSA_RULE_OFFICIAL.
} qsa_selection;
// Ids that a row can have: budget / ratio, one more under QSA_RULE_CUT. -1 for an invalid geometry or rule.
QSA_API int32_t qsa_selection_stride(const qsa_geometry *geometry, qsa_rule rule);

typedef struct qsa_forward_options {
    size_t size;
    qsa_rule rule;
    // Not null: attend these blocks instead of scoring (a draft that reuses a selection). Checked: ids ascend, are
    // complete blocks of the row, and make at most budget + ratio - 1 cells with the tail. May be `give` itself.
    const qsa_selection *use;
    qsa_selection *give; // not null: the selection of every attending row is written here
    float *lse;          // not null: [T][heads] log of the softmax's denominator (natural log, with the
                         // maximum)
} qsa_forward_options;

// Appends the batch to its sequences (pending) and attends: norm, RoPE, cache write, block keys, scores, selection,
// attention over the selected cells, merge, gate. out gets [T][heads][head_dim] of the rows that attend: o, or o *
// sigmoid(gate) with a gate. options may be NULL (official rule, nothing in or out). layer_index is the layer's place
// in the cache. workspace: qsa_workspace_size(QSA_STAGE_FORWARD) bytes, any alignment. Errors: QSA_ERR_ARGUMENT
// (shapes, types, geometry of layer and cache differ, workspace too small), QSA_ERR_CAPACITY (pages, max_cells),
// QSA_ERR_STATE (another batch is pending). A batch of 0 rows does nothing and counts for no layer. The result of a
// row depends on its own sequence alone; forward = prep, score, topk, attend, merge, bit for bit.
QSA_API qsa_status qsa_forward(qsa_context *context, const qsa_layer *layer, qsa_cache *cache, int32_t layer_index,
                               const qsa_batch *batch, const qsa_forward_options *options, const qsa_rows_out *out,
                               void *workspace, size_t workspace_bytes);

// CUDA: makes the next replay of a captured graph (see "Contexts on a GPU") append `batch`: checks its sequences, positions and
// room, takes pages, and brings what the graph reads to the device. The batch counts as given to every layer; commit it after
// the launch. Only rows, sequences, positions, positions_per_row and attend are read. QSA_ERR_STATE if a batch is pending,
// QSA_ERR_CAPACITY as forward, QSA_ERR_UNSUPPORTED on the CPU.
QSA_API qsa_status qsa_replay(qsa_context *context, qsa_cache *cache, const qsa_batch *batch);

typedef enum qsa_stage {
    QSA_STAGE_FORWARD = 0,
    QSA_STAGE_PREP = 1,
    QSA_STAGE_SCORE = 2,
    QSA_STAGE_TOPK = 3,
    QSA_STAGE_ATTEND = 4,
    QSA_STAGE_MERGE = 5,
} qsa_stage;
// Bytes of workspace that a call of this stage takes for up to `rows` rows: for forward 12 bytes a row, and one set of
// scores, records and lists for each of the at most 2 x threads rows that are in flight at once (0.85 MB plus 4 bytes per
// block of max_cells each at the preset, 8 with screening; the formula stands in docs/api.md).
QSA_API qsa_status qsa_workspace_size(const qsa_context *context, const qsa_cache *cache, qsa_stage stage, int32_t rows,
                                      size_t *bytes);

// -------------------------------------------------------------------------------------------------------------------
// The stages as separate calls, for engines that fuse or look inside

// Rows and how much of their sequence they see. Row i sees cells 0..cells[i]-1 of sequences[i]; pending cells count.
typedef struct qsa_row_set {
    size_t size;
    int32_t rows;
    const int32_t *sequences; // [rows]
    const int32_t *cells;     // [rows], 0..length + pending
} qsa_row_set;

// What prep computes per row, before anything is quantized. A null array is skipped; all are float32, contiguous. q and
// index_q of rows that do not attend are left alone.
typedef struct qsa_prep_out {
    size_t size;
    float *q;       // [T][heads][head_dim] normed and rotated
    float *index_q; // [T][index_heads][index_dim] normed and rotated
    float *k;       // [T][kv_heads][head_dim] normed and rotated
    float *v;       // [T][kv_heads][head_dim]
    int32_t *cells; // [T] cells that the row sees, itself included
} qsa_prep_out;

// Stage 1: append. Norms and rotates the queries of the rows that attend, and of every row writes key, value and the
// block keys that the batch completes into the pending cells. States and errors as forward.
QSA_API qsa_status qsa_prep(qsa_context *context, const qsa_layer *layer, qsa_cache *cache, int32_t layer_index,
                            const qsa_batch *batch, const qsa_prep_out *out, void *workspace, size_t workspace_bytes);

// Stage 2: scores[i * stride + b] of the complete blocks b < cells / ratio of each row, for every row also below the
// budget. index_q: [rows][index_heads][index_dim] from prep. stride in floats.
QSA_API qsa_status qsa_score(qsa_context *context, const qsa_cache *cache, int32_t layer_index, const qsa_row_set *rows,
                             const float *index_q, float *scores, int64_t stride, void *workspace,
                             size_t workspace_bytes);

// Stage 3: the best blocks of each row, total order (higher score, then lower block; -0 = +0; NaN below every number).
// cells: [rows]. Rows below the budget do not read scores, which may be NULL if all are.
QSA_API qsa_status qsa_topk(qsa_context *context, const qsa_geometry *geometry, qsa_rule rule, int32_t rows,
                            const int32_t *cells, const float *scores, int64_t stride, qsa_selection *selection);

// Records of the attention: [rows][chunks][heads][2 + head_dim] floats. A record covers 64 selected cells, in ascending
// order of cells: the maximum m of the logits, the sum l of exp(s - m), and the output sum exp(s - m) v
// (docs/numerics.md). A row has ceil(selected cells / 64) of them; qsa_max_chunks gives the most for any selection, -1 if invalid.
QSA_API int32_t qsa_max_chunks(const qsa_geometry *geometry);

// Stage 4: q: [rows][heads][head_dim] from prep. selection NULL is allowed when every row is below the budget. Row i's
// records start at records + i * row_stride floats; row_stride is at least qsa_max_chunks * heads * (2 + head_dim), less
// only for rows below the budget. chunks[i] is set to the number of records written.
QSA_API qsa_status qsa_attend(qsa_context *context, const qsa_cache *cache, int32_t layer_index,
                              const qsa_row_set *rows, const float *q, const qsa_selection *selection, float *records,
                              int64_t row_stride, int32_t *chunks, void *workspace, size_t workspace_bytes);

// Stage 5: out = sum_k e_k O_k / sum_k e_k l_k, times sigmoid(gate) if gate is given (gate NULL or gate->data NULL:
// none). Records with l = 0 are empty and merge to nothing; a row of none gives zeros and lse -inf. lse may be NULL.
QSA_API qsa_status qsa_merge(qsa_context *context, const qsa_geometry *geometry, int32_t rows, const float *records,
                             int64_t row_stride, const int32_t *chunks, const qsa_rows *gate, const qsa_rows_out *out,
                             float *lse);

// The gate alone: out = x * sigmoid(gate), the same bits as merge with a gate. x, gate, out: [rows][heads][head_dim].
// x may be out itself if both are float32.
QSA_API qsa_status qsa_gate(qsa_context *context, const qsa_geometry *geometry, int32_t rows, const qsa_rows *x,
                            const qsa_rows *gate, const qsa_rows_out *out);

#ifdef __cplusplus
}
#endif

#endif
