// SPDX-License-Identifier: Apache-2.0
//
// The tile operations of kernels/simd/amx.h in plain C, from the instructions' definitions: what a tile of r rows of b bytes
// does not have is read as 0 and not written. To be included before a kernel's header, which then uses these. What the machine
// would refuse, shapes that do not fit each other or a use without configuration, ends the program.
#ifndef QSA_TESTS_EMULATED_TILES_H
#define QSA_TESTS_EMULATED_TILES_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define QSA_TILES

typedef struct {
    int rows, bytes;
    uint8_t data[16][64];
} emulated_tile;

static emulated_tile emulated_tiles[8];

static emulated_tile *emulated(int tile) {
    emulated_tile *x = &emulated_tiles[tile];
    if (x->rows == 0)
        abort();
    return x;
}

static void tile_load(int tile, const void *from, size_t stride) {
    emulated_tile *x = emulated(tile);
    memset(x->data, 0, sizeof x->data);
    for (int r = 0; r < x->rows; r++)
        memcpy(x->data[r], (const uint8_t *)from + (size_t)r * stride, (size_t)x->bytes);
}

static void tile_store(int tile, void *to, size_t stride) {
    const emulated_tile *x = emulated(tile);
    for (int r = 0; r < x->rows; r++)
        memcpy((uint8_t *)to + (size_t)r * stride, x->data[r], (size_t)x->bytes);
}

static void tile_zero(int tile) {
    memset(emulated(tile)->data, 0, sizeof emulated_tiles[0].data);
}

static int32_t emulated_byte(uint8_t x, int is_signed) {
    return is_signed ? (int32_t)(int8_t)x : (int32_t)x;
}

static void emulated_dot(int c, int a, int b, int a_signed, int b_signed) {
    emulated_tile *sum = emulated(c);
    const emulated_tile *x = emulated(a), *y = emulated(b);
    if (x->rows != sum->rows || y->bytes != sum->bytes || x->bytes != 4 * y->rows || c == a || c == b || a == b)
        abort();
    for (int r = 0; r < sum->rows; r++)
        for (int column = 0; column < sum->bytes / 4; column++) {
            uint32_t total;
            memcpy(&total, &sum->data[r][4 * column], 4);
            for (int k = 0; k < x->bytes; k++)
                total += (uint32_t)(emulated_byte(x->data[r][k], a_signed) *
                                    emulated_byte(y->data[k / 4][4 * column + k % 4], b_signed));
            memcpy(&sum->data[r][4 * column], &total, 4);
        }
}

static void tile_dot_ss(int c, int a, int b) {
    emulated_dot(c, a, b, 1, 1);
}
static void tile_dot_su(int c, int a, int b) {
    emulated_dot(c, a, b, 1, 0);
}
static void tile_dot_us(int c, int a, int b) {
    emulated_dot(c, a, b, 0, 1);
}

static void tiles_release(void) {
    memset(emulated_tiles, 0, sizeof emulated_tiles);
}

// Takes the 64 bytes as the machine does, palette 1.
static void tiles_configure(const void *config) {
    const uint8_t *bytes = config;
    if (bytes[0] != 1 || bytes[1] != 0)
        abort();
    for (int i = 2; i < 16; i++)
        if (bytes[i] != 0)
            abort();
    tiles_release();
    for (int i = 0; i < 16; i++) {
        uint16_t width;
        memcpy(&width, bytes + 16 + 2 * i, 2);
        if (width > 64 || bytes[48 + i] > 16 || (i >= 8 && (width || bytes[48 + i])))
            abort();
        if (i < 8) {
            emulated_tiles[i].bytes = width;
            emulated_tiles[i].rows = bytes[48 + i];
        }
    }
}

#endif
