// SPDX-License-Identifier: Apache-2.0
//
// mma.sync: one element of a and one of b are 1, all others 0, for every pair, and the result says where the product went. What
// can be found so is which elements meet where; a row may still have any number. So rows and columns of d, and k of a, are
// numbered as the PTX manual does, and the rest (rows of a, columns and k of b) is measured.

#include "lab/cuda/layout.h"
#include "lab/cuda/module.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <vector>

namespace {

// Elements of a thread: f16 8 of a, 4 of b; s8 16 of a, 8 of b; 4 of d.
template <bool BYTES> __global__ void probe(int *out) {
    constexpr int EACH = BYTES ? 4 : 2, A = 4 * EACH, B = 2 * EACH;
    const int lane = threadIdx.x, one = BYTES ? 1 : 0x3c00, width = 32 / EACH;
    for (int i = blockIdx.x; i < 32 * A; i += gridDim.x)
        for (int j = 0; j < 32 * B; j++) {
            uint32_t a[4] = {0, 0, 0, 0}, b[2] = {0, 0}, d[4];
            for (int r = 0; r < 4; r++)
                if (lane == i / A && r == i % A / EACH)
                    a[r] = (uint32_t)one << (width * (i % EACH));
            for (int r = 0; r < 2; r++)
                if (lane == j / B && r == j % B / EACH)
                    b[r] = (uint32_t)one << (width * (j % EACH));
            if (BYTES)
                asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                             "{%10,%10,%10,%10};"
                             : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
                             : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(0));
            else
                asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                             "{%10,%10,%10,%10};"
                             : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
                             : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(0));
            for (int r = 0; r < 4; r++)
                if (d[r] != 0) // where; a sum that is not 1 is marked
                    atomicAdd(&out[i * 32 * B + j], d[r] == (BYTES ? 1u : 0x3f800000u) ? lane * 4 + r + 1 : 1 << 20);
        }
}

struct found {
    std::vector<int> a_row, a_k, b_column, b_k;
};

// -1 is not known yet.
void agree(int *known, int value) {
    if (*known >= 0 && *known != value)
        throw lab_stop{-1, "the products are not those of a matrix product"};
    *known = value;
}

found measure(bool bytes) {
    const int each = bytes ? 4 : 2, A = 4 * each, B = 2 * each, n = 32 * A, m = 32 * B;
    std::vector<int> out((size_t)n * m);
    int *device = nullptr;
    lab_check(cudaMalloc(&device, out.size() * sizeof(int)), "memory");
    lab_check(cudaMemset(device, 0, out.size() * sizeof(int)), "memory");
    if (bytes)
        probe<true><<<128, 32>>>(device);
    else
        probe<false><<<128, 32>>>(device);
    lab_check(cudaMemcpy(out.data(), device, out.size() * sizeof(int), cudaMemcpyDeviceToHost), "the probe");
    cudaFree(device);
    found f = {std::vector<int>(n, -1), std::vector<int>(n), std::vector<int>(m, -1), std::vector<int>(m, -1)};
    int products = 0;
    for (int i = 0; i < n; i++) {
        const int lane = i / A, reg = i % A / each, part = i % each;
        f.a_k[i] = lane % 4 * each + part + 4 * each * (reg / 2);
        for (int j = 0; j < m; j++) {
            const int at = out[(size_t)i * m + j] - 1;
            if (at < 0)
                continue;
            if (at >= 128)
                throw lab_stop{-1, "a product went to two places"};
            agree(&f.a_row[i], at / 4 / 4 + at % 4 / 2 * 8);
            agree(&f.b_column[j], at / 4 % 4 * 2 + at % 2);
            agree(&f.b_k[j], f.a_k[i]);
            products++;
        }
    }
    if (products != 16 * 8 * 8 * each)
        throw lab_stop{-1, "the probe saw " + std::to_string(products) + " products"};
    return f;
}

// "a0 = a[0][0] a[0][1]": the elements of one register.
void say_register(char *said, size_t room, char name, int reg, int each, const int *row, const int *column) {
    lab_layout_say(said, room, "%s%c%d =", reg || name != 'a' ? ", " : " ", name, reg);
    for (int e = 0; e < each; e++)
        lab_layout_say(said, room, " %c[%d][%d]", name, row[e], column[e]);
}

void say_json(char *said, size_t room, const char *name, int threads, int each, const int *row, const int *column) {
    lab_layout_say(said, room, ",\"%s\":[", name);
    for (int t = 0; t < threads; t++) {
        lab_layout_say(said, room, "%s[", t ? "," : "");
        for (int e = 0; e < each; e++)
            lab_layout_say(said, room, "%s[%d,%d]", e ? "," : "", row[t * each + e], column[t * each + e]);
        lab_layout_say(said, room, "]");
    }
    lab_layout_say(said, room, "]");
}

} // namespace

void lab_layout_say(char *said, size_t room, const char *format, ...) {
    const size_t used = strlen(said);
    va_list list;
    va_start(list, format);
    vsnprintf(said + used, room - used, format, list);
    va_end(list);
}

void lab_layout_mma(bool bytes, bool json, char *said, size_t room) {
    const found f = measure(bytes);
    const int each = bytes ? 4 : 2;
    const char *instruction = bytes ? "mma.m16n8k32.s8" : "mma.m16n8k16.f16";
    const char *types =
        bytes ? "a s8[16][32], b s8[32][8] -> d s32[16][8]" : "a f16[16][16], b f16[16][8] -> d f32[16][8]";
    int row[128], column[128];
    for (int i = 0; i < 128; i++)
        row[i] = i / 16 + i % 4 / 2 * 8, column[i] = i / 4 % 4 * 2 + i % 2;
    if (json) {
        lab_layout_say(said, room, "{\"instruction\":\"%s\",\"types\":\"%s\"", instruction, types);
        say_json(said, room, "a", 32, 4 * each, f.a_row.data(), f.a_k.data());
        say_json(said, room, "b", 32, 2 * each, f.b_k.data(), f.b_column.data());
        say_json(said, room, "d", 32, 4, row, column);
        lab_layout_say(said, room, "}");
        return;
    }
    lab_layout_say(said, room, "%s: %s\n", instruction, types);
    for (int t = 0; t < 32; t++) {
        lab_layout_say(said, room, "thread %d:", t);
        for (int r = 0; r < 4; r++)
            say_register(said, room, 'a', r, each, &f.a_row[(t * 4 + r) * each], &f.a_k[(t * 4 + r) * each]);
        for (int r = 0; r < 2; r++)
            say_register(said, room, 'b', r, each, &f.b_k[(t * 2 + r) * each], &f.b_column[(t * 2 + r) * each]);
        for (int r = 0; r < 4; r++)
            say_register(said, room, 'd', r, 1, &row[t * 4 + r], &column[t * 4 + r]);
        lab_layout_say(said, room, "\n");
    }
}

bool lab_cuda_layout(const char *name, bool json, char *said, size_t room, char *why, size_t size) {
    said[0] = '\0';
    try {
        if (strcmp(name, "wgmma") == 0) {
            lab_layout_wgmma(json, said, room);
        } else {
            lab_layout_say(said, room, json ? "[" : "");
            lab_layout_mma(false, json, said, room);
            lab_layout_say(said, room, json ? "," : "");
            lab_layout_mma(true, json, said, room);
            lab_layout_say(said, room, json ? "]" : "");
        }
        lab_layout_say(said, room, json ? "\n" : "");
        return true;
    } catch (const lab_stop &stop) {
        snprintf(why, size, "layout %s: %s", name, stop.why.c_str());
        return false;
    }
}
