// SPDX-License-Identifier: Apache-2.0
//
// Draws with cairo into a file that is replaced as a whole.

#include "bench_plot.h"

#include "io/file_replace.h"

#include <cairo-svg.h>
#include <math.h>
#include <stdio.h>

enum { WIDTH = 860, HEIGHT = 560, LEFT = 84, RIGHT = 110, TOP = 64, BOTTOM = 60 };

typedef struct axes {
    double first_x, last_x; // log2 of the context
    int first_y, last_y;    // log10 of the milliseconds, whole decades
} axes;

// Distinct in grey too, and for most of those who see red and green alike.
static const double colours[BENCH_SWEEP_STAGES][3] = {
    {0.55, 0.55, 0.55}, {0.00, 0.45, 0.70}, {0.90, 0.60, 0.00}, {0.80, 0.20, 0.10}, {0.00, 0.60, 0.50}, {0, 0, 0},
};

static double x_of(const axes *a, double context) {
    return LEFT + (log2(context) - a->first_x) / (a->last_x - a->first_x) * (WIDTH - LEFT - RIGHT);
}

static double y_of(const axes *a, double ms) {
    return HEIGHT - BOTTOM - (log10(ms) - a->first_y) / (a->last_y - a->first_y) * (HEIGHT - TOP - BOTTOM);
}

static axes axes_of(const bench_sweep *sweep) {
    double least = INFINITY, most = 0;
    for (int s = 0; s < BENCH_SWEEP_STAGES; s++)
        for (int32_t i = 0; i < sweep->points; i++) {
            least = fmin(least, sweep->ms[s][i]);
            most = fmax(most, sweep->ms[s][i]);
        }
    axes a = {.first_x = log2(sweep->context[0]),
              .last_x = log2(sweep->context[sweep->points - 1]),
              .first_y = (int)floor(log10(fmax(least, 1e-6))),
              .last_y = (int)ceil(log10(fmax(most, 1e-6)))};
    a.last_y = a.last_y > a.first_y ? a.last_y : a.first_y + 1;
    return a;
}

// align: 0 starts at x, 0.5 is centred on it, 1 ends there.
static void put_text(cairo_t *c, double x, double y, double align, const char *text) {
    cairo_text_extents_t size;
    cairo_text_extents(c, text, &size);
    cairo_move_to(c, x - align * size.x_advance, y);
    cairo_show_text(c, text);
}

static void rule(cairo_t *c, double x0, double y0, double x1, double y1, double grey) {
    cairo_set_source_rgb(c, grey, grey, grey);
    cairo_move_to(c, x0, y0);
    cairo_line_to(c, x1, y1);
    cairo_stroke(c);
}

static void draw_grid(cairo_t *c, const axes *a, const bench_sweep *sweep) {
    char label[32];
    cairo_set_line_width(c, 1);
    for (int decade = a->first_y; decade <= a->last_y; decade++) {
        for (int step = 1; step < 10; step++) {
            const double y = y_of(a, step * pow(10, decade));
            if (y >= TOP - 0.5)
                rule(c, LEFT, y, WIDTH - RIGHT, y, step == 1 ? 0.7 : 0.92);
        }
        cairo_set_source_rgb(c, 0, 0, 0);
        if (decade < 0)
            snprintf(label, sizeof label, "%g us", pow(10, decade + 3));
        else
            snprintf(label, sizeof label, "%g ms", pow(10, decade));
        put_text(c, LEFT - 8, y_of(a, pow(10, decade)) + 4, 1, label);
    }
    for (int32_t i = 0; i < sweep->points; i++) {
        const double x = x_of(a, sweep->context[i]);
        rule(c, x, TOP, x, HEIGHT - BOTTOM, 0.85);
        cairo_set_source_rgb(c, 0, 0, 0);
        if (sweep->context[i] >= 1 << 20)
            snprintf(label, sizeof label, "%dM", (int)(sweep->context[i] >> 20));
        else
            snprintf(label, sizeof label, "%dK", (int)(sweep->context[i] >> 10));
        put_text(c, x, HEIGHT - BOTTOM + 18, 0.5, label);
    }
    put_text(c, (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 16, 0.5, "cells in the cache");
}

// Labels at the lines' ends, from the highest down, pushed apart where they would overlap.
static void draw_labels(cairo_t *c, const axes *a, const bench_sweep *sweep) {
    bool done[BENCH_SWEEP_STAGES] = {false};
    double free_from = TOP;
    for (int n = 0; n < BENCH_SWEEP_STAGES; n++) {
        int next = 0;
        for (int s = 0; s < BENCH_SWEEP_STAGES; s++)
            if (!done[s] && (done[next] || sweep->ms[s][sweep->points - 1] > sweep->ms[next][sweep->points - 1]))
                next = s;
        done[next] = true;
        const double y = fmax(y_of(a, sweep->ms[next][sweep->points - 1]) + 4, free_from);
        free_from = y + 15;
        cairo_set_source_rgb(c, colours[next][0], colours[next][1], colours[next][2]);
        put_text(c, WIDTH - RIGHT + 10, y, 0, sweep->stage[next]);
    }
}

static void draw(cairo_t *c, const bench_sweep *sweep) {
    const axes a = axes_of(sweep);
    cairo_set_source_rgb(c, 1, 1, 1);
    cairo_paint(c);
    // cairo's own font: the same picture everywhere, and no look-up of the machine's fonts.
    cairo_select_font_face(c, "@cairo:", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_source_rgb(c, 0, 0, 0);
    cairo_set_font_size(c, 16);
    put_text(c, LEFT, 26, 0, "Time per token of each stage, by context");
    cairo_set_font_size(c, 12);
    put_text(c, LEFT, 46, 0, sweep->caption);
    draw_grid(c, &a, sweep);
    for (int s = 0; s < BENCH_SWEEP_STAGES; s++) {
        cairo_set_source_rgb(c, colours[s][0], colours[s][1], colours[s][2]);
        cairo_set_line_width(c, 2.2);
        cairo_new_path(c); // a text leaves a point behind
        for (int32_t i = 0; i < sweep->points; i++)
            cairo_line_to(c, x_of(&a, sweep->context[i]), y_of(&a, fmax(sweep->ms[s][i], 1e-6)));
        cairo_stroke(c);
        for (int32_t i = 0; i < sweep->points; i++) {
            cairo_arc(c, x_of(&a, sweep->context[i]), y_of(&a, fmax(sweep->ms[s][i], 1e-6)), 3, 0, 6.2832);
            cairo_fill(c);
        }
    }
    draw_labels(c, &a, sweep);
}

typedef struct sink {
    io_replacement *file;
    char reason[256];
} sink;

static cairo_status_t write_bytes(void *closure, const unsigned char *bytes, unsigned length) {
    sink *to = closure;
    const io_error reason = {to->reason, sizeof to->reason};
    return io_replace_write(to->file, bytes, length, reason) ? CAIRO_STATUS_SUCCESS : CAIRO_STATUS_WRITE_ERROR;
}

bool bench_plot(const bench_sweep *sweep, const char *path, bench_error *error) {
    io_replacement file;
    sink to = {.file = &file};
    const io_error reason = {to.reason, sizeof to.reason};
    if (!io_replace_begin(&file, path, reason))
        return bench_fail(error, "%s: %s", path, to.reason);
    cairo_surface_t *surface = cairo_svg_surface_create_for_stream(write_bytes, &to, WIDTH, HEIGHT);
    cairo_t *c = cairo_create(surface);
    draw(c, sweep);
    const cairo_status_t drawn = cairo_status(c);
    cairo_destroy(c);
    cairo_surface_finish(surface);
    const cairo_status_t finished = cairo_surface_status(surface);
    cairo_surface_destroy(surface);
    if (drawn != CAIRO_STATUS_SUCCESS || finished != CAIRO_STATUS_SUCCESS) {
        io_replace_abandon(&file);
        return bench_fail(error, "%s: %s", path,
                          *to.reason ? to.reason : cairo_status_to_string(drawn ? drawn : finished));
    }
    return io_replace_commit(&file, reason) || bench_fail(error, "%s: %s", path, to.reason);
}
