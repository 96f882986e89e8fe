// SPDX-License-Identifier: Apache-2.0
//
// Pieces of the picture: the panels' pixels (inspect_pixels.c) and everything around them (inspect_picture.c).

#ifndef QSA_TOOL_INSPECT_DRAW_H
#define QSA_TOOL_INSPECT_DRAW_H

#include "inspect_picture.h"

// Colours, 0xRRGGBB: readable in grey too.
#define INSPECT_ATTENDED 0x17468fU
#define INSPECT_SEEN     0xdde4eeU
#define INSPECT_TAIL     0xee7f1aU
#define INSPECT_LATER    0xffffffU
#define INSPECT_EDGE     0xc0182eU
#define INSPECT_INK      0x20262eU

// Between seen and attended.
uint32_t inspect_shade(double share);

// The pixels of a panel, width x height of 0xffRRGGBB, `stride` of them from line to line.
bool inspect_pixels(const inspect_layout *layout, const pipeline *run, const inspect_panel *panel, uint32_t *pixels,
                    size_t stride, tool_error *error);

#endif
