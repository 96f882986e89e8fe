// SPDX-License-Identifier: Apache-2.0
//
// Walks the index. Strings are decoded by jansson one at a time, into one block as large as the text: decoded they are
// never longer than spelled.
#include "io/st_index.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DEPTH 32 // of what is skipped: `metadata` holds numbers

typedef struct {
    const char *tensor, *file;
} entry;

struct st_index {
    char *strings;
    entry *entries;
    size_t n, capacity;
};

typedef struct {
    const char *text;
    size_t size, at, used; // used: bytes of strings
    st_index *index;
    io_error err;
} reader;

static void skip_space(reader *r) {
    while (r->at < r->size && r->text[r->at] != '\0' && strchr(" \t\r\n", r->text[r->at]) != NULL)
        r->at++;
}

static bool peek(const reader *r, char c) {
    return r->at < r->size && r->text[r->at] == c;
}

static bool expect(reader *r, char c) {
    skip_space(r);
    if (!peek(r, c))
        return io_fail(r->err, "not valid JSON: '%c' is missing at byte %zu", c, r->at);
    r->at++;
    return true;
}

// Moves past the string that begins here.
static bool skip_string(reader *r) {
    for (r->at++; r->at < r->size; r->at++) {
        if (r->text[r->at] == '\\') {
            r->at++;
        } else if (r->text[r->at] == '"') {
            r->at++;
            return true;
        }
    }
    return io_fail(r->err, "not valid JSON: it ends inside a string");
}

static bool take_string(reader *r, const char **string) {
    json_error_t e = {0};
    skip_space(r);
    const size_t begin = r->at;
    if (!peek(r, '"'))
        return io_fail(r->err, "a string is missing at byte %zu", r->at);
    if (!skip_string(r))
        return false;
    json_t *json = json_loadb(r->text + begin, r->at - begin, JSON_DECODE_ANY, &e);
    if (json == NULL)
        return io_fail(r->err, "not valid JSON: %s in the string at byte %zu", io_quote_string(e.text).text, begin);
    char *copy = r->index->strings + r->used;
    const size_t size = json_string_length(json);
    memcpy(copy, json_string_value(json), size + 1);
    json_decref(json);
    r->used += size + 1;
    *string = copy;
    return true;
}

// Moves past any value; brackets are counted, not matched: nothing of it is used.
static bool skip_value(reader *r) {
    int depth = 0;
    skip_space(r);
    const size_t begin = r->at;
    while (r->at < r->size) {
        const char c = r->text[r->at];
        if (c == '"') {
            if (!skip_string(r))
                return false;
            continue;
        }
        if (depth == 0 && (c == ',' || c == '}'))
            break;
        depth += (c == '{' || c == '[') - (c == '}' || c == ']');
        if (depth > MAX_DEPTH || depth < 0)
            return io_fail(r->err, "not valid JSON: brackets at byte %zu", r->at);
        r->at++;
    }
    return r->at > begin || io_fail(r->err, "not valid JSON: a value is missing at byte %zu", begin);
}

// A name below which nothing but a file of the same folder can lie.
static bool check_file_name(const reader *r, const char *tensor, const char *name) {
    const size_t size = strlen(name);
    bool plain = size > 0 && size <= 255 && name[0] != '.' && strpbrk(name, "/\\") == NULL;
    for (size_t i = 0; plain && i < size; i++)
        plain = (unsigned char)name[i] >= 0x20 && name[i] != 0x7f;
    return plain || io_fail(r->err, "tensor '%s' lies in '%s', which is no plain file name of this folder",
                            io_quote_string(tensor).text, io_quote_string(name).text);
}

// One member of an object: sets *more and moves past a ',', or past the '}'.
static bool next_member(reader *r, bool *more) {
    skip_space(r);
    *more = peek(r, ',');
    if (*more)
        r->at++;
    return *more || expect(r, '}');
}

static bool begin_object(reader *r, bool *more) {
    if (!expect(r, '{'))
        return false;
    skip_space(r);
    *more = !peek(r, '}');
    if (!*more)
        r->at++;
    return true;
}

static bool take_map(reader *r) {
    st_index *index = r->index;
    bool more = false;
    if (!begin_object(r, &more))
        return false;
    while (more) {
        entry e = {0};
        if (!take_string(r, &e.tensor) || !expect(r, ':') || !take_string(r, &e.file) ||
            !check_file_name(r, e.tensor, e.file))
            return false;
        entry *entries = io_grow(index->entries, &index->capacity, index->n, sizeof *entries);
        if (entries == NULL)
            return io_fail(r->err, "out of memory");
        index->entries = entries;
        entries[index->n++] = e;
        if (!next_member(r, &more))
            return false;
    }
    return true;
}

static int by_tensor(const void *a, const void *b) {
    return strcmp(((const entry *)a)->tensor, ((const entry *)b)->tensor);
}

static bool parse(reader *r) {
    st_index *index = r->index;
    bool more = false, found = false;
    if (!begin_object(r, &more))
        return false;
    while (more) {
        const char *key = "";
        if (!take_string(r, &key) || !expect(r, ':'))
            return false;
        const bool map = strcmp(key, "weight_map") == 0;
        if (map && found)
            return io_fail(r->err, "duplicate key 'weight_map'");
        if (!(map ? take_map(r) : skip_value(r)) || !next_member(r, &more))
            return false;
        found = found || map;
    }
    skip_space(r);
    if (r->at != r->size)
        return io_fail(r->err, "not valid JSON: text after its end at byte %zu", r->at);
    if (!found)
        return io_fail(r->err, "no key 'weight_map'");
    if (index->n > 0)
        qsort(index->entries, index->n, sizeof *index->entries, by_tensor);
    for (size_t i = 1; i < index->n; i++)
        if (by_tensor(&index->entries[i - 1], &index->entries[i]) == 0)
            return io_fail(r->err, "duplicate tensor '%s'", io_quote_string(index->entries[i].tensor).text);
    return true;
}

st_index *st_index_parse(const char *text, size_t size, io_error err) {
    st_index *index = io_alloc(sizeof *index);
    if (index == NULL) {
        io_fail(err, "out of memory");
        return NULL;
    }
    *index = (st_index){0};
    // A decoded string and its NUL take no more than the string and its quotes: there is room.
    index->strings = io_alloc(size);
    reader r = {.text = text, .size = size, .index = index, .err = err};
    if (index->strings != NULL ? parse(&r) : io_fail(err, "out of memory"))
        return index;
    st_index_free(index);
    return NULL;
}

void st_index_free(st_index *index) {
    if (index == NULL)
        return;
    io_free(index->strings);
    io_free(index->entries);
    io_free(index);
}

const char *st_index_find(const st_index *index, const char *tensor) {
    const entry wanted = {.tensor = tensor};
    if (index->n == 0)
        return NULL;
    const entry *e = bsearch(&wanted, index->entries, index->n, sizeof wanted, by_tensor);
    return e != NULL ? e->file : NULL;
}

size_t st_index_count(const st_index *index) {
    return index->n;
}

const char *st_index_tensor(const st_index *index, size_t i) {
    return i < index->n ? index->entries[i].tensor : NULL;
}

const char *st_index_file(const st_index *index, size_t i) {
    return i < index->n ? index->entries[i].file : NULL;
}
