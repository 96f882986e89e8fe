// SPDX-License-Identifier: Apache-2.0
//
// Reads LAUNCH lines and evaluates their expressions: 64-bit integers, + - * / % ( ) == != < <= > >= && ||, and min(a,b),
// max(a,b), up(a,b) (a / b, rounded up). Blanks end a word, so expressions have none. Division by zero and overflow are refused.
#include "lab/launch.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static bool fail(char *why, size_t size, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(why, size, format, list);
    va_end(list);
    return false;
}

// ---- Expressions --------------------------------------------------------------------------------

typedef struct parser {
    const char *at;
    const lab_launch_values *values;
    int depth;
    const char *problem; // NULL: none so far
} parser;

enum { DEEPEST = 40 };

static int64_t either(parser *p);

static bool word_character(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

static bool take(parser *p, const char *sign) {
    const size_t length = strlen(sign);
    if (strncmp(p->at, sign, length) != 0)
        return false;
    p->at += length;
    return true;
}

static int64_t wrong(parser *p, const char *problem) {
    if (!p->problem)
        p->problem = problem;
    return 0;
}

static int64_t divide(parser *p, int64_t a, int64_t b, bool rest) {
    if (b == 0 || (b == -1 && a == INT64_MIN))
        return wrong(p, "divides by zero");
    return rest ? a % b : a / b;
}

static int64_t multiply(parser *p, int64_t a, int64_t b) {
    int64_t out = 0;
    return __builtin_mul_overflow(a, b, &out) ? wrong(p, "is beyond 64 bits") : out;
}

static int64_t add(parser *p, int64_t a, int64_t b, bool minus) {
    int64_t out = 0;
    const bool over = minus ? __builtin_sub_overflow(a, b, &out) : __builtin_add_overflow(a, b, &out);
    return over ? wrong(p, "is beyond 64 bits") : out;
}

static int64_t number(parser *p) {
    int64_t x = 0;
    for (; isdigit((unsigned char)*p->at); p->at++)
        x = add(p, multiply(p, x, 10), *p->at - '0', false);
    return word_character(*p->at) ? wrong(p, "has a malformed number") : x;
}

static int64_t function(parser *p, char kind) {
    const int64_t a = either(p);
    if (!take(p, ","))
        return wrong(p, "lacks a comma in min, max or up");
    const int64_t b = either(p);
    if (!take(p, ")"))
        return wrong(p, "lacks a closing bracket");
    if (kind == 'u')
        return divide(p, add(p, a, b - 1, false), b, false);
    return (kind == 'i') == (a < b) ? a : b;
}

static int64_t name(parser *p) {
    static const char *const names[] = {
#define NAME_TEXT(one) #one,
        LAB_LAUNCH_NAMES(NAME_TEXT)
#undef NAME_TEXT
    };
    size_t length = 0;
    while (word_character(p->at[length]))
        length++;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == length && strncmp(p->at, names[i], length) == 0) {
            p->at += length;
            int64_t x;
            memcpy(&x, (const char *)p->values + i * sizeof x, sizeof x);
            return x;
        }
    return wrong(p, "has a name that a launch does not know");
}

static int64_t atom(parser *p) {
    if (++p->depth > DEEPEST)
        return wrong(p, "is nested too deep");
    int64_t x;
    if (take(p, "(")) {
        x = either(p);
        if (!take(p, ")"))
            x = wrong(p, "lacks a closing bracket");
    } else if (take(p, "-")) {
        x = multiply(p, -1, atom(p));
    } else if (take(p, "min(")) {
        x = function(p, 'i');
    } else if (take(p, "max(")) {
        x = function(p, 'a');
    } else if (take(p, "up(")) {
        x = function(p, 'u');
    } else if (isdigit((unsigned char)*p->at)) {
        x = number(p);
    } else {
        x = name(p);
    }
    p->depth--;
    return x;
}

static int64_t product(parser *p) {
    int64_t x = atom(p);
    while (!p->problem) {
        if (take(p, "*"))
            x = multiply(p, x, atom(p));
        else if (take(p, "/"))
            x = divide(p, x, atom(p), false);
        else if (take(p, "%"))
            x = divide(p, x, atom(p), true);
        else
            break;
    }
    return x;
}

static int64_t sum(parser *p) {
    int64_t x = product(p);
    while (!p->problem) {
        if (take(p, "+"))
            x = add(p, x, product(p), false);
        else if (take(p, "-"))
            x = add(p, x, product(p), true);
        else
            break;
    }
    return x;
}

static int64_t comparison(parser *p) {
    const int64_t x = sum(p);
    if (take(p, "=="))
        return x == sum(p);
    if (take(p, "!="))
        return x != sum(p);
    if (take(p, "<="))
        return x <= sum(p);
    if (take(p, ">="))
        return x >= sum(p);
    if (take(p, "<"))
        return x < sum(p);
    if (take(p, ">"))
        return x > sum(p);
    return x;
}

static int64_t both(parser *p) {
    int64_t x = comparison(p);
    while (!p->problem && take(p, "&&")) {
        const int64_t y = comparison(p);
        x = x && y;
    }
    return x;
}

static int64_t either(parser *p) {
    int64_t x = both(p);
    while (!p->problem && take(p, "||")) {
        const int64_t y = both(p);
        x = x || y;
    }
    return x;
}

static bool evaluate(const char *text, const lab_launch_values *values, int64_t *out, char *why, size_t size) {
    parser p = {.at = text, .values = values};
    *out = either(&p);
    if (!p.problem && *p.at)
        p.problem = "goes on behind its end";
    return !p.problem || fail(why, size, "LAUNCH: %s %s", text, p.problem);
}

// ---- Lines --------------------------------------------------------------------------------------

static bool store(char out[LAB_LAUNCH_TEXT], const char *from, size_t length, char *why, size_t size) {
    if (length == 0 || length >= LAB_LAUNCH_TEXT)
        return fail(why, size, "LAUNCH: %.*s: expected 1 to %d characters", (int)(length < 40 ? length : 40), from,
                    LAB_LAUNCH_TEXT - 1);
    memcpy(out, from, length);
    out[length] = '\0';
    return true;
}

// Up to `most` expressions with commas between them, those within brackets not counted.
static int split(const char *value, size_t length, const char *piece[], size_t lengths[], int most) {
    int count = 0, depth = 0;
    size_t start = 0;
    for (size_t i = 0; i <= length; i++) {
        depth += i < length ? (value[i] == '(') - (value[i] == ')') : 0;
        if (i < length && (value[i] != ',' || depth > 0))
            continue;
        if (count == most)
            return -1;
        piece[count] = value + start;
        lengths[count++] = i - start;
        start = i + 1;
    }
    return count;
}

static bool read_three(char out[3][LAB_LAUNCH_TEXT], const char *value, size_t length, char *why, size_t size) {
    const char *piece[3];
    size_t lengths[3];
    const int count = split(value, length, piece, lengths, 3);
    if (count < 1)
        return fail(why, size, "LAUNCH: %.*s: expected one to three expressions", (int)length, value);
    for (int i = 0; i < 3; i++)
        if (!store(out[i], i < count ? piece[i] : "1", i < count ? lengths[i] : 1, why, size))
            return false;
    return true;
}

static bool read_args(lab_launch *l, const char *value, size_t length, char *why, size_t size) {
    const char *piece[LAB_LAUNCH_ARGS];
    size_t lengths[LAB_LAUNCH_ARGS];
    l->args = split(value, length, piece, lengths, LAB_LAUNCH_ARGS);
    for (int i = 0; i < l->args; i++) {
        const bool wide = strncmp(piece[i], "int64:", 6) == 0, more = strncmp(piece[i], "also:", 5) == 0;
        const size_t skip = more ? 5 : 6;
        if ((!wide && !more && strncmp(piece[i], "int32:", 6) != 0) || lengths[i] <= skip)
            return fail(why, size, "LAUNCH: args=%.*s: expected int32:E or int64:E", (int)length, value);
        if (more && (i == 0 || l->arg_bytes[i - 1] == 8))
            return fail(why, size, "LAUNCH: args=%.*s: also: continues an int32:", (int)length, value);
        l->arg_bytes[i] = wide ? 8 : more ? 0 : 4;
        if (!store(l->arg[i], piece[i] + skip, lengths[i] - skip, why, size))
            return false;
    }
    return l->args >= 0 || fail(why, size, "LAUNCH: more than %d args", LAB_LAUNCH_ARGS);
}

static bool read_word(lab_launch *l, const char *word, size_t length, char *why, size_t size) {
    const char *equals = memchr(word, '=', length);
    const size_t key = equals ? (size_t)(equals - word) : 0, rest = length - key - (equals != NULL);
    const char *value = word + key + 1;
    if (key == 6 && strncmp(word, "kernel", key) == 0)
        return store(l->kernel, value, rest, why, size);
    if (key == 4 && strncmp(word, "when", key) == 0)
        return store(l->when, value, rest, why, size);
    if (key == 6 && strncmp(word, "shared", key) == 0)
        return store(l->shared, value, rest, why, size);
    if (key == 7 && strncmp(word, "cluster", key) == 0)
        return store(l->cluster, value, rest, why, size);
    if (key == 4 && strncmp(word, "grid", key) == 0)
        return read_three(l->grid, value, rest, why, size);
    if (key == 5 && strncmp(word, "block", key) == 0)
        return read_three(l->block, value, rest, why, size);
    if (key == 4 && strncmp(word, "args", key) == 0)
        return read_args(l, value, rest, why, size);
    return fail(why, size, "LAUNCH: %.*s: expected kernel= when= grid= block= shared= cluster= args=", (int)length,
                word);
}

// Every expression of the line once, so that a typing error is found before a device is.
static bool try_all(const lab_launch *l, char *why, size_t size) {
    static const lab_launch_values ones = {
#define ONE(name) .name = 1,
        LAB_LAUNCH_NAMES(ONE)
#undef ONE
    };
    const char *all[9 + LAB_LAUNCH_ARGS] = {l->when,     l->grid[0],  l->grid[1], l->grid[2], l->block[0],
                                            l->block[1], l->block[2], l->shared,  l->cluster};
    int64_t ignored;
    for (int i = 0; i < l->args; i++)
        all[9 + i] = l->arg[i];
    for (int i = 0; i < 9 + l->args; i++)
        if (all[i][0] && !evaluate(all[i], &ones, &ignored, why, size))
            return false;
    return true;
}

static bool read_line(lab_launch *l, const char *line, size_t length, char *why, size_t size) {
    memset(l, 0, sizeof *l);
    snprintf(l->shared, sizeof l->shared, "0");
    snprintf(l->cluster, sizeof l->cluster, "1");
    for (size_t at = 0; at < length;) {
        size_t n = 0;
        while (at + n < length && line[at + n] != ' ' && line[at + n] != '\r')
            n++;
        if (n > 0 && !read_word(l, line + at, n, why, size))
            return false;
        at += n ? n : 1;
    }
    if (!l->kernel[0] || !l->grid[0][0] || !l->block[0][0])
        return fail(why, size, "LAUNCH: %.*s: kernel=, grid= and block= are needed", (int)(length < 60 ? length : 60),
                    line);
    return try_all(l, why, size);
}

bool lab_launch_read(lab_launch list[LAB_LAUNCHES], int *count, const char *text, char *why, size_t size) {
    static const char start[] = "// LAUNCH: ";
    *count = 0;
    for (const char *at = text; at && *at; at = strchr(at, '\n'), at += at != NULL) {
        if (strncmp(at, start, sizeof start - 1) != 0)
            continue;
        const char *line = at + sizeof start - 1;
        if (*count == LAB_LAUNCHES)
            return fail(why, size, "LAUNCH: more than %d lines", LAB_LAUNCHES);
        if (!read_line(&list[(*count)++], line, strcspn(line, "\n"), why, size))
            return false;
    }
    return *count > 0 || fail(why, size, "has no line // LAUNCH: kernel=... grid=... block=... (docs/lab.md)");
}

int lab_launch_write(const lab_launch *l, const char *kernel, char *line, size_t size) {
    int n = snprintf(line, size, "// LAUNCH: kernel=%s%s%s grid=%s,%s,%s block=%s,%s,%s shared=%s cluster=%s", kernel,
                     l->when[0] ? " when=" : "", l->when, l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1],
                     l->block[2], l->shared, l->cluster);
    for (int i = 0; i < l->args && n > 0 && (size_t)n < size; i++)
        n += snprintf(line + n, size - (size_t)n, "%s%s:%s", i ? "," : " args=",
                      l->arg_bytes[i] == 8 ? "int64"
                      : l->arg_bytes[i]    ? "int32"
                                           : "also",
                      l->arg[i]);
    if (n > 0 && (size_t)n < size)
        n += snprintf(line + n, size - (size_t)n, "\n");
    return n;
}

static bool work_out(const lab_launch *l, const lab_launch_values *values, lab_launch_shape *shape, char *why,
                     size_t size) {
    for (int i = 0; i < 3; i++)
        if (!evaluate(l->grid[i], values, &shape->grid[i], why, size) ||
            !evaluate(l->block[i], values, &shape->block[i], why, size))
            return false;
    for (int i = 0; i < l->args; i++)
        if (!evaluate(l->arg[i], values, &shape->arg[i], why, size))
            return false;
    if (!evaluate(l->shared, values, &shape->shared, why, size) ||
        !evaluate(l->cluster, values, &shape->cluster, why, size))
        return false;
    const bool right = shape->block[0] > 0 && shape->block[1] > 0 && shape->block[2] > 0 && shape->shared >= 0 &&
                       shape->cluster >= 1 && shape->grid[0] >= 0 && shape->grid[1] >= 0 && shape->grid[2] >= 0 &&
                       shape->grid[0] <= INT32_MAX && shape->grid[1] <= 65535 && shape->grid[2] <= 65535;
    return right || fail(why, size, "LAUNCH: kernel=%s: a grid of %lld x %lld x %lld of %lld threads is none",
                         l->kernel, (long long)shape->grid[0], (long long)shape->grid[1], (long long)shape->grid[2],
                         (long long)shape->block[0]);
}

int lab_launch_choose(const lab_launch *list, int count, const lab_launch_values *values, lab_launch_shape *shape,
                      char *why, size_t size) {
    for (int i = 0; i < count; i++) {
        int64_t holds = 1;
        if (list[i].when[0] && !evaluate(list[i].when, values, &holds, why, size))
            return -1;
        if (holds)
            return work_out(&list[i], values, shape, why, size) ? i : -1;
    }
    fail(why, size, "LAUNCH: no line serves this call");
    return -1;
}
