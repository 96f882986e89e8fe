// SPDX-License-Identifier: Apache-2.0
//
// Table, paragraph and JSON of a check.

#include "check_report.h"

#include "io/io_util.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *status_name(check_status status) {
    static const char *const names[] = {"not in dump", "ok", "DIFFERS", "follows", "differs", "open"};
    return names[status];
}

static const char *status_id(check_status status) {
    static const char *const ids[] = {"absent", "ok", "differs", "follows", "untold", "open"};
    return ids[status];
}

// "token 2051 (2052 cells), head 3, dim 17", with the sequence where there are several.
typedef struct place_text {
    char text[160];
} place_text;

static place_text where(const check_report *report, result_tensor which) {
    const pipeline *run = report->run;
    const layer_file *file = run->file;
    const check_worst *worst = &report->result->stage[which].worst;
    const int32_t sequence = check_unit_sequence(run, which, worst->unit);
    const int32_t token = check_unit_token(run, which, worst->unit);
    const int32_t cells = file->token_cells[(int64_t)sequence * file->tokens + token];
    place_text at;
    int used = 0;
    if (file->batch > 1) {
        used = snprintf(at.text, sizeof at.text, "sequence %d, ", sequence);
    }
    used += snprintf(at.text + used, sizeof at.text - (size_t)used, "token %d (n = %d)", token, cells);
    const size_t left = sizeof at.text - (size_t)used;
    if (which == RESULT_SCORES) {
        snprintf(at.text + used, left, ", block %d", worst->dim);
    } else if (which == RESULT_OUT) {
        snprintf(at.text + used, left, ", dim %d", worst->dim);
    } else if (which != RESULT_SELECTED) {
        snprintf(at.text + used, left, ", head %d, dim %d", worst->head, worst->dim);
    } else if (worst->dim >= 0) {
        snprintf(at.text + used, left, ", first other token %d", worst->dim);
    }
    return at;
}

static void print_stage(const check_report *report, result_tensor which) {
    const check_stage *stage = &report->result->stage[which];
    const check_worst *worst = &stage->worst;
    if (stage->status == CHECK_ABSENT) {
        printf("%-9s not in dump\n", result_name(which));
        return;
    }
    if (stage->units == 0) {
        printf("%-9s %-8s no row to compare\n", result_name(which), status_name(stage->status));
        return;
    }
    printf("%-9s %-8s %9.2g %9.2g %7lld/%lld", result_name(which), status_name(stage->status), worst->error,
           stage->tolerance, (long long)stage->bad, (long long)stage->units);
    if (stage->bad && which == RESULT_SELECTED) {
        printf("  %s: %.0f cells, expected %.0f", where(report, which).text, worst->theirs, worst->ours);
    } else if (stage->bad) {
        printf("  %s: %.7g, expected %.7g", where(report, which).text, worst->theirs, worst->ours);
    }
    printf("\n");
}

// Prints words wrapped at 100 columns.
static void print_wrapped(const char *text) {
    int column = 0;
    while (*text) {
        const int word = (int)strcspn(text, " ");
        if (column && column + 1 + word > 100) {
            printf("\n");
            column = 0;
        }
        column += printf("%s%.*s", column ? " " : "", word, text);
        text += word;
        text += strspn(text, " ");
    }
    printf("\n");
}

// One sentence or two on a tensor that differs by itself.
static void print_reason(const check_report *report, result_tensor which, bool first) {
    const check_stage *stage = &report->result->stage[which];
    const char *name = result_name(which);
    char text[2048];
    if (stage->explained) {
        const check_words words = check_fault_words(&stage->fault, &report->run->file->geometry);
        snprintf(
            text, sizeof text,
            "%s %s: %lld of %lld %s. Likely reason: %s. Recomputed with this fault, %s agrees to %.1g (%d %s tried). "
            "What to do: %s.",
            name, first ? "is the first that goes wrong" : "goes wrong by itself too", (long long)stage->bad,
            (long long)stage->units, which == RESULT_K || which == RESULT_V ? "tokens" : "rows", words.cause, name,
            stage->left, stage->tried, which == RESULT_K || which == RESULT_V ? "tokens" : "rows", words.cure);
    } else {
        snprintf(
            text, sizeof text,
            "%s %s: %lld of %lld %s, worst at %s. Stage %s differs, reason not recognised: none of the known faults, "
            "each recomputed alone, gives these numbers. What to do: compare by hand at the place named, with the "
            "definition of this stage in docs/check.md; dump in float32 and every tensor, so that the stage is "
            "narrowed down.",
            name, first ? "is the first that goes wrong" : "goes wrong too", (long long)stage->bad,
            (long long)stage->units, which == RESULT_K || which == RESULT_V ? "tokens" : "rows",
            where(report, which).text, name);
    }
    print_wrapped(text);
}

// The first stage's fault, found in this one too (in other vectors).
static bool same_fault(const check_result *result, int which) {
    const check_stage *stage = &result->stage[which];
    const check_stage *first = &result->stage[result->first];
    return which != result->first && stage->status == CHECK_DIFFERS && stage->explained && first->explained &&
           stage->fault.kind == first->fault.kind && stage->fault.number == first->fault.number;
}

static void print_reasons(const check_report *report) {
    const check_result *result = report->result;
    char same[256] = "";
    print_reason(report, (result_tensor)result->first, true);
    for (int i = 0; i < RESULT_TENSORS; i++) {
        if (same_fault(result, i)) {
            const size_t used = strlen(same);
            snprintf(same + used, sizeof same - used, "%s%s%s", used ? ", " : "", result_name((result_tensor)i),
                     i == RESULT_SCORES ? " (by the block keys)" : "");
        } else if (i != result->first && result->stage[i].status == CHECK_DIFFERS) {
            print_reason(report, (result_tensor)i, false);
        }
    }
    if (*same) {
        char text[320];
        snprintf(text, sizeof text, "The same fault shows in: %s.", same);
        print_wrapped(text);
    }
}

void check_print_table(const check_report *report) {
    const check_result *result = report->result;
    const pipeline *run = report->run;
    printf("dump      %s\n", io_quote_string(report->dump_path).text);
    printf("against   %s\n", io_quote_string(report->against).text);
    printf("rows      %lld of %lld tokens, cache %s\n\n", (long long)run->attending, (long long)run->tokens,
           tool_type_name(run->options.kv));
    printf("tensor    status       error tolerance     bad/all     worst\n");
    bool follows = false;
    bool untold = false;
    bool open = false;
    for (int i = 0; i < RESULT_TENSORS; i++) {
        print_stage(report, (result_tensor)i);
        follows = follows || result->stage[i].status == CHECK_FOLLOWS;
        untold = untold || result->stage[i].status == CHECK_UNTOLD;
        open = open || result->stage[i].open > 0;
    }
    printf("\n");
    if (result->first < 0) {
        printf("no difference\n");
    } else {
        print_reasons(report);
    }
    if (follows) {
        print_wrapped("\"follows\": wrong, but just as the faults named here make it.");
    }
    if (untold) {
        print_wrapped(
            "\"differs\" in small letters: wrong, and what goes in is wrong for a reason not known, so nothing "
            "is said about this stage itself.");
    }
    if (open) {
        print_wrapped("Some rows of attn or out were left out: blocks tie for the last place of their selection, and "
                      "the dump has no selected to tell which were taken.");
    }
}

static json_t *number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *stage_json(const check_report *report, result_tensor which) {
    const check_stage *stage = &report->result->stage[which];
    const check_worst *worst = &stage->worst;
    json_t *object = json_pack("{s:s}", "status", status_id(stage->status));
    if (stage->status != CHECK_ABSENT && stage->units > 0) {
        json_t *rest =
            json_pack("{s:o, s:f, s:s, s:I, s:I, s:I}", "error", number(worst->error), "tolerance", stage->tolerance,
                      "precision", tool_type_name(stage->precision), "units", (json_int_t)stage->units, "bad",
                      (json_int_t)stage->bad, "open", (json_int_t)stage->open);
        json_object_update(object, rest);
        json_decref(rest);
    }
    if (stage->bad) {
        json_t *place = json_pack("{s:i, s:i, s:i, s:i, s:o, s:o}", "sequence",
                                  check_unit_sequence(report->run, which, worst->unit), "token",
                                  check_unit_token(report->run, which, worst->unit), "head", worst->head, "dim",
                                  worst->dim, "dump", number(worst->theirs), "expected", number(worst->ours));
        json_object_set_new(object, "worst", place);
    }
    if (stage->explained) {
        const check_words words = check_fault_words(&stage->fault, &report->run->file->geometry);
        json_object_set_new(object, "reason",
                            json_pack("{s:s, s:s, s:s, s:s, s:f}", "id", check_fault_id(&stage->fault), "place",
                                      check_fault_place(&stage->fault), "cause", words.cause, "cure", words.cure,
                                      "error", stage->left));
    }
    return object;
}

bool check_print_json(const check_report *report, tool_error *error) {
    const check_result *result = report->result;
    const check_stage *first = result->first < 0 ? NULL : &result->stage[result->first];
    json_t *stages = json_object();
    for (int i = 0; i < RESULT_TENSORS; i++) {
        json_object_set_new(stages, result_name((result_tensor)i), stage_json(report, (result_tensor)i));
    }
    json_t *object =
        json_pack("{s:s, s:s, s:s, s:I, s:o, s:s?, s:s?, s:s?, s:b}", "dump", io_quote_string(report->dump_path).text,
                  "against", io_quote_string(report->against).text, "kv", tool_type_name(report->run->options.kv),
                  "rows", (json_int_t)report->run->attending, "stages", stages, "first",
                  first ? result_name((result_tensor)result->first) : NULL, "reason",
                  first && first->explained ? check_fault_id(&first->fault) : NULL, "place",
                  first && first->explained ? check_fault_place(&first->fault) : NULL, "ok", result->first < 0);
    char *text = object ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(7)) : NULL;
    json_decref(object);
    if (!text) {
        return tool_fail(error, "no memory for the JSON object");
    }
    puts(text);
    free(text);
    return true;
}
