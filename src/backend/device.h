// SPDX-License-Identifier: Apache-2.0
//
// What a backend with memory of its own does for the library. It is a shared object of its own, found when a context asks for
// it, so that libqsa needs neither its toolkit nor its driver. Every function may be called from any thread, leaves the caller's
// current device as it was, and returns 0 or an error number that `error` puts into words.

#ifndef QSA_BACKEND_DEVICE_H
#define QSA_BACKEND_DEVICE_H

#include "kernels/cuda_args.h"
#include "qsa/qsa.h"

// Raised whenever anything below, or a struct of cuda_args.h, changes.
#define QSA_DEVICE_ABI    1
#define QSA_DEVICE_SYMBOL "qsa_device_backend"

enum {
    QSA_DEVICE_OUT_OF_MEMORY = 2,   // error number of alloc (cudaErrorMemoryAllocation)
    QSA_DEVICE_TABLES_FAILED = 999, // cudaErrorUnknown: page tables did not get there; no other number of it is left
    QSA_DEVICE_ROWS = 32768,        // most rows of a batch
};

// Roofs of a device, and the work of one round.
enum {
    QSA_ROOF_COPY = 0,   // the first half of the memory to the second: bytes read and written
    QSA_ROOF_GATHER = 1, // a KiB at a time out of the first 32 MiB, which L2 holds
    QSA_ROOF_TENSOR = 2, // mma.sync m16n8k16 of halves with float sums, in registers
    QSA_ROOFS = 3,
    QSA_ROOF_GATHER_BLOCKS = 1056, // of 8 warps
    QSA_ROOF_GATHER_PIECES = 64,   // KiB that a warp reads
    QSA_ROOF_TENSOR_BLOCKS = 1056, // of 8 warps
    QSA_ROOF_TENSOR_ROUNDS = 512,  // of 8 products of 4096 operations
};

typedef struct qsa_device_ops {
    uint32_t abi;
    // Sums of the sizes of all argument structs: a plugin of another build is refused.
    uint32_t layout;
    // Opens device number `device`. On failure returns non-zero and writes why.
    int (*open)(int32_t device, void **handle, char *text, size_t capacity);
    void (*close)(void *handle);
    // "NVIDIA H200, compute capability 9.0"; belongs to the handle.
    const char *(*name)(void *handle);
    const char *(*error)(int number); // static storage

    int (*alloc)(void *handle, size_t bytes, void **memory);
    void (*free)(void *handle, void *memory); // after everything that is queued on the device
    // In the order of the stream. Host memory may be reused when these return, and is filled after `wait`.
    int (*copy)(void *handle, void *to, const void *from, size_t bytes, void *stream);
    // `rows` pieces of `bytes` bytes.
    int (*copy_rows)(void *handle, void *to, size_t to_stride, const void *from, size_t from_stride, size_t bytes,
                     size_t rows, void *stream);
    int (*fill)(void *handle, void *to, int byte, size_t bytes, void *stream);
    int (*wait)(void *handle, void *stream);
    // *capturing: 1 while the stream is being captured into a graph.
    int (*capturing)(void *handle, void *stream, int *capturing);
    // Streams, captured graphs and events, for measurements and tests: an engine has its own.
    int (*stream_create)(void *handle, void **stream);
    void (*stream_destroy)(void *handle, void *stream);
    int (*capture_begin)(void *handle, void *stream);
    int (*capture_end)(void *handle, void *stream, void **graph);
    int (*graph_launch)(void *handle, void *graph, void *stream);
    void (*graph_destroy)(void *handle, void *graph);
    int (*event_create)(void *handle, void **event);
    void (*event_destroy)(void *handle, void *event);
    int (*event_record)(void *handle, void *event, void *stream);
    // Milliseconds between two recorded events; waits for the second.
    int (*event_between)(void *handle, void *first, void *second, float *ms);
    // QSA_ROOF_* `rounds` times; memory of 2^28 bytes or more.
    int (*roof)(void *handle, int which, void *memory, size_t bytes, int rounds, void *stream);
    // Small host arrays to the device without waiting for it: fill the memory that stage gives (bytes <= the size of
    // QSA_DEVICE_ROWS rows; NULL on error), then send. One at a time.
    void *(*stage)(void *handle, size_t bytes);
    int (*send)(void *handle, void *to, size_t bytes, void *stream);

    // Strict kernels: the reference's bits.
    int (*prep)(void *handle, const qsa_cuda_prep_args *args, void *stream);
    int (*score)(void *handle, const qsa_cuda_score_args *args, void *stream);
    int (*topk)(void *handle, const qsa_cuda_topk_args *args, void *stream);
    int (*attend)(void *handle, const qsa_cuda_attend_args *args, void *stream);
    int (*merge)(void *handle, const qsa_cuda_merge_args *args, void *stream);
    int (*gate)(void *handle, const qsa_cuda_gate_args *args, void *stream);
    int (*commit)(void *handle, const qsa_cuda_commit_args *args, void *stream);
    // Fast kernels. `*_row` names the row that serves a cache, NULL where none does; then the strict ones are used.
    const char *(*choose_row)(void *handle, const qsa_cuda_cache *cache);
    size_t (*choose_scratch)(void *handle, const qsa_cuda_cache *cache, int32_t count, int32_t most_cells);
    int (*choose)(void *handle, const qsa_cuda_choose_args *args, void *stream);
    const char *(*attention_row)(void *handle, const qsa_cuda_cache *cache);
    size_t (*attention_scratch)(void *handle, const qsa_cuda_cache *cache, int32_t count);
    int (*attention)(void *handle, const qsa_cuda_attention_args *args, void *stream);
} qsa_device_ops;

// What the plugin exports under QSA_DEVICE_SYMBOL.
typedef const qsa_device_ops *(*qsa_device_entry)(void);

#define QSA_DEVICE_LAYOUT                                                                                              \
    (uint32_t)(sizeof(qsa_device_ops) + sizeof(qsa_cuda_row) + sizeof(qsa_cuda_prep_args) +                            \
               sizeof(qsa_cuda_score_args) + sizeof(qsa_cuda_topk_args) + sizeof(qsa_cuda_choose_args) +               \
               sizeof(qsa_cuda_attend_args) + sizeof(qsa_cuda_merge_args) + sizeof(qsa_cuda_gate_args) +               \
               sizeof(qsa_cuda_attention_args) + sizeof(qsa_cuda_commit_args))

// Loads the plugin: the named file, or with NULL the one beside the program or library or in the system's folders. NULL when
// it cannot be used; then *why is one line that says why. It stays loaded.
const qsa_device_ops *qsa_device_load(const char *plugin, char *why, size_t capacity);

#endif
