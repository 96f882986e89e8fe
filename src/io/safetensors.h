// SPDX-License-Identifier: Apache-2.0
//
// Safetensors files: a reader that validates everything before it hands out a pointer, and a writer
// that replaces a file as a whole. Used by the tool, the lab and the tests; libqsa itself does not
// know this format.
//
// A file is an 8-byte little-endian header size, a JSON header and the data. The reader refuses
// what the format forbids (holes, overlaps, duplicate keys, wrong sizes) and a few things it allows
// but nobody needs: unknown keys in a tensor's entry, more than ST_MAX_DIMS dimensions, names with
// control characters or longer than ST_MAX_NAME bytes.
//
// Nothing here prints, exits or aborts. Where a function takes `err` and `err_size`, a failure
// leaves ONE line there: no newline at its end, no path in front; unprintable bytes of names are
// escaped. `err` may be NULL when `err_size` is 0. Different st_file and st_writer objects may be
// used by different threads; one st_file may be read by many.
#ifndef QSA_IO_SAFETENSORS_H
#define QSA_IO_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    ST_F64,
    ST_F32,
    ST_F16,
    ST_BF16,
    ST_F8_E4M3,
    ST_F8_E5M2,
    ST_I64,
    ST_I32,
    ST_I16,
    ST_I8,
    ST_U64,
    ST_U32,
    ST_U16,
    ST_U8,
    ST_BOOL
} st_dtype;

#define ST_DTYPES   15   // how many values st_dtype has
#define ST_MAX_DIMS 8    // most dimensions of a tensor
#define ST_MAX_NAME 1024 // most bytes of a tensor's name, without the NUL
#define ST_ERR_SIZE 1024 // a buffer of this size holds every message whole

typedef struct {
    const char *name; // UTF-8, no control characters; owned by the st_file
    st_dtype dtype;
    int n_dims;                 // 0: a scalar, count 1
    int64_t shape[ST_MAX_DIMS]; // row-major, outermost first; entries past n_dims are 0
    int64_t count;              // product of shape; 0 when any dimension is 0
    size_t bytes;               // count * st_dtype_size(dtype)
    const unsigned char *data;  // little-endian; may be unaligned: read by memcpy; never NULL
} st_tensor;

typedef struct st_file st_file;

// Opens a regular file, memory-mapped and read-only; only the header is read now. NULL and a line
// in `err` on failure. The mapping shows the file as it is on disk: if somebody truncates it while
// it is open, reading `data` past the new end raises SIGBUS, and a rewrite in place shows through.
// st_writer_save never does either: it renames a new file over the old name, and an open st_file
// keeps the old one.
st_file *st_open(const char *path, char *err, size_t err_size);

// The same for bytes in memory. They are borrowed and must stay unchanged until st_close.
st_file *st_open_memory(const void *bytes, size_t size, char *err, size_t err_size);

// Frees the file and unmaps its data: every st_tensor and string that came from it is gone. NULL is
// allowed.
void st_close(st_file *file);

// Tensors, sorted by name (strcmp order). st_tensor_at gives NULL when `i` is out of range, st_find
// when there is none.
int64_t st_tensor_count(const st_file *file);
const st_tensor *st_tensor_at(const st_file *file, int64_t i);
const st_tensor *st_find(const st_file *file, const char *name);

// The `__metadata__` strings, keys sorted (strcmp order). NULL when the key is absent or `i` out of
// range.
const char *st_metadata(const st_file *file, const char *key);
size_t st_metadata_count(const st_file *file);
const char *st_metadata_key(const st_file *file, size_t i);

// The name as the format spells it ("F32", "BF16", ...) and the bytes of one element. "?" and 0 for
// no st_dtype.
const char *st_dtype_name(st_dtype dtype);
size_t st_dtype_size(st_dtype dtype);

// All elements as float, into `count` floats. F32 is copied bit by bit, F16 and BF16 are exact (a
// NaN keeps its sign and payload), F64 is rounded to nearest even. Any other type: false and a line
// in `err`, `out` untouched.
bool st_to_f32(const st_tensor *tensor, float *out, char *err, size_t err_size);

// All elements as int64_t, into `count` integers: any integer type and BOOL (0 or 1). A U64 above
// INT64_MAX, a BOOL byte above 1 and any other type: false and a line in `err`; what `out` then
// holds is unspecified.
bool st_to_i64(const st_tensor *tensor, int64_t *out, char *err, size_t err_size);

typedef struct st_writer st_writer;

// A writer with no tensors and no metadata; NULL when memory is out.
st_writer *st_writer_new(void);

// Adds a tensor. Name and shape are copied, `data` is borrowed until the last save; it may be NULL
// when there are no bytes. False, and nothing added, when memory is out or the reader would refuse
// it: a bad name ("__metadata__" included) or one already added, no such dtype, n_dims outside
// 0..ST_MAX_DIMS, a negative dimension, a size that overflows. After a false, st_writer_save fails
// with the reason of the first refusal, so checking only the save is safe.
bool st_writer_add(st_writer *writer, const char *name, st_dtype dtype, int n_dims, const int64_t *shape,
                   const void *data);

// Adds a metadata string; both are copied and must be UTF-8. A key already there is refused like a
// tensor's name.
bool st_writer_metadata(st_writer *writer, const char *key, const char *value);

// Writes the file under a temporary name beside `path`, syncs it, renames it over `path` and syncs
// the folder. `path` is at any time the old file or the whole new one; on failure the old one is
// untouched and the temporary one removed. A symbolic link is followed; what exists and is no
// regular file (a folder, a device, a pipe) is refused. A file that is replaced keeps its
// permission bits. A writer may be saved again.
// Same calls, same bytes, in whatever order they were made: metadata by key, then tensors by
// falling element size, then name, so that data is aligned for its type; the header is padded with
// spaces to a multiple of 8 bytes.
bool st_writer_save(st_writer *writer, const char *path, char *err, size_t err_size);

// NULL is allowed.
void st_writer_free(st_writer *writer);

#ifdef __cplusplus
}
#endif

#endif
