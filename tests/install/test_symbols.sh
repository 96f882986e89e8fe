#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# LABELS: install
# libqsa.so exports exactly the functions that the header declares with QSA_API, has its soname, and needs
# libc, libm and threads only; every global symbol of libqsa.a starts with qsa_. Control: a list with one
# name missing must differ.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
shared=$BUILD/libqsa.so

sed -n 's/^QSA_API [^(]*\(qsa_[a-z0-9_]*\)(.*/\1/p' "$SRC/include/qsa/qsa.h" | sort >"$work/header"
nm -D --defined-only "$shared" | awk '{ print $NF }' | sort >"$work/exported"
[ "$(wc -l <"$work/header")" = "$(grep -c '^QSA_API ' "$SRC/include/qsa/qsa.h")" ] ||
    { echo "a QSA_API line of the header is not of the form QSA_API TYPE qsa_name("; exit 1; }
[ -s "$work/header" ] || { echo "the header declares nothing"; exit 1; }
diff "$work/header" "$work/exported" || { echo "header (<) and $shared (>) differ"; exit 1; }
! sed 1d "$work/header" | diff -q - "$work/exported" >/dev/null || { echo "control: not caught"; exit 1; }

soname=$(readelf -d "$shared" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
expected=libqsa.so.$(sed -n 's/^set(QSA_SOVERSION \([0-9]*\))/\1/p' "$SRC/CMakeLists.txt")
[ "$soname" = "$expected" ] || { echo "soname is $soname, not $expected"; exit 1; }
other=$(readelf -d "$shared" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' |
    grep -vE '^(libc|libm|libpthread|ld-linux[a-z0-9_-]*)\.so\.[0-9]+$' || true)
[ -z "$other" ] || { echo "$shared needs $other"; exit 1; }

nm -g --defined-only "$BUILD/libqsa.a" | awk 'NF == 3 { print $3 }' | grep -v '^qsa_' >"$work/foreign" || true
[ ! -s "$work/foreign" ] || { echo "libqsa.a defines globals that do not start with qsa_:"; cat "$work/foreign"; exit 1; }
echo "$(wc -l <"$work/exported") symbols, all in the header"
