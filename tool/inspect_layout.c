// SPDX-License-Identifier: Apache-2.0
//
// Sizes of the picture. Cells get as many pixels as fit a readable width; past it, whole blocks share a pixel, so that a
// pixel is attended or not. Few rows get bands tall enough for a label; many get a pixel each; more are binned.

#include "inspect_picture.h"

#include <stdlib.h>

#define LEFT       190  // labels: token, n, attends
#define RIGHT      100  // budget edge
#define TOP        96   // title
#define BOTTOM     112  // axis, legend, caption
#define PLOT_WIDE  1200 // wanted where cells can be drawn large
#define PLOT_MOST  2400 // past it cells are binned
#define PLOT_LEAST 760  // room for title and legend
#define PLOT_TALL  900  // wanted where rows can be drawn tall
#define BAND_MOST  56
#define SCALE_MOST 24
#define GAP        30 // with a label
#define GAP_TIGHT  3

static int64_t ceil_div(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

static bool collect(inspect_layout *l, const pipeline *run, tool_error *error) {
    l->slots = tool_array((size_t)run->attending, sizeof *l->slots, false, error);
    l->panels = tool_array((size_t)run->file->batch, sizeof *l->panels, true, error);
    if (!l->slots || !l->panels) {
        return false;
    }
    for (int32_t b = 0; b < run->file->batch; b++) {
        inspect_panel *panel = &l->panels[l->n_panels];
        *panel = (inspect_panel){.sequence = b, .first = l->rows};
        for (int64_t slot = (int64_t)b * run->n_rows; slot < (int64_t)(b + 1) * run->n_rows; slot++) {
            if (run->attended[slot]) {
                l->slots[l->rows++] = slot;
                l->cells = run->cells[slot] > l->cells ? run->cells[slot] : l->cells;
                panel->rows++;
            }
        }
        l->n_panels += panel->rows > 0;
    }
    if (l->rows == 0) {
        tool_fail(error, "no row to draw: every token of the rows is masked");
        return false;
    }
    return true;
}

static void lay_cells(inspect_layout *l, int32_t ratio) {
    l->scale = PLOT_WIDE / l->cells;
    l->scale = l->scale > SCALE_MOST ? SCALE_MOST : l->scale < 1 ? 1 : l->scale;
    l->bin = 1;
    if (l->cells > PLOT_MOST) {
        const int64_t least = ceil_div(l->cells, PLOT_MOST);
        l->bin = (int32_t)(ceil_div(least, ratio) * ratio);
    }
    l->x = LEFT;
    l->width = (int32_t)ceil_div((int64_t)l->cells * l->scale, l->bin);
}

// Pixels of all panels and gaps with these rows to a bin.
static int64_t tall(const inspect_layout *l, int64_t rows_a_bin) {
    int64_t sum = (int64_t)(l->n_panels - 1) * l->gap;
    for (int32_t p = 0; p < l->n_panels; p++) {
        sum += ceil_div(l->panels[p].rows, rows_a_bin) * l->band;
    }
    return sum;
}

static bool lay_rows(inspect_layout *l, tool_error *error) {
    const int64_t most = INSPECT_MOST - TOP - BOTTOM;
    l->gap = l->n_panels <= 24 ? GAP : l->n_panels <= 400 ? GAP_TIGHT : 0;
    l->band = l->rows < PLOT_TALL ? (int32_t)(PLOT_TALL / l->rows) : 1;
    l->band = l->band > BAND_MOST ? BAND_MOST : l->band < 1 ? 1 : l->band;
    l->rows_a_bin = 1;
    while (tall(l, l->rows_a_bin) > most && l->rows_a_bin < l->rows) {
        l->rows_a_bin = (int32_t)(l->rows_a_bin < 16 ? l->rows_a_bin + 1 : ceil_div(l->rows_a_bin * 9LL, 8));
    }
    if (tall(l, l->rows_a_bin) > most) {
        tool_fail(error, "%d sequences do not fit into %d pixels", l->n_panels, INSPECT_MOST);
        return false;
    }
    int32_t y = TOP + (l->n_panels > 1 && l->gap == GAP ? GAP / 2 : 0);
    for (int32_t p = 0; p < l->n_panels; p++) {
        l->panels[p].y = y;
        l->panels[p].height = (int32_t)ceil_div(l->panels[p].rows, l->rows_a_bin) * l->band;
        y += l->panels[p].height + (p + 1 < l->n_panels ? l->gap : 0);
    }
    l->picture_height = y + BOTTOM > INSPECT_MOST ? INSPECT_MOST : y + BOTTOM;
    return true;
}

bool inspect_layout_make(inspect_layout *l, const pipeline *run, tool_error *error) {
    *l = (inspect_layout){.cells = 1};
    if (!collect(l, run, error)) {
        inspect_layout_free(l);
        return false;
    }
    lay_cells(l, run->file->geometry.ratio);
    if (!lay_rows(l, error)) {
        inspect_layout_free(l);
        return false;
    }
    l->picture_width = LEFT + (l->width < PLOT_LEAST ? PLOT_LEAST : l->width) + RIGHT;
    return true;
}

void inspect_layout_free(inspect_layout *l) {
    free(l->slots);
    free(l->panels);
    *l = (inspect_layout){0};
}

int32_t inspect_x(const inspect_layout *l, int32_t cell) {
    return l->bin > 1 ? cell / l->bin : cell * l->scale;
}

int32_t inspect_y(const inspect_layout *l, int32_t row) {
    return l->rows_a_bin > 1 ? row / l->rows_a_bin : row * l->band;
}
