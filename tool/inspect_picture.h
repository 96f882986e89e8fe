// SPDX-License-Identifier: Apache-2.0
//
// The picture of `qsa inspect`: which cells each row attends, rows down and cells across, a panel per sequence. At most
// INSPECT_MOST pixels a side: where there are more cells or rows than that, they are binned and shaded by the share
// attended, and the caption says how many make a pixel.

#ifndef QSA_TOOL_INSPECT_PICTURE_H
#define QSA_TOOL_INSPECT_PICTURE_H

#include "pipeline.h"

#define INSPECT_MOST 4096

typedef enum inspect_format { INSPECT_PNG, INSPECT_SVG } inspect_format;

// Where everything goes, in pixels.
typedef struct inspect_panel {
    int32_t sequence;
    int64_t first; // of the picture's rows
    int32_t rows;
    int32_t y, height;
} inspect_panel;

typedef struct inspect_layout {
    int64_t *slots; // of all rows drawn, sequence by sequence
    int64_t rows;
    inspect_panel *panels;
    int32_t n_panels;
    int32_t cells;      // across: the most that a row sees
    int32_t scale;      // pixels per cell; 1 when binned
    int32_t bin;        // cells per pixel; 1 when not binned
    int32_t band;       // pixels per row; 1 when binned
    int32_t rows_a_bin; // rows per pixel; 1 when not binned
    int32_t gap;        // between panels
    int32_t x, width;   // of the panels
    int32_t picture_width, picture_height;
} inspect_layout;

// Lays out the rows that attend. False and a line when there is none, they cannot fit, or memory is out.
bool inspect_layout_make(inspect_layout *layout, const pipeline *run, tool_error *error);
void inspect_layout_free(inspect_layout *layout);

// Pixel of a cell, and of a row of a panel (of its upper edge).
int32_t inspect_x(const inspect_layout *layout, int32_t cell);
int32_t inspect_y(const inspect_layout *layout, int32_t row);

// Draws and writes the file as a whole. `name` goes into the title.
bool inspect_draw(const inspect_layout *layout, const pipeline *run, const char *name, inspect_format format,
                  const char *path, tool_error *error);

#endif
