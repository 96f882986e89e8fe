// SPDX-License-Identifier: Apache-2.0
//
// Pictures of the report as SVG: every block of every process as a dot, the floors, the intervals; attempts over time.
#include "lab/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 880, HEIGHT = 300, LEFT = 56, RIGHT = 110, TOP = 14, BOTTOM = 34 };

typedef struct plot {
    FILE *to;
    double low, high; // percent
    int height;
} plot;

double report_percent(double d) {
    return expm1(d) * 100;
}

static double y_of(const plot *p, double percent) {
    const double clipped = percent < p->low ? p->low : percent > p->high ? p->high : percent;
    return TOP + (p->high - clipped) / (p->high - p->low) * (p->height - TOP - BOTTOM);
}

static double member(json_t *object, const char *key) {
    return json_number_value(json_object_get(object, key));
}

static double block_percent(json_t *block) {
    double t[4];
    for (size_t i = 0; i < 4; i++)
        t[i] = log(json_number_value(json_array_get(block, i + 1)));
    const double d = (t[1] + t[2] - t[0] - t[3]) / 2;
    return report_percent(json_integer_value(json_array_get(block, 0)) ? -d : d);
}

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// A range that shows the floors and nine tenths of the blocks; the rest lies on its edge.
static double range_of(json_t *processes, double least) {
    size_t p, b, count = 0;
    json_t *process, *block;
    static double sizes[20000];
    const char *const kinds[] = {"null", "pair"};
    json_array_foreach(processes, p, process) {
        for (int k = 0; k < 2; k++) {
            json_array_foreach(json_object_get(process, kinds[k]), b, block) {
                if (count < sizeof sizes / sizeof sizes[0])
                    sizes[count++] = fabs(block_percent(block));
            }
        }
    }
    if (count == 0)
        return least;
    qsort(sizes, count, sizeof *sizes, ascending);
    const double most = sizes[count * 9 / 10] * 1.15;
    return most > least ? most < 60 ? most : 60 : least;
}

static void grid(const plot *p, double step) {
    for (int i = (int)ceil(p->low / step - 1e-9); i * step <= p->high + 1e-9; i++) {
        const double y = y_of(p, i * step);
        fprintf(p->to, "<line class=\"%s\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>", i == 0 ? "zero" : "grid",
                LEFT, WIDTH - RIGHT, y, y);
        fprintf(p->to, "<text x=\"%d\" y=\"%.1f\" class=\"tick end\">%s%.4g&#8201;%%</text>\n", LEFT - 6, y + 4,
                i > 0 ? "+" : "", i * step);
    }
}

static double step_of(double range) {
    static const double steps[] = {0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++)
        if (range / steps[i] <= 8)
            return steps[i];
    return 100;
}

static void floor_line(const plot *p, double percent, const char *kind, const char *text) {
    const double y = y_of(p, percent);
    fprintf(p->to,
            "<line class=\"floor %s\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>"
            "<text class=\"tick %s\" x=\"%d\" y=\"%.1f\">%s</text>\n",
            kind, LEFT, WIDTH - RIGHT, y, y, kind, WIDTH - RIGHT + 4, y + 4, text);
}

// An estimate with its interval beside the blocks.
static void interval(const plot *p, json_t *series, const char *kind, double x) {
    if (!json_object_get(series, "estimate"))
        return;
    const double low = y_of(p, report_percent(member(series, "low"))),
                 high = y_of(p, report_percent(member(series, "high")));
    const double middle = y_of(p, report_percent(member(series, "estimate")));
    fprintf(p->to,
            "<line class=\"interval %s\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>"
            "<circle class=\"middle %s\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"/>\n",
            kind, x, x, low, high, kind, x, middle);
}

void report_blocks(FILE *to, json_t *plan_case, json_t *sample, json_t *judged) {
    json_t *processes = json_object_get(sample, "processes"), *process, *block;
    const double effect = member(plan_case, "effect_floor"), harm = member(plan_case, "harm_floor");
    const double range = range_of(processes, 2 * effect);
    const plot p = {to, -range, range, HEIGHT};
    const size_t count = json_array_size(processes);
    const char *const kinds[] = {"null", "pair"};
    size_t i, b;
    fprintf(to, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"blocks of every process\">\n", WIDTH, HEIGHT);
    const double each = (double)(WIDTH - LEFT - RIGHT - 70) / (double)(count ? count : 1);
    for (i = 0; i < count; i += 2)
        fprintf(to, "<rect class=\"band\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\"/>\n",
                LEFT + (double)i * each, TOP, each, HEIGHT - TOP - BOTTOM);
    grid(&p, step_of(2 * range));
    floor_line(&p, -report_percent(log1p(effect / 100)), "good", "claim below");
    floor_line(&p, report_percent(log1p(harm / 100)), "bad", "harm above");
    json_array_foreach(processes, i, process) {
        for (int k = 0; k < 2; k++) {
            json_t *blocks = json_object_get(process, kinds[k]);
            const double n = (double)json_array_size(blocks);
            json_array_foreach(blocks, b, block) {
                const double x =
                    LEFT + (double)i * each + each * (0.08 + 0.42 * k + 0.42 * ((double)b + 0.5) / (n > 0 ? n : 1));
                const bool dropped = json_integer_value(json_array_get(block, 5)) != 0;
                fprintf(to, "<circle class=\"dot %s%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"2.6\"/>\n", kinds[k],
                        dropped ? " dropped" : "", x, y_of(&p, block_percent(block)));
            }
        }
        if (count <= 20)
            fprintf(to, "<text class=\"tick middle\" x=\"%.1f\" y=\"%d\">%zu</text>\n", LEFT + ((double)i + 0.5) * each,
                    HEIGHT - 14, i + 1);
    }
    interval(&p, json_object_get(judged, "null"), "null", WIDTH - RIGHT - 46);
    interval(&p, json_object_get(judged, "pair"), "pair", WIDTH - RIGHT - 22);
    fprintf(to, "<text class=\"tick middle\" x=\"%d\" y=\"%d\">95&#8201;%%</text></svg>\n", WIDTH - RIGHT - 34,
            HEIGHT - 14);
}

const char *report_class(const char *verdict) {
    return !verdict                         ? "open"
           : strcmp(verdict, "keep") == 0   ? "keep"
           : strcmp(verdict, "reject") == 0 ? "reject"
                                            : "open";
}

void report_ledger(FILE *to, json_t *const *records, size_t count) {
    double range = 5;
    for (size_t i = 0; i < count; i++) {
        json_t *first = json_array_get(json_object_get(json_object_get(records[i], "judgement"), "cases"), 0);
        json_t *pair = json_object_get(first, "pair");
        const double here = fabs(report_percent(member(pair, "estimate"))) * 1.3;
        range = here > range && here < 100 ? here : range;
    }
    const plot p = {to, -range, range, 240};
    const double each = (double)(WIDTH - LEFT - RIGHT) / (double)(count ? count : 1);
    fprintf(to, "<svg viewBox=\"0 0 %d 240\" role=\"img\" aria-label=\"attempts over time\">\n", WIDTH);
    grid(&p, step_of(2 * range));
    for (size_t i = 0; i < count; i++) {
        json_t *judgement = json_object_get(records[i], "judgement");
        json_t *pair = json_object_get(json_array_get(json_object_get(judgement, "cases"), 0), "pair");
        const char *kind = report_class(json_string_value(json_object_get(judgement, "verdict")));
        const double x = LEFT + ((double)i + 0.5) * each;
        if (json_object_get(pair, "estimate"))
            interval(&p, pair, kind, x);
        else // no time was measured: the proof said no, or the machine was never quiet
            fprintf(to, "<text class=\"cross %s\" x=\"%.1f\" y=\"%.1f\">&#215;</text>\n", kind, x, y_of(&p, 0) + 6);
        if (count <= 40)
            fprintf(to, "<text class=\"tick middle\" x=\"%.1f\" y=\"226\">%d</text>\n", x,
                    (int)json_integer_value(json_object_get(records[i], "attempt")));
    }
    fputs("</svg>\n", to);
}
