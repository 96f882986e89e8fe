// SPDX-License-Identifier: Apache-2.0
//
// Lists of digests and their file.
#include "digest.h"
#include "sha256.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void digest_append(digest_list *list, const char *name, const char *hash) {
    const char *known = digest_find(list, name);
    if (known) {
        list->conflicts += strcmp(known, hash) != 0;
        return;
    }
    if (list->count == list->capacity) {
        list->capacity = list->capacity ? 2 * list->capacity : 256;
        list->line = realloc(list->line, (size_t)list->capacity * sizeof *list->line);
        if (!list->line)
            abort();
    }
    digest_line *line = &list->line[list->count++];
    snprintf(line->name, sizeof line->name, "%s", name);
    snprintf(line->hash, sizeof line->hash, "%s", hash);
}

void digest_add(digest_list *list, const char *name, const void *data, size_t bytes) {
    sha256 s;
    char hex[65];
    sha256_init(&s);
    sha256_add(&s, data, bytes);
    sha256_hex(&s, hex);
    digest_append(list, name, hex);
}

const char *digest_find(const digest_list *list, const char *name) {
    for (int i = 0; i < list->count; i++)
        if (strcmp(list->line[i].name, name) == 0)
            return list->line[i].hash;
    return NULL;
}

void digest_free(digest_list *list) {
    free(list->line);
    *list = (digest_list){0};
}

bool digest_read(digest_list *list, const char *path) {
    FILE *file = fopen(path, "r");
    if (!file)
        return false;
    char line[512], name[512], hash[512];
    while (fgets(line, sizeof line, file)) {
        if (line[0] == '#')
            continue;
        const bool good = sscanf(line, "%511s %511s", name, hash) == 2 && strlen(name) < 64 && strlen(hash) == 64;
        if (!good || digest_find(list, name))
            list->conflicts++;
        else
            digest_append(list, name, hash);
    }
    fclose(file);
    return true;
}

static int by_name(const void *x, const void *y) {
    const digest_line *a = x, *b = y;
    return strcmp(a->name, b->name);
}

bool digest_write(digest_list *list, const char *path, const char *comment) {
    FILE *file = fopen(path, "w");
    if (!file)
        return false;
    qsort(list->line, (size_t)list->count, sizeof *list->line, by_name);
    fprintf(file, "%s", comment);
    for (int i = 0; i < list->count; i++)
        fprintf(file, "%s %s\n", list->line[i].name, list->line[i].hash);
    return fclose(file) == 0;
}
