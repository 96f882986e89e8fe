// SPDX-License-Identifier: Apache-2.0
//
// Pixels of a panel: per row, or bin of rows, the share of the cells seen that are attended; the tail on top, at least
// three pixels wide so that it shows where a block is a pixel.

#include "inspect_draw.h"

#include <stdlib.h>
#include <string.h>

#define TAIL_LEAST 3

uint32_t inspect_shade(double share) {
    uint32_t colour = 0;
    for (int shift = 0; shift < 24; shift += 8) {
        const double from = INSPECT_SEEN >> shift & 0xff;
        const double to = INSPECT_ATTENDED >> shift & 0xff;
        colour |= (uint32_t)(from + (to - from) * share + 0.5) << shift;
    }
    return colour;
}

typedef struct counts {
    int32_t *seen, *attended; // [width]
    uint8_t *tail;            // [width]
    uint8_t *tokens;          // [T]
} counts;

static void count_row(const inspect_layout *l, const pipeline *run, int64_t slot, counts *c) {
    const layer_file *file = run->file;
    const int32_t n = run->cells[slot];
    const int32_t ratio = file->geometry.ratio;
    const int32_t *token = file->cell_token + slot / run->n_rows * file->tokens;
    pipeline_selected(run, slot, c->tokens);
    for (int32_t cell = 0; cell < n; cell++) {
        for (int32_t i = 0; i < l->scale; i++) {
            c->seen[inspect_x(l, cell) + i]++;
            c->attended[inspect_x(l, cell) + i] += c->tokens[token[cell]];
        }
    }
    if (n % ratio) {
        const int32_t from = inspect_x(l, n / ratio * ratio);
        int32_t to = l->bin > 1 ? (n + l->bin - 1) / l->bin : n * l->scale;
        to = to < from + TAIL_LEAST ? from + TAIL_LEAST : to;
        to = to > l->width ? l->width : to;
        for (int32_t x = to - from < TAIL_LEAST ? to - TAIL_LEAST : from; x < to; x++) {
            c->tail[x > 0 ? x : 0] = 1;
        }
    }
}

static void put_line(const inspect_layout *l, const counts *c, uint32_t *line) {
    for (int32_t x = 0; x < l->width; x++) {
        const uint32_t colour = c->tail[x]   ? INSPECT_TAIL
                                : c->seen[x] ? inspect_shade((double)c->attended[x] / c->seen[x])
                                             : INSPECT_LATER;
        line[x] = 0xff000000U | colour;
    }
}

// A white line or two between bands that are tall enough to miss them.
static int32_t space_of(int32_t band) {
    return band >= 10 ? 2 : band >= 5 ? 1 : 0;
}

bool inspect_pixels(const inspect_layout *l, const pipeline *run, const inspect_panel *panel, uint32_t *pixels,
                    size_t stride, tool_error *error) {
    const size_t width = (size_t)l->width;
    counts c = {0};
    c.seen = tool_array(width, sizeof *c.seen, true, error);
    c.attended = tool_array(width, sizeof *c.attended, true, error);
    c.tail = tool_array(width, 1, true, error);
    c.tokens = tool_array((size_t)run->file->tokens, 1, true, error);
    const bool made = c.seen && c.attended && c.tail && c.tokens;
    for (int32_t first = 0; made && first < panel->rows; first += l->rows_a_bin) {
        memset(c.seen, 0, width * sizeof *c.seen);
        memset(c.attended, 0, width * sizeof *c.attended);
        memset(c.tail, 0, width);
        for (int32_t r = first; r < first + l->rows_a_bin && r < panel->rows; r++) {
            count_row(l, run, l->slots[panel->first + r], &c);
        }
        for (int32_t y = 0; y < l->band; y++) {
            uint32_t *line = pixels + (size_t)(inspect_y(l, first) + y) * stride;
            if (y < l->band - space_of(l->band)) {
                put_line(l, &c, line);
            } else {
                memset(line, 0xff, width * sizeof *line);
            }
        }
    }
    free(c.seen);
    free(c.attended);
    free(c.tail);
    free(c.tokens);
    return made;
}
