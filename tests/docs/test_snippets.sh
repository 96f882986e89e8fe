#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# LABELS: docs
# The documents hold what they say: every C block of README.md and docs/api.md compiles with the header and
# the names below, and every relative link leads to a file. Controls: a misspelt function must not compile,
# a link to nowhere must be found.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# What the blocks take as given: the engine's own buffers and functions. Anything that a block declares hides these.
cat >"$work/given.h" <<'END'
#define _POSIX_C_SOURCE 200809L
#include <qsa/qsa.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
struct my_pool;
void my_pool_submit(struct my_pool *pool, qsa_task task, void *arg, int32_t i);
void my_pool_wait(struct my_pool *pool);
void project(int32_t layer, qsa_batch *batch);
void rest_of_layer(int32_t layer, const qsa_rows_out *out);
extern qsa_geometry geometry;
extern qsa_context *context;
extern qsa_layer *layer, *layers[12];
extern qsa_cache *cache, *other;
extern qsa_batch batch;
extern qsa_selection selection;
extern qsa_rows_out out;
extern const void *weights[4];
extern const unsigned char *fused;
extern size_t bytes;
extern int32_t rows, *sequences, *positions, *cells, *ids, *count, *chunks;
extern float *q, *index_q, *scores, *records, *lse;
extern void *workspace, *attention, *codes_k, *codes_v, *block_keys;
extern uint16_t *scales_k, *scales_v;
int write_piece(void *file, const void *data, size_t bytes);
int read_piece(void *file, void *data, size_t bytes);
END
cat >"$work/readme.h" <<'END'
extern qsa_layer_config norms;
extern qsa_cache_config config;
extern int32_t sequence;
END
echo 'extern int32_t sequence[8];' >"$work/api.h"

# snippets FILE PREFIX: writes each block ```c as PREFIX<n>.c, a function's body unless it begins with a function.
snippets() {
    awk -v prefix="$2" '
        /^```c$/ { inside = 1; first = 1; file = sprintf("%s%d.c", prefix, ++n)
                   printf "#include \"given.h\"\n#include \"%s.h\"\n", name > file; next }
        /^```$/ && inside { if (body) print "return 0;\n}" > file; close(file); inside = 0 }
        inside { if (first) { body = !/^static /; if (body) print "int snippet(void);\nint snippet(void) {" > file }
                 first = 0; print > file }
        END { print n + 0 }' name="$3" "$1"
}
compiles() { # compiles FILE
    ${CC:-cc} -std=c17 -pedantic -Wall -Wextra -Werror -Wno-unused -fsyntax-only -I "$SRC/include" -I "$work" "$1"
}

in_readme=$(snippets "$SRC/README.md" "$work/readme" readme)
in_api=$(snippets "$SRC/docs/api.md" "$work/api" api)
if [ "$in_readme" -lt 1 ] || [ "$in_api" -lt 9 ]; then
    echo "only $in_readme and $in_api blocks were found"
    exit 1
fi
for file in "$work"/readme*.c "$work"/api*.c; do
    compiles "$file" || { echo "a block of the documents does not compile:"; cat "$file"; exit 1; }
done
sed 's/qsa_cache_commit(/qsa_cache_comit(/' "$work/readme1.c" >"$work/control.c"
! compiles "$work/control.c" 2>/dev/null || { echo "control: a misspelt function compiled"; exit 1; }

# dead_links FOLDER FILE: relative links of a document that lead nowhere.
dead_links() {
    grep -o '](\([^)#:]*\)[)#]' "$2" | sed 's/^](//; s/[)#]$//' | sort -u | while read -r link; do
        [ -z "$link" ] || [ -e "$1/$link" ] || echo "$2: $link"
    done
}
dead=$(for file in "$SRC"/*.md "$SRC"/docs/*.md "$SRC"/tests/*/*.md; do dead_links "$(dirname "$file")" "$file"; done)
[ -z "$dead" ] || { echo "links to nowhere:"; echo "$dead"; exit 1; }
echo '[x](no/such/file.md)' >"$work/control.md"
[ -n "$(dead_links "$work" "$work/control.md")" ] || { echo "control: a dead link was not found"; exit 1; }
echo "$in_readme + $in_api blocks compile, no dead link"
