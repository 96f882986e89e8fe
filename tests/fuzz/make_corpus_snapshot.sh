#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Writes the seeds of fuzz_snapshot into corpus/snapshot: a count, six bytes for each record (length, raw_first, raw_from,
# base, shared, listed), then bytes of cells.
set -eu
mkdir -p "$(dirname "$0")/corpus/snapshot"
cd "$(dirname "$0")/corpus/snapshot"

seed() { # NAME BYTES(printf %b)
    printf '%b' "$2" >"$1"
}

none='\0377' # -1
seed no_sequence '\0000'
seed one "\\0001\\0011\\0004\\0004$none\\0000\\0000abcdefghij"
seed one_empty "\\0001\\0000\\0000\\0000$none\\0000\\0000"
seed two "\\0002\\0010\\0010\\0010$none\\0000\\0001\\0003\\0000\\0000$none\\0000\\00000123"
seed fork "\\0002\\0013\\0006\\0006$none\\0000\\0000\\0012\\0005\\0005\\0000\\0010\\0001wxyz"
seed whole_fork "\\0002\\0007\\0002\\0002$none\\0000\\0001\\0007\\0002\\0002\\0000\\0007\\0000mnop"
seed base_later "\\0002\\0007\\0002\\0002\\0001\\0006\\0000\\0007\\0002\\0002$none\\0000\\0001mnop"
seed shared_beyond "\\0002\\0004\\0002\\0002$none\\0000\\0000\\0010\\0002\\0002\\0000\\0010\\0001mnop"
seed too_long "\\0001\\0051\\0050\\0050$none\\0000\\0000a"
seed bad_code "\\0001\\0004\\0004\\0004$none\\0000\\0000\\0200"
seed listed_twice "\\0002\\0004\\0004\\0004$none\\0000\\0000\\0004\\0004\\0004$none\\0000\\0000a"
seed head 'QSAsnap\n\0001\0000\0000\0000'
seed version 'QSAsnap\n\0002\0000\0000\0000and more'
