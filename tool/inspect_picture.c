// SPDX-License-Identifier: Apache-2.0
//
// Title, axes, labels, budget edge, legend and caption around the panels, and the file.

#include "inspect_draw.h"
#include "io/file_replace.h"

#include <cairo-svg.h>
#include <cairo.h>
#include <stdio.h>
#include <string.h>

#define FONT       "DejaVu Sans, sans-serif"
#define LABEL_BAND 11 // least band for a label of its own

typedef struct canvas {
    cairo_t *cr;
    const inspect_layout *l;
    const pipeline *run;
} canvas;

static void ink(cairo_t *cr, uint32_t colour) {
    cairo_set_source_rgb(cr, (colour >> 16 & 0xff) / 255.0, (colour >> 8 & 0xff) / 255.0, (colour & 0xff) / 255.0);
}

typedef enum align { ALIGN_LEFT, ALIGN_MIDDLE, ALIGN_RIGHT } align;

// Text at a baseline. Returns its width.
static double text(const canvas *c, double size, bool bold, align to, double x, double y, const char *words) {
    cairo_text_extents_t extents;
    cairo_select_font_face(c->cr, FONT, CAIRO_FONT_SLANT_NORMAL,
                           bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(c->cr, size);
    cairo_text_extents(c->cr, words, &extents);
    const double back = to == ALIGN_LEFT ? 0 : to == ALIGN_MIDDLE ? extents.x_advance / 2 : extents.x_advance;
    cairo_move_to(c->cr, (double)(int)(x - back), y);
    cairo_show_text(c->cr, words);
    return extents.x_advance;
}

static void box(const canvas *c, uint32_t colour, double x, double y, double width, double height) {
    ink(c->cr, colour);
    cairo_rectangle(c->cr, x, y, width, height);
    cairo_fill(c->cr);
}

static void line(const canvas *c, uint32_t colour, bool dashed, double x0, double y0, double x1, double y1) {
    const double dash[] = {5, 3};
    ink(c->cr, colour);
    cairo_set_line_width(c->cr, 1);
    cairo_set_dash(c->cr, dash, dashed ? 2 : 0, 0);
    cairo_move_to(c->cr, x0, y0);
    cairo_line_to(c->cr, x1, y1);
    cairo_stroke(c->cr);
    cairo_set_dash(c->cr, dash, 0, 0);
}

static void draw_title(const canvas *c, const char *name) {
    const qsa_geometry *g = &c->run->file->geometry;
    char words[512];
    ink(c->cr, INSPECT_INK);
    snprintf(words, sizeof words, "%.160s: the cells that each row attends", name);
    text(c, 15, true, ALIGN_LEFT, 16, 26, words);
    snprintf(words, sizeof words,
             "%d / %d heads x %d, indexer %d x %d, ratio %d, budget %d = %d blocks;  %d sequence%s of %d tokens, %lld "
             "rows drawn",
             g->heads, g->kv_heads, g->head_dim, g->index_heads, g->index_dim, g->ratio, g->budget,
             g->budget / g->ratio, c->run->file->batch, c->run->file->batch == 1 ? "" : "s", c->run->file->tokens,
             (long long)c->l->rows);
    text(c, 12, false, ALIGN_LEFT, 16, 46, words);
}

static bool draw_panel(const canvas *c, const inspect_panel *panel, tool_error *error) {
    const inspect_layout *l = c->l;
    cairo_surface_t *image = cairo_image_surface_create(CAIRO_FORMAT_ARGB32, l->width, panel->height);
    bool done = cairo_surface_status(image) == CAIRO_STATUS_SUCCESS || tool_fail(error, "no memory for the picture");
    if (done) {
        cairo_surface_flush(image);
        done = inspect_pixels(l, c->run, panel, (uint32_t *)(void *)cairo_image_surface_get_data(image),
                              (size_t)cairo_image_surface_get_stride(image) / sizeof(uint32_t), error);
        cairo_surface_mark_dirty(image);
    }
    if (done) {
        cairo_set_source_surface(c->cr, image, l->x, panel->y);
        cairo_pattern_set_filter(cairo_get_source(c->cr), CAIRO_FILTER_NEAREST);
        cairo_paint(c->cr);
        ink(c->cr, 0x9aa4b2U);
        cairo_set_line_width(c->cr, 1);
        cairo_rectangle(c->cr, l->x - 0.5, panel->y - 0.5, l->width + 1, panel->height + 1);
        cairo_stroke(c->cr);
    }
    cairo_surface_destroy(image);
    return done;
}

// 1, 2 or 5 times a power of ten, at least `least`.
static int64_t nice_step(double least) {
    int64_t step = 1;
    for (int i = 0; (double)step < least; i++) {
        step = i % 3 == 1 ? step / 2 * 5 : step * 2;
    }
    return step;
}

// Token, cells and attended cells beside every band; where bands are thin, beside the rows of round tokens.
static void draw_rows(const canvas *c, const inspect_panel *panel) {
    const inspect_layout *l = c->l;
    const pipeline *run = c->run;
    const double size = l->band >= 14 ? 12 : 10;
    const int32_t from = run->rows[l->slots[panel->first] % run->n_rows];
    const int32_t to = run->rows[l->slots[panel->first + panel->rows - 1] % run->n_rows];
    const int64_t step = l->band >= LABEL_BAND ? 1 : nice_step(40.0 * (to - from + 1) / panel->height);
    double last = -1e9;
    int64_t labelled = -1;
    ink(c->cr, INSPECT_INK);
    for (int32_t r = 0; r < panel->rows; r++) {
        const int64_t slot = l->slots[panel->first + r];
        const int32_t n = run->cells[slot];
        const double middle = panel->y + inspect_y(l, r) + l->band / 2.0;
        char words[32];
        const int32_t token = run->rows[slot % run->n_rows];
        if (token / step == labelled || middle - last < (l->band >= LABEL_BAND ? 0 : 18)) {
            continue;
        }
        last = middle;
        labelled = token / step;
        snprintf(words, sizeof words, "%d", token);
        text(c, size, false, ALIGN_RIGHT, 64, middle + size * 0.36, words);
        snprintf(words, sizeof words, "%d", n);
        text(c, size, false, ALIGN_RIGHT, 118, middle + size * 0.36, words);
        snprintf(words, sizeof words, "%d", qsa_selected_cells(&run->file->geometry, run->options.rule, n));
        text(c, size, false, ALIGN_RIGHT, 176, middle + size * 0.36, words);
        line(c, INSPECT_INK, false, l->x - 5, (int)middle + 0.5, l->x - 1, (int)middle + 0.5);
        ink(c->cr, INSPECT_INK);
    }
    if (l->n_panels > 1 && l->gap >= 20) {
        char words[80];
        snprintf(words, sizeof words, "sequence %d: %d cells", panel->sequence, run->file->length[panel->sequence]);
        text(c, 12, true, ALIGN_LEFT, l->x, panel->y - 6, words);
    }
}

static void draw_axis(const canvas *c) {
    const inspect_layout *l = c->l;
    const inspect_panel *bottom = &l->panels[l->n_panels - 1];
    const double y = bottom->y + bottom->height;
    const double pixels = (double)l->scale / l->bin;
    char words[32];
    for (int64_t cell = 0, step = nice_step(64 / pixels); cell <= l->cells; cell += step) {
        const double x = l->x + (int)((double)cell * pixels);
        line(c, INSPECT_INK, false, x + 0.5, y + 1, x + 0.5, y + 6);
        snprintf(words, sizeof words, "%lld", (long long)cell);
        text(c, 11, false, ALIGN_MIDDLE, x, y + 18, words);
    }
    text(c, 12, false, ALIGN_LEFT, l->x, y + 36, "cell: rank of the token in its sequence, from 0");
    const double head = l->panels[0].y - (l->n_panels > 1 && l->gap >= 20 ? 22 : 8);
    ink(c->cr, INSPECT_INK);
    text(c, 11, true, ALIGN_RIGHT, 64, head, "token");
    text(c, 11, true, ALIGN_RIGHT, 118, head, "cells n");
    text(c, 11, true, ALIGN_RIGHT, 176, head, "attends");
}

// Dashed: the column of cell `budget`, and in each panel the first row that has to select.
static void draw_edges(const canvas *c) {
    const inspect_layout *l = c->l;
    const qsa_geometry *g = &c->run->file->geometry;
    const int32_t dense = g->budget + g->ratio - 1;
    char words[64];
    for (int32_t p = 0; p < l->n_panels; p++) {
        const inspect_panel *panel = &l->panels[p];
        int32_t first = 0;
        while (first < panel->rows && c->run->cells[l->slots[panel->first + first]] <= dense) {
            first++;
        }
        if (g->budget < l->cells) {
            const double x = l->x + inspect_x(l, g->budget) + 0.5;
            line(c, INSPECT_EDGE, true, x, panel->y - 4, x, panel->y + panel->height + 4);
        }
        if (first < panel->rows) {
            // In the space between two bands.
            const double y = panel->y + inspect_y(l, first) - (first && l->band >= 10 ? 1 : 0) - 0.5;
            line(c, INSPECT_EDGE, true, l->x - 8, y, l->x + l->width + 6, y);
            snprintf(words, sizeof words, "n > %d: selects", dense);
            text(c, 10, false, ALIGN_LEFT, l->x + l->width + 6, y + (first ? 4 : 11), words);
        }
    }
    if (g->budget < l->cells) {
        snprintf(words, sizeof words, "budget %d", g->budget);
        ink(c->cr, INSPECT_EDGE);
        text(c, 11, false, ALIGN_MIDDLE, l->x + inspect_x(l, g->budget), l->panels[0].y - 8, words);
    }
}

static double legend_item(const canvas *c, uint32_t colour, double x, double y, const char *words) {
    box(c, 0x9aa4b2U, x - 1, y - 11, 20, 14);
    box(c, colour, x, y - 10, 18, 12);
    ink(c->cr, INSPECT_INK);
    return x + 25 + text(c, 12, false, ALIGN_LEFT, x + 25, y, words) + 20;
}

// Legend and caption.
static void draw_legend(const canvas *c) {
    const inspect_layout *l = c->l;
    const double y = l->picture_height - 44;
    char words[160];
    double x = 16;
    x = legend_item(c, INSPECT_ATTENDED, x, y, "attended");
    x = legend_item(c, INSPECT_SEEN, x, y, "seen, not attended");
    x = legend_item(c, INSPECT_TAIL, x, y, "tail: open block, always attended");
    x = legend_item(c, INSPECT_LATER, x, y, "later than the row");
    line(c, INSPECT_EDGE, true, x, y - 3.5, x + 18, y - 3.5);
    ink(c->cr, INSPECT_INK);
    text(c, 12, false, ALIGN_LEFT, x + 25, y, "budget edge");
    if (l->bin > 1 && l->rows_a_bin > 1) {
        snprintf(words, sizeof words, "1 pixel = %d cells x %d rows, shade = share attended:", l->bin, l->rows_a_bin);
    } else if (l->rows_a_bin > 1) {
        snprintf(words, sizeof words, "1 pixel = 1 cell x %d rows, shade = share attended:", l->rows_a_bin);
    } else if (l->bin > 1) {
        snprintf(words, sizeof words, "1 pixel = %d cells, shade = share attended:", l->bin);
    } else {
        snprintf(words, sizeof words, "%d pixel%s = 1 cell", l->scale, l->scale == 1 ? "" : "s");
    }
    const double end = 16 + text(c, 12, false, ALIGN_LEFT, 16, y + 24, words);
    for (int i = 0; (l->bin > 1 || l->rows_a_bin > 1) && i < 120; i++) {
        box(c, inspect_shade(i / 119.0), end + 40 + i, y + 13, 1.0, 12);
    }
    if (l->bin > 1 || l->rows_a_bin > 1) {
        ink(c->cr, INSPECT_INK);
        text(c, 11, false, ALIGN_RIGHT, end + 36, y + 24, "none");
        text(c, 11, false, ALIGN_LEFT, end + 164, y + 24, "all");
    }
}

static bool draw(const canvas *c, const char *name, tool_error *error) {
    box(c, 0xffffffU, 0, 0, c->l->picture_width, c->l->picture_height);
    draw_title(c, name);
    for (int32_t p = 0; p < c->l->n_panels; p++) {
        if (!draw_panel(c, &c->l->panels[p], error)) {
            return false;
        }
        draw_rows(c, &c->l->panels[p]);
    }
    draw_axis(c);
    draw_edges(c);
    draw_legend(c);
    return true;
}

typedef struct sink {
    io_replacement file;
    io_error error;
    bool failed;
} sink;

static cairo_status_t append(void *closure, const unsigned char *bytes, unsigned size) {
    sink *to = closure;
    to->failed = to->failed || !io_replace_write(&to->file, bytes, size, to->error);
    return to->failed ? CAIRO_STATUS_WRITE_ERROR : CAIRO_STATUS_SUCCESS;
}

// The picture goes to `to`. A failure to write is to->failed, with its line.
static bool render(const inspect_layout *l, const pipeline *run, const char *name, inspect_format format, sink *to,
                   tool_error *error) {
    cairo_surface_t *surface =
        format == INSPECT_SVG ? cairo_svg_surface_create_for_stream(append, to, l->picture_width, l->picture_height)
                              : cairo_image_surface_create(CAIRO_FORMAT_RGB24, l->picture_width, l->picture_height);
    const canvas c = {cairo_create(surface), l, run};
    bool done = draw(&c, name, error);
    cairo_status_t status = cairo_status(c.cr);
    cairo_destroy(c.cr);
    if (done && status == CAIRO_STATUS_SUCCESS && format == INSPECT_PNG) {
        status = cairo_surface_write_to_png_stream(surface, append, to);
    }
    cairo_surface_finish(surface);
    if (done && status == CAIRO_STATUS_SUCCESS) {
        status = cairo_surface_status(surface);
    }
    cairo_surface_destroy(surface);
    if (done && status != CAIRO_STATUS_SUCCESS && !to->failed) {
        done = tool_fail(error, "drawing: %s", cairo_status_to_string(status));
    }
    return done && !to->failed;
}

bool inspect_draw(const inspect_layout *l, const pipeline *run, const char *name, inspect_format format,
                  const char *path, tool_error *error) {
    sink to = {.error = {error->text, sizeof error->text}};
    if (!io_replace_begin(&to.file, path, to.error)) {
        return false;
    }
    if (!render(l, run, name, format, &to, error)) {
        io_replace_abandon(&to.file);
        return false;
    }
    return io_replace_commit(&to.file, to.error);
}
