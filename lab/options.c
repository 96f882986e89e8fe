// SPDX-License-Identifier: Apache-2.0
//
// One table of options: which commands take each, and what its value may be.
#include "lab/options.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum option_code {
    CANDIDATE = 1000,
    BASELINE,
    FROM,
    WHERE,
    OUT,
    FROZEN,
    LEDGER,
    SEED,
    CASES,
    PROCESSES,
    PAIRS,
    TOKENS,
    POS,
    LAYERS,
    EDGE,
    FLOOR,
    LIMIT,
    JSON,
    BRIEF,
    BOUND,
    PREP_ONLY,
    SHORT_GRID,
} option_code;

static const struct {
    const char *name;
    option_code code;
    bool value;
    const char *commands; // names with blanks around
} known[] = {
    {"candidate", CANDIDATE, true, " prove time run compare pipeline "},
    {"baseline", BASELINE, true, " prove time run compare pipeline "},
    {"from", FROM, true, " freeze "},
    {"where", WHERE, true, " freeze prove time run compare "},
    {"out", OUT, true, " report "},
    {"frozen", FROZEN, true, " list freeze prove time run compare pipeline "},
    {"ledger", LEDGER, true, " list run report "},
    {"seed", SEED, true, " prove time run compare pipeline cheats "},
    {"cases", CASES, true, " prove time run "},
    {"processes", PROCESSES, true, " time run compare cheats "},
    {"pairs", PAIRS, true, " time run compare pipeline cheats "},
    {"tokens", TOKENS, true, " compare pipeline "},
    {"pos", POS, true, " compare pipeline "},
    {"layers", LAYERS, true, " compare "},
    {"edge", EDGE, true, " compare pipeline "},
    {"floor", FLOOR, true, " time run compare "},
    {"limit", LIMIT, true, " time run compare cheats "},
    {"json", JSON, false, " list freeze prove time run judge report cheats compare pipeline layout "},
    {"short", BRIEF, false, " cheats "},
    {"bound", BOUND, false, " prove time run "},
    {"prep-only", PREP_ONLY, false, " pipeline "},
    {"short-grid", SHORT_GRID, false, " prove time run "},
};
enum { KNOWN = sizeof known / sizeof known[0] };

static bool integer(const char *name, const char *text, int32_t least, int32_t most, int32_t *value,
                    bench_error *error) {
    char *end = NULL;
    errno = 0;
    const long long number = strtoll(text, &end, 10);
    if (end == text || *end || errno || number < least || number > most)
        return bench_fail(error, "--%s %s: expected an integer from %d to %d", name, text, (int)least, (int)most);
    *value = (int32_t)number;
    return true;
}

static bool real(const char *name, const char *text, double least, double most, double *value, bench_error *error) {
    char *end = NULL;
    const double number = strtod(text, &end);
    if (end == text || *end || !(number >= least && number <= most))
        return bench_fail(error, "--%s %s: expected a number from %g to %g", name, text, least, most);
    *value = number;
    return true;
}

static bool read_seed(const char *text, uint64_t *seed, bench_error *error) {
    char *end = NULL;
    errno = 0;
    *seed = strtoull(text, &end, 0);
    return (end != text && !*end && !errno && text[0] != '-') ||
           bench_fail(error, "--seed %s: expected an integer of 64 bits, 0 or above", text);
}

static bool path(const char *name, const char *text, char out[LAB_PATH], bench_error *error) {
    return snprintf(out, LAB_PATH, "%s", text) < LAB_PATH ||
           bench_fail(error, "--%s %.40s...: longer than %d characters", name, text, LAB_PATH - 1);
}

static bool store(lab_options *o, option_code code, const char *value, bench_error *error) {
    switch (code) {
    case CANDIDATE:
        o->candidate = value;
        return true;
    case BASELINE:
        o->baseline = value;
        return true;
    case FROM:
        o->from = value;
        return true;
    case WHERE:
        o->where = value;
        return true;
    case OUT:
        o->out = value;
        return true;
    case FROZEN:
        return path("frozen", value, o->frozen, error);
    case LEDGER:
        return path("ledger", value, o->ledger, error);
    case SEED:
        return read_seed(value, &o->seed, error);
    case CASES:
        return integer("cases", value, 200, 1000000, &o->cases, error);
    case PROCESSES:
        return integer("processes", value, 5, 99, &o->processes, error);
    case PAIRS:
        return integer("pairs", value, 4, 100, &o->pairs, error);
    case TOKENS:
        o->has_tokens = true;
        return integer("tokens", value, 1, 2048, &o->tokens, error);
    case POS:
        o->has_pos = true;
        return integer("pos", value, 0, 32000, &o->pos, error);
    case LAYERS:
        return integer("layers", value, 1, 1000, &o->layers, error);
    case EDGE:
        return integer("edge", value, 0, 2, &o->edge, error);
    case FLOOR:
        return real("floor", value, 0.1, 50, &o->floor, error);
    case LIMIT:
        return real("limit", value, 1, 600, &o->limit, error);
    case JSON:
        o->json = true;
        return true;
    case BRIEF:
        o->brief = true;
        return true;
    case BOUND:
        o->bound = true;
        return true;
    case PREP_ONLY:
        o->prep_only = true;
        return true;
    case SHORT_GRID:
        o->short_grid = true;
        return true;
    }
    return false;
}

static bool defaults(lab_options *o, bench_error *error) {
    *o = (lab_options){.seed = 5, .cases = 200, .processes = 9, .pairs = 12, .layers = 12, .limit = 60};
    return lab_join(o->frozen, lab_root(), "lab/frozen", error) && lab_join(o->ledger, lab_root(), "lab/ledger", error);
}

static const char *name_of(int code) {
    for (int i = 0; i < KNOWN; i++)
        if ((int)known[i].code == code)
            return known[i].name;
    return "?";
}

bool lab_options_read(lab_options *options, int argc, char **argv, bench_error *error) {
    struct option table[KNOWN + 1] = {{0}};
    char command[40];
    int count = 0, code;
    if (!defaults(options, error))
        return false;
    snprintf(command, sizeof command, " %.32s ", argv[0]);
    for (int i = 0; i < KNOWN; i++)
        if (strstr(known[i].commands, command))
            table[count++] = (struct option){known[i].name, known[i].value ? required_argument : no_argument, NULL,
                                             (int)known[i].code};
    optind = 1;
    opterr = 0;
    for (;;) {
        const int before = optind;
        optopt = 0;
        code = getopt_long(argc, argv, ":o:", table, NULL);
        if (code == -1)
            break;
        if (code == 'o' && strcmp(argv[0], "report") == 0)
            code = OUT;
        const char *word = argv[optind > before ? optind - 1 : before];
        if (code == ':' && optopt >= CANDIDATE)
            return bench_fail(error, "option --%s needs a value", name_of(optopt));
        if (code == ':')
            return bench_fail(error, "option -%c needs a value", optopt);
        if (code == '?' && optopt >= CANDIDATE)
            return bench_fail(error, "option --%s takes no value", name_of(optopt));
        if (code < CANDIDATE)
            return bench_fail(error, "unknown option %s (qsa-lab help %s)", word, argv[0]);
        if (!store(options, (option_code)code, optarg, error))
            return false;
    }
    for (; optind < argc; optind++) {
        if (options->operands == LAB_OPERANDS)
            return bench_fail(error, "%s: more than %d operands", argv[optind], LAB_OPERANDS);
        options->operand[options->operands++] = argv[optind];
    }
    return true;
}

bool lab_one_operand(const lab_options *options, const char *command, const char *what, bench_error *error) {
    if (options->operands == 0)
        return bench_fail(error, "no %s given (qsa-lab help %s)", what, command);
    if (options->operands > 1)
        return bench_fail(error, "one %s expected, and there is also %s", what, options->operand[1]);
    return true;
}
