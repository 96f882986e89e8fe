// SPDX-License-Identifier: Apache-2.0
//
// Histories: programs of operations on a cache that are run beside a model of it. The model of a sequence is the list of
// its tokens and nothing else, so the state after any history can be compared, byte by byte, with a cache into which these
// tokens were appended from nothing. Operands are taken modulo what there is: every part of a program is a program, which
// is what shrinking a failing one needs.
#ifndef QSA_TESTS_HISTORY_H
#define QSA_TESTS_HISTORY_H

#include "support/fixture.h"

enum { HX_SLOTS = 5, HX_MAX_CELLS = 240, HX_TOKENS = 300, HX_LAYERS = 2, HX_PREFIXES = 2, HX_MAX_OPS = 4000 };

typedef enum hx_kind {
    HX_CREATE,      // slot a; a slot is the first from this number on that is alive, or not where one is made
    HX_APPEND,      // slot a, 1 + b % 64 rows, tokens c
    HX_APPEND_TO,   // slot a up to the next boundary b (of blocks, pages, budget) - 1, + 0 or + 1 cells, tokens c
    HX_APPEND_ALL,  // b % 9 or so rows of every slot, interleaved
    HX_DRAFT,       // slot a, 1 + b % 64 rows, of which c % (rows + 1) are accepted
    HX_DRAFT_ALL,   // the same of every slot at once, each its own numbers
    HX_DISCARD,     // slot a, rows b
    HX_TRUNCATE,    // slot a to b % (length + 1) cells
    HX_TAKE_BACK,   // slot a by b % 70 cells
    HX_FORK,        // slot a into slot b
    HX_FREE,        // slot a
    HX_RESET,       // slot a
    HX_HOLD,        // pages of slot a as prefix b
    HX_ATTACH,      // prefix b, c % (pages + 1) of it, as slot a
    HX_RELEASE,     // prefix b
    HX_SAVE,        // the slots of the bits of a, or all
    HX_LOAD,        // what was saved, beside what there is
    HX_LOAD_BROKEN, // a bit flipped or the end missing
    HX_RESTART,     // everything saved, loaded into a cache of other pages b and rollback c
    HX_NO_MEMORY,   // another cache and layer are refused memory
    HX_KINDS
} hx_kind;

typedef struct hx_op {
    hx_kind kind;
    uint32_t a, b, c;
} hx_op;

// What a control breaks on purpose.
typedef enum hx_fault {
    HX_SOUND,
    HX_FORK_WITHOUT_COPY,  // the unfilled page of a fork is written by both
    HX_FORK_WITHOUT_RAW,   // a fork has no raw index keys
    HX_TRUNCATE_ANYWHERE,  // a truncation that must be refused happens
    HX_ACCEPT_ONE_TOO_FEW, // one accepted row is lost
    HX_LOAD_A_WRONG_CODE,  // one byte of a loaded key is another
    HX_FAULTS
} hx_fault;

typedef struct hx_program {
    uint64_t seed; // of geometry, formats, pages, threads
    hx_fault fault;
    int32_t count;
    hx_op ops[HX_MAX_OPS];
} hx_program;

// What happened, added up over programs.
typedef struct hx_counts {
    long operations[HX_KINDS]; // that did something
    long refused;              // as they had to be
    long copied;               // pages that were shared and written
} hx_counts;

typedef struct hx_slot {
    int alive;
    int32_t number; // the library's
    int32_t length;
    int32_t longest; // since it was last emptied, attached to or loaded ...
    int32_t floor;   // ... and the first raw index key that was kept then
    int32_t tokens[HX_MAX_CELLS];
} hx_slot;

typedef struct hx_prefix {
    int32_t pages; // 0: none
    int32_t page[HX_MAX_CELLS];
    int32_t tokens[HX_MAX_CELLS];
} hx_prefix;

typedef struct hx_setup {
    qsa_geometry geometry;
    qsa_cache_config cache;
    int32_t threads, positions_per_row;
} hx_setup;

typedef struct hx_state {
    hx_setup setup;
    hx_fault fault;
    fx_world *world;
    heap memory;
    qsa_context *context;
    qsa_layer *layers[HX_LAYERS];
    qsa_cache *cache;
    hx_slot slots[HX_SLOTS];
    hx_prefix prefixes[HX_PREFIXES];
    unsigned char *saved; // a snapshot and its model
    size_t saved_bytes, saved_room, taken;
    int32_t saved_count;
    hx_slot saved_slots[HX_SLOTS];
    rng random; // of chunks and the like: nothing that a result depends on
    hx_counts counts;
    int acted;         // the operation did something
    char failure[600]; // "" while all is well
} hx_state;

// history_open.c
// Of every history opened from now on.
extern qsa_backend hx_backend;
hx_state *hx_open(uint64_t seed, hx_fault fault);
void hx_close(hx_state *h);
// Fails the history, with the first reason given.
void hx_fail(hx_state *h, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define HX_OK(h, call)                                                                                                 \
    do {                                                                                                               \
        if ((call) != QSA_OK)                                                                                          \
            hx_fail((h), "%s: %s", #call, qsa_last_error());                                                           \
    } while (0)
// Tokens as rows of one layer through forward; give and lse may be null.
typedef struct hx_rows {
    int32_t count;
    int32_t sequences[HX_SLOTS * 64], tokens[HX_SLOTS * 64], cells[HX_SLOTS * 64];
} hx_rows;
qsa_status hx_forward(hx_state *h, qsa_cache *cache, int32_t layer, const hx_rows *rows, float *out,
                      qsa_selection *give, float *lse);

// history_run.c
void hx_apply(hx_state *h, const hx_op *op);
// Marks a slot as beginning with what the library keeps of it.
void hx_settle(hx_state *h, hx_slot *slot);

// history_snapshot.c
void hx_save(hx_state *h, uint32_t slots);
void hx_load(hx_state *h);
void hx_load_broken(hx_state *h, uint32_t a, uint32_t b);
void hx_restart(hx_state *h, uint32_t pages, uint32_t rollback);

// history_check.c
void hx_check(hx_state *h);      // every sequence against its replay, and the invariants
void hx_invariants(hx_state *h); // references, free list, lengths

// history_program.c
void hx_generate(hx_program *p, uint64_t seed, int32_t count, hx_fault fault);
// Runs a program; checks after every `every` operations (0: none) and at the end. "" or the failure, static storage; *at is
// the number of operations done.
const char *hx_run(const hx_program *p, int32_t every, int32_t *at, hx_counts *counts);
// Makes a failing program as short as it gets. Returns its failure.
const char *hx_shrink(hx_program *p);
void hx_print(const hx_program *p);

#endif
