// SPDX-License-Identifier: Apache-2.0
//
// The form of a snapshot, independent of pages. All numbers little-endian, nothing aligned.
//
//   head     QSA_SNAPSHOT_HEAD bytes (qsa_snapshot_head) and their sum
//   records  one qsa_snapshot_record per sequence, longest first, and their sum
//   cells    per sequence, in the order of the records:
//              per layer, of cells shared..length-1: k, v, k scales, v scales, each [cell][kv_head]..., then the keys of blocks
//                  shared / ratio .. length / ratio - 1, then of cells raw_from..length-1 raw index keys and positions
//              and the sequence's sum
//
// A sequence may begin with the first `shared` cells of an earlier one. Longest first, so that one whose unfilled last page
// is shared finds all of its cells in an earlier one, and a whole cache fits into one of the same configuration again.

#ifndef QSA_API_SNAPSHOT_H
#define QSA_API_SNAPSHOT_H

#include "api/device.h"
#include "api/stream.h"

enum {
    QSA_SNAPSHOT_VERSION = 1,
    QSA_SNAPSHOT_HEAD = 96,
    QSA_SNAPSHOT_LEAD = 12, // magic and version: read and judged before anything else
    QSA_SNAPSHOT_RECORD = 24,
    QSA_SNAPSHOT_ITEM = 4 * QSA_MAX_HEAD_DIM, // most bytes of a piece that qsa_snapshot_each visits
    // Of a cache that keeps all raw index keys, those of shared cells are written for the last cells only.
    QSA_SNAPSHOT_ROLLBACK = 64,
};
#define QSA_SNAPSHOT_MAGIC "QSAsnap\n"

typedef struct qsa_snapshot_head {
    uint64_t total; // bytes of the snapshot, sums included
    int32_t count;  // sequences
    int32_t layers, kv_type, block_key_type;
    qsa_geometry geometry;
} qsa_snapshot_head;

void qsa_snapshot_pack_head(const qsa_snapshot_head *head, unsigned char bytes[QSA_SNAPSHOT_HEAD]);
void qsa_snapshot_unpack_head(const unsigned char bytes[QSA_SNAPSHOT_HEAD], qsa_snapshot_head *head);
// Bytes of a sequence's cells and their sum; UINT64_MAX if they exceed that.
uint64_t qsa_snapshot_cells(const qsa_cache_config *config, const qsa_snapshot_record *record);
// Sum that stops at UINT64_MAX.
uint64_t qsa_snapshot_plus(uint64_t a, uint64_t b);

// Walks the memory of a sequence's cells of one layer, in the snapshot's order; `item` is called for each piece.
typedef struct qsa_snapshot_walk {
    const qsa_cache *cache;
    int32_t layer, sequence;
    const qsa_snapshot_record *record;
    qsa_stream *stream;
    int32_t raw_kept; // cells before it have no place for a raw index key
    int invalid;      // read: something that no kernel makes was found
} qsa_snapshot_walk;
typedef enum qsa_snapshot_kind {
    QSA_SNAPSHOT_NUMBERS, // anything may stand there
    QSA_SNAPSHOT_CODES,   // i8: no -128
    QSA_SNAPSHOT_SCALES,  // halves: finite, not negative
    QSA_SNAPSHOT_POSITIONS,
} qsa_snapshot_kind;
typedef void (*qsa_snapshot_item)(qsa_snapshot_walk *walk, void *memory, size_t bytes, qsa_snapshot_kind kind);
void qsa_snapshot_each(qsa_snapshot_walk *walk, qsa_snapshot_item item);

#endif
