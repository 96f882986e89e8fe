// SPDX-License-Identifier: Apache-2.0
//
// Finds out what an instruction combines: one element of a and one of b are 1, all others 0, and the result says where the product
// went. A program of its own: `qsa-lab layout` compiles and runs it, on this machine or under an emulator.

#ifndef QSA_LAB_LAYOUTS_PROBE_H
#define QSA_LAB_LAYOUTS_PROBE_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>

// The probe's own: one use of the instruction on `a`, `b` (bytes) with zeros to be added to, results as 32-bit numbers.
static const char probe_name[], probe_types[];
enum { PROBE_SKIPPED = 77 };
static int probe_possible(void);
static void probe_apply(const unsigned char *a, const unsigned char *b, int32_t *out);

// Terms that may go to one result, at most.
enum { PROBE_TERMS = 64 };
typedef struct probe_term {
    int a, b;
} probe_term;

static int probe_run(int json, int elements_a, int elements_b, int results, int columns_a, int columns_b,
                     int columns_out, unsigned char *a, unsigned char *b, int32_t *out,
                     probe_term (*terms)[PROBE_TERMS], int *counts) {
    if (!probe_possible())
        return PROBE_SKIPPED;
    for (int i = 0; i < elements_a; i++)
        for (int j = 0; j < elements_b; j++) {
            a[i] = b[j] = 1;
            probe_apply(a, b, out);
            a[i] = b[j] = 0;
            for (int k = 0; k < results; k++) {
                if (out[k] == 0)
                    continue;
                if (out[k] != 1 || counts[k] == PROBE_TERMS)
                    return 1; // no sum of products
                terms[k][counts[k]++] = (probe_term){i, j};
            }
        }
    printf(json ? "{\"instruction\":\"%s\",\"types\":\"%s\",\"results\":[" : "%s: %s\n", probe_name, probe_types);
    for (int k = 0; k < results; k++) {
        if (json)
            printf("%s[", k ? "," : "");
        else if (columns_out > 1)
            printf("out[%d][%d] =", k / columns_out, k % columns_out);
        else
            printf("out[%d] =", k);
        for (int t = 0; t < counts[k]; t++) {
            const probe_term x = terms[k][t];
            if (json)
                printf("%s[%d,%d]", t ? "," : "", x.a, x.b);
            else if (columns_a > 1)
                printf("%s a[%d][%d] b[%d][%d]", t ? " +" : "", x.a / columns_a, x.a % columns_a, x.b / columns_b,
                       x.b % columns_b);
            else
                printf("%s a[%d] b[%d]", t ? " +" : "", x.a, x.b);
        }
        fputs(json ? "]" : "\n", stdout);
    }
    if (json)
        puts("]}");
    return 0;
}

// PROBE(elements of a, of b, results, columns of each; 1: no rows)
#define PROBE(A, B, OUT, COLUMNS_A, COLUMNS_B, COLUMNS_OUT)                                                            \
    int main(int argc, char **argv) {                                                                                  \
        static _Alignas(64) unsigned char a[A], b[B];                                                                  \
        static _Alignas(64) int32_t out[OUT];                                                                          \
        static probe_term terms[OUT][PROBE_TERMS];                                                                     \
        static int counts[OUT];                                                                                        \
        const int json = argc > 1 && strcmp(argv[1], "--json") == 0;                                                   \
        return probe_run(json, A, B, OUT, COLUMNS_A, COLUMNS_B, COLUMNS_OUT, a, b, out, terms, counts);                \
    }

#endif
