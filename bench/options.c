// SPDX-License-Identifier: Apache-2.0
//
// getopt_long with messages of the tool's own form.

#include "bench/options.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const bench_case_name[BENCH_CASES + 1] = {"prompt", "decode", "score", "topk", "score-topk",
                                                      "prep",   "merge",  "step",  "all"};
const char *const bench_selection_name[BENCH_SCORED + 1] = {"random", "walk", "recent", "scored"};
static const char *const type_names[] = {"f32", "f16", "bf16", "i8"}; // from QSA_F32 = 1 on
static const char *const backend_names[] = {"cpu", "cuda"};
static const char *const class_names[] = {"strict", "fast"};

enum {
    MOST_TOKENS = 1 << 20,
    MOST_CELLS = 1 << 28,
    MOST_SEQS = 4096,
    MOST_SAMPLES = 1000,
    LEAST_SAMPLES = 3,
    SAMPLES = 15,
};

const char *bench_type_name(qsa_type type) {
    return type >= QSA_F32 && type <= QSA_I8 ? type_names[type - QSA_F32] : "?";
}

static bool parse_count(const char *option, const char *text, int32_t least, int32_t most, int32_t *value,
                        bench_error *error) {
    char *end = NULL;
    errno = 0;
    const long long number = strtoll(text, &end, 10);
    if (end == text || *end || errno || number < least || number > most)
        return bench_fail(error, "%s %s: expected an integer from %d to %d", option, text, (int)least, (int)most);
    *value = (int32_t)number;
    return true;
}

// Index of the word among names[0..n-1].
static bool parse_word(const char *option, const char *text, const char *const *names, int n, int *value,
                       bench_error *error) {
    char list[128] = "";
    size_t used = 0;
    for (int i = 0; i < n; i++) {
        if (strcmp(text, names[i]) == 0) {
            *value = i;
            return true;
        }
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", names[i]);
    }
    return bench_fail(error, "%s %s: expected one of %s", option, text, list);
}

static bool parse_kernel(const char *text, bench_options *o, bench_error *error) {
    bench_kernel *kernel = &o->kernels[o->n_kernels];
    const char *equals = strchr(text, '=');
    const size_t stage = equals ? (size_t)(equals - text) : 0;
    if (o->n_kernels == BENCH_MAX_KERNELS)
        return bench_fail(error, "--kernel %s: at most %d times", text, BENCH_MAX_KERNELS);
    if (stage == 0 || stage >= sizeof kernel->stage || !equals[1] || strlen(equals + 1) >= sizeof kernel->name)
        return bench_fail(error, "--kernel %s: expected STAGE=NAME (qsa info lists both)", text);
    *kernel = (bench_kernel){{0}, {0}};
    memcpy(kernel->stage, text, stage);
    memcpy(kernel->name, equals + 1, strlen(equals + 1));
    o->n_kernels++;
    return true;
}

static bool parse_logits(const char *text, bench_options *o, bench_error *error) {
    o->wide = strcmp(text, "wide") == 0;
    if (o->wide) {
        o->logits = BENCH_WIDE_LOGITS;
        return true;
    }
    char *end = NULL;
    o->logits = strtod(text, &end);
    if (end == text || *end || !isfinite(o->logits) || !(o->logits >= 1e-3) || !(o->logits <= 1e3))
        return bench_fail(error, "--logits %s: expected a number from 0.001 to 1000, or wide", text);
    return true;
}

enum {
    OPT_TOKENS = 256,
    OPT_POS,
    OPT_KV,
    OPT_BLOCK_KEYS,
    OPT_BACKEND,
    OPT_GRAPH,
    OPT_CLASS,
    OPT_KERNEL,
    OPT_THREADS,
    OPT_SEQS,
    OPT_SELECTION,
    OPT_LOGITS,
    OPT_SCREEN,
    OPT_COLD,
    OPT_HOT,
    OPT_AGAINST,
    OPT_SAMPLES,
    OPT_JSON,
    OPT_PLOT, // last: left out where there are no pictures
};

static const struct option table[] = {{"tokens", required_argument, NULL, OPT_TOKENS},
                                      {"pos", required_argument, NULL, OPT_POS},
                                      {"kv", required_argument, NULL, OPT_KV},
                                      {"block-keys", required_argument, NULL, OPT_BLOCK_KEYS},
                                      {"backend", required_argument, NULL, OPT_BACKEND},
                                      {"graph", no_argument, NULL, OPT_GRAPH},
                                      {"class", required_argument, NULL, OPT_CLASS},
                                      {"kernel", required_argument, NULL, OPT_KERNEL},
                                      {"threads", required_argument, NULL, OPT_THREADS},
                                      {"seqs", required_argument, NULL, OPT_SEQS},
                                      {"selection", required_argument, NULL, OPT_SELECTION},
                                      {"logits", required_argument, NULL, OPT_LOGITS},
                                      {"screen", no_argument, NULL, OPT_SCREEN},
                                      {"cold", no_argument, NULL, OPT_COLD},
                                      {"hot", no_argument, NULL, OPT_HOT},
                                      {"against", required_argument, NULL, OPT_AGAINST},
                                      {"samples", required_argument, NULL, OPT_SAMPLES},
                                      {"json", no_argument, NULL, OPT_JSON},
                                      {"plot", required_argument, NULL, OPT_PLOT},
                                      {0}};
enum { OPTIONS = sizeof table / sizeof table[0] };

static bool store(int code, const char *text, bench_options *o, bench_error *error) {
    int word = 0;
    bool right = true;
    switch (code) {
    case OPT_TOKENS:
        return parse_count("--tokens", text, 1, MOST_TOKENS, &o->tokens, error);
    case OPT_POS:
        return parse_count("--pos", text, 0, MOST_CELLS, &o->pos, error);
    case OPT_AGAINST:
        return parse_count("--against", text, 0, MOST_CELLS, &o->against, error);
    case OPT_THREADS:
        return parse_count("--threads", text, 1, 1024, &o->threads, error);
    case OPT_SEQS:
        return parse_count("--seqs", text, 1, MOST_SEQS, &o->seqs, error);
    case OPT_SAMPLES:
        return parse_count("--samples", text, LEAST_SAMPLES, MOST_SAMPLES, &o->samples, error);
    case OPT_KV:
        right = parse_word("--kv", text, type_names, 4, &word, error);
        o->kv = (qsa_type)(word + QSA_F32);
        return right;
    case OPT_BLOCK_KEYS:
        right = parse_word("--block-keys", text, type_names, 3, &word, error);
        o->block_keys = (qsa_type)(word + QSA_F32);
        return right;
    case OPT_CLASS:
        right = parse_word("--class", text, class_names, 2, &word, error);
        o->kernel_class = word ? QSA_CLASS_FAST : QSA_CLASS_STRICT;
        o->class_given = true;
        return right;
    case OPT_BACKEND:
        right = parse_word("--backend", text, backend_names, 2, &word, error);
        o->backend = (qsa_backend)word;
        return right;
    case OPT_SELECTION:
        right = parse_word("--selection", text, bench_selection_name, BENCH_SCORED, &word, error);
        o->selection = (bench_selection)word;
        return right;
    case OPT_KERNEL:
        return parse_kernel(text, o, error);
    case OPT_LOGITS:
        return parse_logits(text, o, error);
    default:
        o->screen = o->screen || code == OPT_SCREEN;
        o->json = o->json || code == OPT_JSON;
        o->graph = o->graph || code == OPT_GRAPH;
        o->cold = code == OPT_COLD || (o->cold && code != OPT_HOT);
        o->plot = code == OPT_PLOT ? text : o->plot;
        return true;
    }
}

// What getopt_long did not take.
static bool refuse_option(int argc, char **argv, int before, int code, bench_error *error) {
    for (const struct option *o = table; o->name; o++)
        if (optopt == o->val)
            return bench_fail(error, code == ':' ? "option --%s needs a value" : "option --%s takes none", o->name);
    if (optopt)
        return bench_fail(error, "unknown option -%c", optopt);
    return bench_fail(error, "unknown option %s", argv[optind > before && optind <= argc ? optind - 1 : before]);
}

static bool check(const bench_options *o, bench_error *error) {
    if (o->id == BENCH_NONE && !o->plot)
        return bench_fail(error, "no CASE given: prompt, decode, score, topk, score-topk, prep, merge, step or all");
    if (o->id != BENCH_NONE && o->plot)
        return bench_fail(error, "--plot draws every stage and takes no CASE, and there is %s", bench_case_name[o->id]);
    if (o->plot && o->json)
        return bench_fail(error, "--plot writes a picture, --json prints numbers: one of them");
    if (o->graph && o->backend == QSA_BACKEND_CPU)
        return bench_fail(error, "--graph is for --backend cuda");
    if (o->backend == QSA_BACKEND_CUDA && (o->plot || o->against >= 0 || o->screen || o->threads != 1))
        return bench_fail(error, "--backend cuda takes no --plot, --against, --screen or --threads");
    if (o->against >= 0 && o->id != BENCH_STEP)
        return bench_fail(error, "--against is for step");
    return true;
}

bool bench_parse(bench_options *o, int argc, char **argv, bool may_plot, bench_error *error) {
    *o = (bench_options){.id = BENCH_NONE,
                         .tokens = -1,
                         .pos = -1,
                         .against = -1,
                         .kv = QSA_I8,
                         .block_keys = QSA_F32,
                         .threads = 1,
                         .seqs = 1,
                         .logits = 1,
                         .samples = SAMPLES};
    struct option known[OPTIONS];
    memcpy(known, table, sizeof table);
    if (!may_plot)
        known[OPTIONS - 2] = known[OPTIONS - 1];
    optind = 1;
    opterr = 0;
    for (;;) {
        const int before = optind;
        optopt = 0;
        const int code = getopt_long(argc, argv, ":", known, NULL);
        if (code == -1)
            break;
        if (code == '?' || code == ':')
            return refuse_option(argc, argv, before, code, error);
        if (!store(code, optarg, o, error))
            return false;
    }
    if (optind < argc) {
        int word = 0;
        if (!parse_word("CASE", argv[optind], bench_case_name, BENCH_CASES + 1, &word, error))
            return false;
        o->id = (bench_id)word;
    }
    if (optind + 1 < argc)
        return bench_fail(error, "one CASE expected, and there is also %s", argv[optind + 1]);
    if (o->backend == QSA_BACKEND_CUDA && !o->class_given)
        o->kernel_class = QSA_CLASS_FAST;
    return check(o, error);
}
