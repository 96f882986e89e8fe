// SPDX-License-Identifier: Apache-2.0
//
// Option values, and getopt_long with messages of the tool's own form.

#include "args.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void args_start(void) {
    optind = 1;
    opterr = 0;
}

int args_next(int argc, char **argv, const char *short_options, const struct option *options, tool_error *error) {
    // getopt_long names a wrong short option in optopt and a wrong long one by the word it has just passed.
    const int before = optind;
    optopt = 0;
    const int code = getopt_long(argc, argv, short_options, options, NULL);
    if (code != '?' && code != ':') {
        return code;
    }
    const char *word = argv[optind > before ? optind - 1 : before];
    for (const struct option *o = options; o->name; o++) {
        if (optopt == o->val) {
            tool_fail(error, o->has_arg == required_argument ? "option --%s needs a value" : "option --%s takes none",
                      o->name);
            return -2;
        }
    }
    if (optopt && strchr(short_options, optopt)) {
        tool_fail(error, "option -%c needs a value", optopt);
    } else if (optopt) {
        tool_fail(error, "unknown option -%c (qsa help %s)", optopt, argv[0]);
    } else {
        tool_fail(error, "unknown option %s (qsa help %s)", word, argv[0]);
    }
    return -2;
}

bool args_one_file(int argc, char **argv, const char **file, tool_error *error) {
    if (optind >= argc) {
        return tool_fail(error, "no FILE given (qsa help %s)", argv[0]);
    }
    if (optind + 1 < argc) {
        return tool_fail(error, "one FILE expected, and there is also %s", argv[optind + 1]);
    }
    *file = argv[optind];
    return true;
}

bool args_count(const char *option, const char *text, int32_t least, int32_t most, int32_t *value, tool_error *error) {
    char *end = NULL;
    errno = 0;
    const long long number = strtoll(text, &end, 10);
    if (end == text || *end || errno || number < least || number > most) {
        return tool_fail(error, "%s %s: expected an integer from %d to %d", option, text, least, most);
    }
    *value = (int32_t)number;
    return true;
}

bool args_real(const char *option, const char *text, double *value, tool_error *error) {
    char *end = NULL;
    const double number = strtod(text, &end);
    if (end == text || *end || !isfinite(number) || number < 0) {
        return tool_fail(error, "%s %s: expected a number, 0 or above", option, text);
    }
    *value = number;
    return true;
}

typedef struct choice {
    const char *name;
    int value;
} choice;

static const choice kv_types[] = {{"f32", QSA_F32}, {"f16", QSA_F16}, {"bf16", QSA_BF16}, {"i8", QSA_I8}, {0}};
static const choice key_types[] = {{"f32", QSA_F32}, {"f16", QSA_F16}, {"bf16", QSA_BF16}, {0}};
static const choice rules[] = {{"official", QSA_RULE_OFFICIAL}, {"cut", QSA_RULE_CUT}, {0}};
static const choice classes[] = {{"strict", QSA_CLASS_STRICT}, {"fast", QSA_CLASS_FAST}, {0}};
static const choice backends[] = {{"cpu", QSA_BACKEND_CPU}, {"cuda", QSA_BACKEND_CUDA}, {0}};

static bool choose(const char *option, const char *text, const choice *choices, int *value, tool_error *error) {
    char list[64] = "";
    size_t used = 0;
    for (const choice *c = choices; c->name; c++) {
        if (strcmp(c->name, text) == 0) {
            *value = c->value;
            return true;
        }
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", c->name);
    }
    return tool_fail(error, "%s %s: expected one of %s", option, text, list);
}

static bool add_kernel(const char *text, pipeline_options *options, tool_error *error) {
    const char *equals = strchr(text, '=');
    const size_t stage = equals ? (size_t)(equals - text) : 0;
    pipeline_kernel *kernel = &options->kernels[options->n_kernels];
    if (options->n_kernels == PIPELINE_MAX_KERNELS) {
        return tool_fail(error, "--kernel %s: at most %d times", text, PIPELINE_MAX_KERNELS);
    }
    if (stage == 0 || stage >= sizeof kernel->stage || !equals[1] || strlen(equals + 1) >= sizeof kernel->name) {
        return tool_fail(error, "--kernel %s: expected STAGE=NAME (qsa info lists both)", text);
    }
    memset(kernel, 0, sizeof *kernel);
    memcpy(kernel->stage, text, stage);
    memcpy(kernel->name, equals + 1, strlen(equals + 1));
    options->n_kernels++;
    return true;
}

bool args_pipeline(int code, const char *value, pipeline_options *options, tool_error *error) {
    int chosen = 0;
    bool right = false;
    switch (code) {
    case ARGS_KV:
        right = choose("--kv", value, kv_types, &chosen, error);
        options->kv = right ? (qsa_type)chosen : options->kv;
        return right;
    case ARGS_BLOCK_KEYS:
        right = choose("--block-keys", value, key_types, &chosen, error);
        options->block_keys = right ? (qsa_type)chosen : options->block_keys;
        return right;
    case ARGS_SELECT:
        right = choose("--select", value, rules, &chosen, error);
        options->rule = right ? (qsa_rule)chosen : options->rule;
        return right;
    case ARGS_CLASS:
        right = choose("--class", value, classes, &chosen, error);
        options->kernel_class = right ? (qsa_class)chosen : options->kernel_class;
        options->class_given = right;
        return right;
    case ARGS_BACKEND:
        right = choose("--backend", value, backends, &chosen, error);
        options->backend = right ? (qsa_backend)chosen : options->backend;
        if (!options->class_given) {
            options->kernel_class = options->backend == QSA_BACKEND_CUDA ? QSA_CLASS_FAST : QSA_CLASS_STRICT;
        }
        return right;
    case ARGS_KERNEL:
        return add_kernel(value, options, error);
    case ARGS_THREADS:
        return args_count("--threads", value, 1, 1024, &options->threads, error);
    case ARGS_CHUNK:
        return args_count("--chunk", value, 1, INT32_MAX, &options->chunk, error);
    case ARGS_ALL_ROWS:
        options->all_rows = true;
        return true;
    default:
        return tool_fail(error, "option %d is none of a pipeline", code);
    }
}
