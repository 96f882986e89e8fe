// SPDX-License-Identifier: Apache-2.0
//
// GGUF files, versions 2 and 3, little-endian: a reader that validates everything before it hands out a pointer. Used by
// the tool and the tests; libqsa itself does not know this format.
//
// A file is a head (magic, version, two counts), metadata, the tensors' entries, and, at the next multiple of
// `general.alignment` (32), the data. The reader refuses counts and lengths that the remaining bytes cannot hold before
// it allocates or moves by them, two keys or tensors of one name, data that overlaps or ends behind the file, an
// alignment that is no power of two, arrays of arrays, and names longer than the format allows. A tensor of an element
// type that it does not know has no data; it is refused by whoever needs it.
//
// Nothing here prints, exits or aborts; a failure leaves one line as io_fail does, without the path.
#ifndef QSA_IO_GGUF_H
#define QSA_IO_GGUF_H

#include "io/io_util.h"

#include <stdint.h>

#define GGUF_MAX_NAME 64 // bytes of a tensor's name
#define GGUF_MAX_KEY  65535
#define GGUF_MAX_DIMS 4

typedef enum {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_VALUE_TYPES
} gguf_value_type;

// Element types of tensors that this project reads; the format numbers more, see gguf_tensor_type.
enum { GGUF_TENSOR_F32 = 0, GGUF_TENSOR_F16 = 1, GGUF_TENSOR_Q8_0 = 8, GGUF_TENSOR_BF16 = 30 };

// Bytes of the file, not NUL-terminated.
typedef struct {
    const char *bytes;
    size_t size;
} gguf_text;

typedef struct {
    gguf_text key;
    gguf_value_type type;      // of the elements
    bool array;                // false: one element
    uint64_t count;            // elements
    const unsigned char *data; // the first element, aligned for nothing; a string is a 64-bit length and its bytes
} gguf_value;

typedef struct {
    char name[GGUF_MAX_NAME + 1];
    uint32_t type;
    int n_dims;
    int64_t shape[GGUF_MAX_DIMS]; // row-major, outermost first: the reverse of the file's order
    int64_t count;
    size_t bytes;              // 0 for a type that is not known
    const unsigned char *data; // NULL for a type that is not known
} gguf_tensor;

typedef struct gguf_file gguf_file;

// Opens a regular file, memory-mapped (the notes at st_open hold here too). NULL and a line on failure.
gguf_file *gguf_open(const char *path, io_error err);

// The same for bytes in memory, borrowed until gguf_close.
gguf_file *gguf_open_memory(const void *bytes, size_t size, io_error err);

// NULL is allowed. Everything that came from the file is gone.
void gguf_close(gguf_file *file);

// Tensors sorted by name; NULL when `i` is out of range or there is none of the name.
size_t gguf_tensor_count(const gguf_file *file);
const gguf_tensor *gguf_tensor_at(const gguf_file *file, size_t i);
const gguf_tensor *gguf_find(const gguf_file *file, const char *name);

// Metadata sorted by key (memcmp order, shorter first).
size_t gguf_value_count(const gguf_file *file);
const gguf_value *gguf_value_at(const gguf_file *file, size_t i);
const gguf_value *gguf_key(const gguf_file *file, const char *key);

// Element `i` of a value. False when it has no such element or is of another kind: an integer (any integer type and
// BOOL) that fits int64_t; a float (F32 or F64).
bool gguf_integer(const gguf_value *value, uint64_t i, int64_t *out);
bool gguf_real(const gguf_value *value, uint64_t i, double *out);

// A string that is no array.
bool gguf_string(const gguf_value *value, gguf_text *out);
bool gguf_text_is(gguf_text text, const char *string);

// "F32", "Q8_0", ...; "99 (unknown)" for a number that is not known. By value.
typedef struct {
    char text[24];
} gguf_type_name;
gguf_type_name gguf_tensor_type(uint32_t type);

// Elements that the type stores together, and their bytes; false for a type that is not known.
bool gguf_type_layout(uint32_t type, int64_t *block, size_t *bytes);

#endif
