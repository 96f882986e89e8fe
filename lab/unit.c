// SPDX-License-Identifier: Apache-2.0
//
// System headers are replaced by stubs while a unit is preprocessed: each leaves one pragma, which becomes an #include line.
// So the unit is short, and what the headers define is expanded by the compiler that reads it later.
#include "lab/unit.h"

#include "lab/process.h"
#include "lab/scratch.h"
#include "lab_build.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char *const headers[] = {"assert.h",    "float.h",    "limits.h",   "math.h",
                                      "stdbool.h",   "stddef.h",   "stdint.h",   "string.h",
                                      "immintrin.h", "arm_neon.h", "arm_acle.h", "cuda_runtime.h"};
enum { HEADERS = sizeof headers / sizeof headers[0], MOST_WORDS = 64 };
static const char mark[] = "#pragma qsa_lab_include ";

// ---- Instruction sets ---------------------------------------------------------------------------

// The next row of the table, "where|architecture|flags".
static const char *next_row(const char *at, char where[32], char arch[32], char *flags, size_t size) {
    if (!at || !*at)
        return NULL;
    const char *end = strchr(at, ';'), *first = strchr(at, '|'), *second = first ? strchr(first + 1, '|') : NULL;
    if (!second)
        return NULL;
    const size_t length = end ? (size_t)(end - second - 1) : strlen(second + 1);
    snprintf(where, 32, "%.*s", (int)(first - at), at);
    snprintf(arch, 32, "%.*s", (int)(second - first - 1), first + 1);
    snprintf(flags, size, "%.*s", (int)length, second + 1);
    return end ? end + 1 : "";
}

// Whether `_where` ends the name or has `_` behind it.
static bool names(const char *stem, const char *where) {
    const size_t length = strlen(where);
    for (const char *at = stem; (at = strstr(at, where)); at++)
        if (at > stem && at[-1] == '_' && (at[length] == '\0' || at[length] == '_'))
            return true;
    return false;
}

static void stem_of(const char *path, char stem[128]) {
    const char *slash = strrchr(path, '/');
    snprintf(stem, 128, "%s", slash ? slash + 1 : path);
    char *dot = strrchr(stem, '.');
    if (dot)
        *dot = '\0';
}

bool lab_where_of(const char *path, char where[32]) {
    char stem[128], arch[32], flags[128];
    stem_of(path, stem);
    for (const char *at = LAB_WHERES; (at = next_row(at, where, arch, flags, sizeof flags));)
        if (names(stem, where))
            return true;
    where[0] = '\0';
    return false;
}

const char *lab_where_flags(const char *where, char *flags, size_t size) {
    char name[32], arch[32], here[64];
    snprintf(here, sizeof here, "x_%s", where);
    for (const char *at = LAB_WHERES; (at = next_row(at, name, arch, flags, size));)
        if (names(here, name))
            return strcmp(arch, "any") == 0 || strcmp(arch, LAB_ARCH) == 0 ? flags : NULL;
    return NULL;
}

bool lab_where_runs(const char *where, const char *what, bench_error *error) {
    for (int32_t i = 0; i < qsa_table_rows(); i++) {
        const qsa_kernel_row *row = qsa_table_row(i);
        const char *reason = strcmp(row->where, where) == 0 ? qsa_table_unusable(row) : "";
        if (*reason)
            return bench_fail(error, "%s: this machine does not run %s: it %s", what, where, reason);
    }
    return true;
}

// ---- Preprocessing ------------------------------------------------------------------------------

static bool make_stubs(char folder[LAB_PATH], bench_error *error) {
    static char made[LAB_PATH];
    char here[LAB_PATH], path[LAB_PATH], text[256];
    if (!lab_scratch(here, error))
        return false;
    if (!made[0] || strncmp(made, here, strlen(here)) != 0) {
        if (!lab_scratch_name(made, "headers", error))
            return false;
        if (mkdir(made, 0700) != 0)
            return bench_fail(error, "%s: %s", made, strerror(errno));
        for (int i = 0; i < HEADERS; i++) {
            const int n =
                snprintf(text, sizeof text, "#ifndef QSA_LAB_STUB_%d\n#define QSA_LAB_STUB_%d\n%s<%s>\n#endif\n", i, i,
                         mark, headers[i]);
            if (!lab_join(path, made, headers[i], error) || !lab_write(path, text, (size_t)n, error))
                return false;
        }
    }
    memcpy(folder, made, LAB_PATH);
    return true;
}

// Words of a flags line; the line is cut in place.
static int split(char *line, const char **words, int most) {
    int n = 0;
    for (char *word = strtok(line, " "); word && n < most; word = strtok(NULL, " "))
        words[n++] = word;
    return n;
}

// The first line of what the compiler said that says what is wrong, without the file's path.
static void explain(const char *said, char *line, size_t size) {
    const char *at = strstr(said, "error: ");
    at = at ? at + 7 : said;
    snprintf(line, size, "%.*s", (int)strcspn(at, "\n"), at);
}

static void pragmas_to_includes(lab_text *text) {
    static const char include[] = "#include ";
    char *to = text->bytes;
    const char *from = text->bytes;
    while (*from) {
        if (strncmp(from, mark, sizeof mark - 1) == 0) {
            memcpy(to, include, sizeof include - 1);
            to += sizeof include - 1;
            from += sizeof mark - 1;
        }
        const size_t length = strcspn(from, "\n") + (from[strcspn(from, "\n")] == '\n');
        memmove(to, from, length);
        to += length;
        from += length;
    }
    *to = '\0';
    text->size = (size_t)(to - text->bytes);
}

bool lab_unit_make(lab_unit *unit, const char *path, const char *where, bench_error *error) {
    char stubs[LAB_PATH], out[LAB_PATH], src[LAB_PATH], include[LAB_PATH], flags[128], base[] = LAB_FLAGS;
    char said[4096], reason[300], name[128];
    const char *argv[MOST_WORDS] = {LAB_CC, "-E", "-P", "-nostdinc"};
    const bool cuda = strcmp(where, "cuda") == 0;
    int n = 4;
    memset(unit, 0, sizeof *unit);
    FILE *probe = fopen(path, "r");
    if (!probe)
        return bench_fail(error, "%s: %s", path, strerror(errno));
    fclose(probe);
    if (cuda)
        snprintf(flags, sizeof flags, "-x c++ -std=c++17 -DNDEBUG -D__CUDACC__ -D__CUDA_ARCH__=900");
    else if (!lab_where_flags(where, flags, sizeof flags))
        return bench_fail(error, "%s: there is no instruction set %s on %s", path, where, LAB_ARCH);
    if (!make_stubs(stubs, error) || !lab_scratch_name(out, "unit.c", error) ||
        !lab_join(src, lab_root(), "src", error) || !lab_join(include, lab_root(), "include", error))
        return false;
    if (!cuda)
        n += split(base, argv + n, 20);
    n += split(flags, argv + n, 10);
    const char *const rest[] = {"-I", src, "-I", include, "-I", lab_root(), "-isystem", stubs, path, "-o", out, NULL};
    memcpy(argv + n, rest, sizeof rest);
    lab_outcome outcome;
    if (!lab_command(argv, NULL, 30, said, sizeof said, &outcome, error))
        return false;
    if (outcome.how != LAB_EXITED || outcome.value != 0) {
        explain(said, reason, sizeof reason);
        const bool header = strstr(reason, "No such file") != NULL;
        return bench_fail(error, "%s: %s%s", path, reason, header ? " (kernels include few system headers)" : "");
    }
    lab_text text;
    if (!lab_read(out, &text, error))
        return false;
    pragmas_to_includes(&text);
    if (cuda && !lab_cuda_unit(&text, path, error)) {
        free(text.bytes);
        return false;
    }
    stem_of(path, name);
    char file[64];
    snprintf(file, sizeof file, "%.60s.%s", name, cuda ? "cu" : "c");
    lab_unit_of(unit, file, where, text);
    return true;
}

void lab_unit_of(lab_unit *unit, const char *file, const char *where, lab_text text) {
    memset(unit, 0, sizeof *unit);
    snprintf(unit->file, sizeof unit->file, "%s", file);
    snprintf(unit->where, sizeof unit->where, "%s", where);
    unit->text = text;
    lab_hash(unit->sha, text.bytes, text.size);
}

void lab_unit_free(lab_unit *unit) {
    free(unit->text.bytes);
    memset(unit, 0, sizeof *unit);
}

// ---- What may not be in it ----------------------------------------------------------------------

static bool word_character(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

// Whether a string, which in a kernel is the text of an asm statement, calls the system, reads a clock, or places bytes where the
// object's lint does not see what they are.
static const char *refused_in_asm(const char *text, size_t length, bool cuda) {
    static const char *const refused[] = {
        "syscall",        "sysenter",       "int",   "svc",     "rdtsc",    "rdtscp",
        "rdpmc",          "cntvct_el0",     "clock", "clock64", "clock_hi", "globaltimer",
        "globaltimer_lo", "globaltimer_hi", "trap",  "brkpt",   "nanosleep"};
    for (size_t i = 0; i < length; i++) {
        size_t n = 0;
        // Every instruction of PTX has dots in its name.
        if (!cuda && text[i] == '.' && i + 1 < length && isalpha((unsigned char)text[i + 1]))
            return "a directive";
        while (i + n < length && word_character(text[i + n]))
            n++;
        for (size_t k = 0; n && k < sizeof refused / sizeof refused[0]; k++)
            if (strlen(refused[k]) == n && strncmp(text + i, refused[k], n) == 0)
                return refused[k];
        i += n ? n - 1 : 0;
    }
    return NULL;
}

bool lab_unit_lint(const lab_unit *unit, bench_error *error) {
    static const char *const refused[] = {"__rdtsc",
                                          "__rdtscp",
                                          "_rdtsc",
                                          "_rdpmc",
                                          "__builtin_ia32_rdtsc",
                                          "__builtin_ia32_rdtscp",
                                          "__builtin_ia32_rdpmc",
                                          "__builtin_return_address",
                                          "__builtin_frame_address",
                                          "__builtin_apply_args",
                                          "_Thread_local",
                                          "__thread"};
    static const char *const on_device[] = {"clock",  "clock64", "globaltimer", "__nanosleep",
                                            "__trap", "__brkpt", "printf",      "__managed__"};
    const bool cuda = strcmp(unit->where, "cuda") == 0;
    for (const char *at = unit->text.bytes; *at;) {
        if (*at == '"') {
            const char *start = ++at;
            while (*at && *at != '"')
                at += *at == '\\' && at[1] ? 2 : 1;
            const char *bad = refused_in_asm(start, (size_t)(at - start), cuda);
            if (bad)
                return bench_fail(error, "%s: has asm with %s, which a kernel may not", unit->file, bad);
            at += *at != '\0';
            continue;
        }
        if (!word_character(*at)) {
            at++;
            continue;
        }
        size_t length = 0;
        while (word_character(at[length]))
            length++;
        for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
            if (strlen(refused[i]) == length && strncmp(at, refused[i], length) == 0)
                return bench_fail(error, "%s: uses %s, which a kernel may not", unit->file, refused[i]);
        for (size_t i = 0; cuda && i < sizeof on_device / sizeof on_device[0]; i++)
            if (strlen(on_device[i]) == length && strncmp(at, on_device[i], length) == 0)
                return bench_fail(error, "%s: uses %s, which a kernel may not", unit->file, on_device[i]);
        at += length;
    }
    return true;
}

// ---- Layout -------------------------------------------------------------------------------------

enum { TYPES = 24, NAME = 96 };

// The definition that ends in "} name;": from its typedef on.
static const char *definition(const char *text, const char *name, size_t *length) {
    char end[NAME + 8];
    snprintf(end, sizeof end, "} %s;", name);
    const char *close = strstr(text, end);
    if (!close)
        return NULL;
    const char *start = close;
    while (start > text && strncmp(start, "typedef", 7) != 0)
        start--;
    *length = (size_t)(close - start) + strlen(end);
    return start;
}

// Appends the words of a definition, one blank between them, and notes the project's types among them.
static void append_words(char *out, size_t room, const char *text, size_t length, char types[TYPES][NAME], int *count) {
    size_t used = strlen(out);
    for (size_t i = 0; i < length && used + 4 < room;) {
        size_t n = 0;
        if (isspace((unsigned char)text[i])) {
            i++;
            continue;
        }
        while (i + n < length && word_character(text[i + n]))
            n++;
        const size_t take = n ? n : 1;
        if (used + take + 2 > room)
            break;
        memcpy(out + used, text + i, take);
        used += take;
        out[used++] = ' ';
        out[used] = '\0';
        if (n > 4 && n < NAME && strncmp(text + i, "qsa_", 4) == 0 && *count < TYPES) {
            char name[NAME];
            snprintf(name, sizeof name, "%.*s", (int)n, text + i);
            bool known = false;
            for (int t = 0; t < *count; t++)
                known |= strcmp(types[t], name) == 0;
            if (!known)
                memcpy(types[(*count)++], name, NAME);
        }
        i += take;
    }
}

bool lab_unit_layout(const lab_unit *unit, qsa_kernel_number number, char sha[LAB_HASH], bench_error *error) {
    char types[TYPES][NAME], words[8192] = "";
    int count = 1;
    size_t length;
    snprintf(types[0], NAME, "qsa_%s%s_args", lab_is_cuda(number) ? "cuda_" : "", lab_kernel_name(number));
    if (lab_is_cuda(number) && !definition(unit->text.bytes, types[0], &length))
        return bench_fail(error, "%s: does not include kernels/cuda_args.h, the contract of %s", unit->file,
                          lab_kernel_name(number));
    if (!definition(unit->text.bytes, types[0], &length))
        return bench_fail(error, "%s: does not include kernels/%s/%s.h, the contract of %s", unit->file,
                          lab_kernel_stage(number), lab_kernel_stage(number), lab_kernel_name(number));
    for (int t = 0; t < count; t++) {
        const char *at = definition(unit->text.bytes, types[t], &length);
        if (at)
            append_words(words, sizeof words, at, length, types, &count);
    }
    lab_hash(sha, words, strlen(words));
    return true;
}
