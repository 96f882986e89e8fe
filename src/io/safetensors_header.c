// SPDX-License-Identifier: Apache-2.0
//
// Safetensors: the JSON header. The outer object is walked here and its parts are given to jansson
// one at a time, so that memory stays in proportion to the header whatever it holds: jansson's tree
// of a hostile 100 MB header would take gigabytes, and nested brackets its stack. A part is a
// string or a tensor's entry, of at most MAX_ENTRY bytes and two levels.
#include "io/safetensors_internal.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#define MAX_ENTRY 65536 // a sane entry has about 300 bytes, some thousand when escaped on purpose

typedef struct {
    const char *text;
    size_t size, at;
    st_file *file;
    size_t strings_used;
    bool has_metadata;
    io_error err;
} reader;

static void skip_space(reader *r) {
    while (r->at < r->size && strchr(" \t\r\n", r->text[r->at]) != NULL && r->text[r->at] != '\0')
        r->at++;
}

static bool peek(const reader *r, char c) {
    return r->at < r->size && r->text[r->at] == c;
}

static bool expect(reader *r, char c) {
    skip_space(r);
    if (peek(r, c)) {
        r->at++;
        return true;
    }
    if (r->at >= r->size)
        return io_fail(r->err, "header is not valid JSON: it ends at byte %zu instead of '%c'", r->at, c);
    return io_fail(r->err, "header is not valid JSON: '%s' at byte %zu instead of '%c'",
                   io_quote(r->text + r->at, 1).text, r->at, c);
}

// After one member: sets *more and moves past a ','; or moves past the object's '}'.
static bool next_member(reader *r, bool *more) {
    skip_space(r);
    *more = peek(r, ',');
    if (*more)
        r->at++;
    return *more || expect(r, '}');
}

// jansson's own line for what is wrong in the part that began at `begin`.
static bool fail_json(const reader *r, const char *whose, size_t begin, const json_error_t *e) {
    if (e->text[0] == '\0' || json_error_code(e) == json_error_out_of_memory)
        return io_fail(r->err, "out of memory");
    size_t at = begin + (e->position > 0 ? (size_t)e->position : 0);
    return io_fail(r->err, "%s is not valid JSON: %s at header byte %zu", whose, io_quote_string(e->text).text, at);
}

// The end of the string that begins at `at`, past its quote; 0 when the header ends inside.
static size_t string_end(const reader *r, size_t at) {
    for (at++; at < r->size; at++) {
        if (r->text[at] == '\\')
            at++;
        else if (r->text[at] == '"')
            return at + 1;
    }
    return 0;
}

// Decodes the string here into file->strings, NUL-terminated. There is room: a string has no more
// bytes decoded than spelled, and the terminator takes the place of a quote.
static bool take_string(reader *r, const char *whose, const char **string, size_t *size) {
    size_t begin = r->at, end = string_end(r, begin);
    json_error_t e = {0};
    if (end == 0)
        return io_fail(r->err, "header is not valid JSON: it ends inside the string at byte %zu", begin);
    json_t *json = json_loadb(r->text + begin, end - begin, JSON_DECODE_ANY, &e);
    if (json == NULL)
        return fail_json(r, whose, begin, &e);
    char *copy = r->file->strings + r->strings_used;
    *size = json_string_length(json);
    memcpy(copy, json_string_value(json), *size + 1);
    json_decref(json);
    r->strings_used += *size + 1;
    r->at = end;
    *string = copy;
    return true;
}

static bool add_pair(reader *r, const char *key, const char *value) {
    st_file *f = r->file;
    st_pair *pairs = io_grow(f->pairs, &f->pairs_capacity, f->n_pairs, sizeof *pairs);
    if (pairs == NULL)
        return io_fail(r->err, "out of memory");
    f->pairs = pairs;
    pairs[f->n_pairs++] = (st_pair){key, value};
    return true;
}

static bool parse_metadata(reader *r) {
    if (r->has_metadata)
        return io_fail(r->err, "duplicate key '%s'", ST_METADATA_KEY);
    r->has_metadata = true;
    if (!peek(r, '{'))
        return io_fail(r->err, "%s is not an object", ST_METADATA_KEY);
    r->at++;
    skip_space(r);
    bool more = !peek(r, '}');
    if (!more)
        r->at++;
    while (more) {
        const char *key = "", *value = "";
        size_t size = 0;
        skip_space(r);
        if (!peek(r, '"'))
            return expect(r, '"');
        if (!take_string(r, "a key of " ST_METADATA_KEY, &key, &size) || !expect(r, ':'))
            return false;
        skip_space(r);
        if (!peek(r, '"'))
            return io_fail(r->err, "%s: the value of '%s' is not a string", ST_METADATA_KEY, io_quote(key, size).text);
        if (!take_string(r, "a value of " ST_METADATA_KEY, &value, &size) || !add_pair(r, key, value) ||
            !next_member(r, &more))
            return false;
    }
    return true;
}

// The end of the object that begins here. Brackets are only counted: jansson sees them next.
static bool entry_end(const reader *r, const char *quoted, size_t *end) {
    int depth = 0;
    for (size_t at = r->at; at < r->size; at++) {
        char c = r->text[at];
        if (at - r->at >= MAX_ENTRY)
            return io_fail(r->err, "tensor '%s': its entry has more than %d bytes", quoted, MAX_ENTRY);
        if (c == '"') {
            at = string_end(r, at);
            if (at == 0)
                break;
            at--;
        } else if (c == '{' || c == '[') {
            if (++depth > 2)
                return io_fail(r->err,
                               "tensor '%s': nested deeper than the format allows at header byte "
                               "%zu",
                               quoted, at);
        } else if ((c == '}' || c == ']') && --depth == 0) {
            *end = at + 1;
            return true;
        }
    }
    return io_fail(r->err, "header is not valid JSON: it ends inside the entry of tensor '%s'", quoted);
}

static bool take_dtype(const json_t *json, const char *quoted, st_dtype *dtype, io_error err) {
    if (!json_is_string(json))
        return io_fail(err, "tensor '%s': dtype is not a string", quoted);
    for (int i = 0; i < ST_DTYPES; i++) {
        if (strcmp(json_string_value(json), st_dtype_name((st_dtype)i)) == 0) {
            *dtype = (st_dtype)i;
            return true;
        }
    }
    return io_fail(err, "tensor '%s': unknown dtype '%s'", quoted, io_quote_string(json_string_value(json)).text);
}

// At most `room` integers that are not negative.
static bool take_integers(const json_t *json, const char *quoted, const char *key, int64_t *values, size_t room,
                          io_error err) {
    if (!json_is_array(json))
        return io_fail(err, "tensor '%s': %s is not an array", quoted, key);
    if (json_array_size(json) > room)
        return io_fail(err, "tensor '%s': %s has %zu numbers, the limit is %zu", quoted, key, json_array_size(json),
                       room);
    for (size_t i = 0; i < json_array_size(json); i++) {
        const json_t *number = json_array_get(json, i);
        if (!json_is_integer(number))
            return io_fail(err, "tensor '%s': %s[%zu] is not an integer", quoted, key, i);
        values[i] = json_integer_value(number);
        if (values[i] < 0)
            return io_fail(err, "tensor '%s': %s[%zu] is negative: %" PRId64, quoted, key, i, values[i]);
    }
    return true;
}

// Exactly the three keys: the names of keys that do not belong there are said.
static bool check_keys(json_t *json, const char *quoted, io_error err) {
    static const char *const known[] = {"dtype", "shape", "data_offsets"};
    const char *key;
    json_t *value;
    json_object_foreach(json, key, value) {
        if (strcmp(key, known[0]) != 0 && strcmp(key, known[1]) != 0 && strcmp(key, known[2]) != 0)
            return io_fail(err, "tensor '%s': unknown key '%s'", quoted, io_quote_string(key).text);
    }
    for (int i = 0; i < 3; i++)
        if (json_object_get(json, known[i]) == NULL)
            return io_fail(err, "tensor '%s': key '%s' is missing", quoted, known[i]);
    return true;
}

static bool fill_entry(json_t *json, const char *quoted, st_entry *entry, io_error err) {
    st_tensor *t = &entry->tensor;
    int64_t offsets[2] = {0};
    if (!check_keys(json, quoted, err) || !take_dtype(json_object_get(json, "dtype"), quoted, &t->dtype, err))
        return false;
    const json_t *shape = json_object_get(json, "shape");
    if (!take_integers(shape, quoted, "shape", t->shape, ST_MAX_DIMS, err))
        return false;
    t->n_dims = (int)json_array_size(shape);
    if (!st_measure(t->dtype, t->n_dims, t->shape, &t->count, &t->bytes))
        return io_fail(err, "tensor '%s': shape %s of %s overflows: more than %" PRId64 " bytes", quoted,
                       st_show_shape(t->n_dims, t->shape).text, st_dtype_name(t->dtype), INT64_MAX);
    const json_t *pair = json_object_get(json, "data_offsets");
    if (!take_integers(pair, quoted, "data_offsets", offsets, 2, err))
        return false;
    if (json_array_size(pair) != 2)
        return io_fail(err, "tensor '%s': data_offsets has %zu numbers instead of 2", quoted, json_array_size(pair));
    entry->begin = offsets[0];
    entry->end = offsets[1];
    if (entry->begin > entry->end)
        return io_fail(err, "tensor '%s': data_offsets [%" PRId64 ", %" PRId64 "] end before they begin", quoted,
                       entry->begin, entry->end);
    if ((uint64_t)(entry->end - entry->begin) != t->bytes)
        return io_fail(err,
                       "tensor '%s': data_offsets [%" PRId64 ", %" PRId64 "] hold %" PRId64
                       " bytes but shape %s of %s needs %zu",
                       quoted, entry->begin, entry->end, entry->end - entry->begin,
                       st_show_shape(t->n_dims, t->shape).text, st_dtype_name(t->dtype), t->bytes);
    return true;
}

static bool parse_entry(reader *r, const char *name, size_t name_size) {
    st_file *f = r->file;
    if (!st_check_name(name, name_size, r->err))
        return false;
    io_quoted quoted = io_quote(name, name_size);
    if (!peek(r, '{'))
        return io_fail(r->err, "tensor '%s': its entry is not an object", quoted.text);
    size_t end = 0;
    if (!entry_end(r, quoted.text, &end))
        return false;
    st_entry *entries = io_grow(f->entries, &f->entries_capacity, f->n_entries, sizeof *entries);
    if (entries == NULL)
        return io_fail(r->err, "out of memory");
    f->entries = entries;

    json_error_t e = {0};
    json_t *json = json_loadb(r->text + r->at, end - r->at, JSON_REJECT_DUPLICATES, &e);
    if (json == NULL) {
        char whose[IO_QUOTED + 32];
        io_fail((io_error){whose, sizeof whose}, "entry of tensor '%s'", quoted.text);
        return fail_json(r, whose, r->at, &e);
    }
    st_entry entry = {.tensor = {.name = name}};
    bool ok = fill_entry(json, quoted.text, &entry, r->err);
    json_decref(json);
    if (!ok)
        return false;
    entries[f->n_entries++] = entry;
    r->at = end;
    return true;
}

static bool parse_member(reader *r) {
    const char *name = "";
    size_t size = 0;
    skip_space(r);
    if (!peek(r, '"'))
        return expect(r, '"');
    if (!take_string(r, "a tensor's name", &name, &size) || !expect(r, ':'))
        return false;
    skip_space(r);
    if (strcmp(name, ST_METADATA_KEY) == 0)
        return parse_metadata(r);
    return parse_entry(r, name, size);
}

bool st_parse_header(st_file *file, const char *text, size_t size, io_error err) {
    reader r = {.text = text, .size = size, .file = file, .err = err};
    if (!peek(&r, '{'))
        return io_fail(err, "not a safetensors file: the header begins with '%s', not with '{'",
                       io_quote(text, 1).text);
    size_t valid = io_utf8_prefix(text, size);
    if (valid != size)
        return io_fail(err, "header is not valid UTF-8: '%s' at byte %zu", io_quote(text + valid, 1).text, valid);
    file->strings = io_alloc(size);
    if (file->strings == NULL)
        return io_fail(err, "out of memory");
    r.at++;
    skip_space(&r);
    bool more = !peek(&r, '}');
    if (!more)
        r.at++;
    while (more)
        if (!parse_member(&r) || !next_member(&r, &more))
            return false;
    for (; r.at < size; r.at++)
        if (text[r.at] != ' ')
            return io_fail(err, "header has trailing bytes after its JSON object: '%s' at byte %zu",
                           io_quote(text + r.at, 1).text, r.at);
    return true;
}
