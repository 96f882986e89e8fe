// SPDX-License-Identifier: Apache-2.0
//
// A row of src/kernels holds its device code and its launcher in one file. NVRTC takes no host function, so what launches is cut out
// of the preprocessed text: definitions with <<< in them, and entries `extern "C" int qsa_...`.
#include "lab/launch.h"
#include "lab/unit.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Behind a string, a character or a line of the preprocessor that starts at `at`; `at` itself if none does.
static const char *behind_literal(const char *at, const char *text) {
    if (*at == '"' || (*at == '\'' && (at == text || !isalnum((unsigned char)at[-1])))) {
        const char quote = *at++;
        while (*at && *at != quote)
            at += *at == '\\' && at[1] ? 2 : 1;
        return *at ? at + 1 : at;
    }
    if (*at == '#' && (at == text || at[-1] == '\n'))
        return at + strcspn(at, "\n");
    return at;
}

static const char *behind_braces(const char *at, const char *text) {
    int depth = 0;
    while (*at) {
        const char *next = behind_literal(at, text);
        if (next != at) {
            at = next;
            continue;
        }
        depth += (*at == '{') - (*at == '}');
        at++;
        if (depth == 0)
            break;
    }
    return at;
}

static bool has(const char *from, const char *to, const char *words) {
    const size_t length = strlen(words);
    for (; from + length <= to; from++)
        if (strncmp(from, words, length) == 0)
            return true;
    return false;
}

// Whether the text up to a brace opens a namespace or a linkage block, in which definitions follow.
static bool opens_scope(const char *head, const char *brace) {
    while (brace > head && isspace((unsigned char)brace[-1]))
        brace--;
    const bool linkage = brace - head >= 10 && strncmp(brace - 10, "extern \"C\"", 10) == 0;
    return linkage || (has(head, brace, "namespace") && !has(head, brace, "("));
}

static bool is_type(const char *head, const char *brace) {
    return !has(head, brace, "(") && (has(head, brace, "struct") || has(head, brace, "union") ||
                                      has(head, brace, "enum") || has(head, brace, "="));
}

// In place: the text only gets shorter.
static void cut_launchers(lab_text *text) {
    char *const start = text->bytes;
    char *head = start; // where the present declaration begins
    for (const char *at = start; *at;) {
        const char *next = behind_literal(at, start);
        if (next != at) {
            if (*at == '#')
                head = start + (next - start);
            at = next;
        } else if (*at == ';' || *at == '}') {
            head = start + (++at - start);
        } else if (*at != '{') {
            at++;
        } else if (opens_scope(head, at)) {
            head = start + (++at - start);
        } else {
            const char *end = behind_braces(at, start);
            if (has(head, end, "<<<") || has(head, at, "extern \"C\" int qsa_")) {
                memmove(head, end, strlen(end) + 1);
                at = head;
            } else {
                if (!is_type(head, at))
                    head = start + (end - start);
                at = end;
            }
        }
    }
    text->size = strlen(start);
}

bool lab_cuda_unit(lab_text *text, const char *path, bench_error *error) {
    static lab_launch list[LAB_LAUNCHES];
    char why[300], lines[LAB_LAUNCHES * LAB_LAUNCH_LINE];
    lab_text source;
    size_t used = 0;
    int count;
    if (!lab_read(path, &source, error))
        return false;
    const bool right = lab_launch_read(list, &count, source.bytes, why, sizeof why);
    free(source.bytes);
    if (!right)
        return bench_fail(error, "%s: %s", path, why);
    cut_launchers(text);
    for (int i = 0; i < count; i++)
        used += (size_t)lab_launch_write(&list[i], list[i].kernel, lines + used, sizeof lines - used);
    char *whole = malloc(used + text->size + 1);
    if (!whole)
        return bench_fail(error, "no memory for %s", path);
    memcpy(whole, lines, used);
    memcpy(whole + used, text->bytes, text->size + 1);
    free(text->bytes);
    *text = (lab_text){whole, used + text->size};
    return true;
}
