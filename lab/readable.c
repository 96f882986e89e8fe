// SPDX-License-Identifier: Apache-2.0
//
// Follows #include lines by their text: conditions do not matter to a reader.
#include "lab/readable.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 16 };

typedef struct reader {
    lab_text *text;
    const char *stage;
    char seen[MOST][128]; // names of headers
    int count;
} reader;

static bool append(lab_text *to, const char *bytes, size_t size) {
    char *more = realloc(to->bytes, to->size + size + 1);
    if (!more)
        return false;
    memcpy(more + to->size, bytes, size);
    to->bytes = more;
    to->size += size;
    to->bytes[to->size] = '\0';
    return true;
}

// Notes the headers of the stage that a text includes.
static void note_includes(reader *r, const char *text) {
    char start[64], contract[64];
    snprintf(start, sizeof start, "#include \"kernels/%s/", r->stage);
    snprintf(contract, sizeof contract, "%s.h", r->stage);
    for (const char *at = text; (at = strstr(at, start));) {
        at += strlen(start);
        const size_t length = strcspn(at, "\"\n");
        char name[128];
        snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name - 1), at);
        bool known = strcmp(name, contract) == 0 || strchr(name, '/') != NULL;
        for (int i = 0; i < r->count; i++)
            known |= strcmp(r->seen[i], name) == 0;
        if (!known && r->count < MOST)
            memcpy(r->seen[r->count++], name, sizeof name);
    }
}

static bool append_file(reader *r, const char *path, const char *title, bench_error *error) {
    lab_text one;
    char line[200];
    if (!lab_read(path, &one, error))
        return false;
    note_includes(r, one.bytes);
    const int n = title ? snprintf(line, sizeof line, "\n// ---- %.150s ----\n\n", title) : 0;
    const bool right = append(r->text, line, (size_t)n) && append(r->text, one.bytes, one.size);
    free(one.bytes);
    return right || bench_fail(error, "no memory for %s", path);
}

bool lab_readable(lab_text *text, const char *path, const char *stage, bench_error *error) {
    reader r = {.text = text, .stage = stage};
    char title[200], header[LAB_PATH];
    *text = (lab_text){NULL, 0};
    bool right = append_file(&r, path, NULL, error);
    for (int i = 0; right && i < r.count; i++) { // what they include is appended on the way
        snprintf(title, sizeof title, "src/kernels/%s/%s", stage, r.seen[i]);
        right = lab_join(header, lab_root(), title, error) && append_file(&r, header, title, error);
    }
    if (!right)
        free(text->bytes);
    return right;
}
