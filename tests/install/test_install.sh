#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# LABELS: install
# Installs into a folder of its own and builds the outside program there against what was installed, in
# the ways an embedder has: qsa::qsa, qsa::static, pkg-config shared, static and from C++. Each is run, and
# what it was linked with is looked up in the binary.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
outside=$SRC/tests/install/outside
soname=libqsa.so.$(sed -n 's/^set(QSA_SOVERSION \([0-9]*\))/\1/p' "$SRC/CMakeLists.txt")

cmake --install "$BUILD" --prefix "$work/prefix" >/dev/null
DESTDIR=$work/stage cmake --install "$BUILD" --prefix /usr >/dev/null
[ -f "$work/stage/usr/include/qsa/qsa.h" ] || { echo "DESTDIR was not obeyed"; exit 1; }

# Moved after installing: nothing installed may remember where it was put.
mv "$work/prefix" "$work/moved"
prefix=$work/moved
for file in include/qsa/qsa.h bin/qsa share/man/man1/qsa.1; do
    [ -f "$prefix/$file" ] || { echo "$file was not installed"; exit 1; }
done
lib=$(dirname "$(find "$prefix" -name libqsa.a)")
# Debug information names source paths, which is what it is for; text files have no reason to.
! grep -rlIF -e "$SRC" -e "$work/prefix" "$prefix" || { echo "^ names a folder of the build"; exit 1; }
"$prefix/bin/qsa" version >/dev/null

runs() { # runs PROGRAM shared|static
    LD_LIBRARY_PATH=$lib "$1" || { echo "$1 failed"; exit 1; }
    linked=static
    readelf -d "$1" | grep -q "NEEDED.*\[$soname\]" && linked=shared
    [ "$linked" = "$2" ] || { echo "$1 is linked with the $linked library, not the $2 one"; exit 1; }
}

cmake -S "$outside" -B "$work/cmake" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="${CC:-cc}" >/dev/null
cmake --build "$work/cmake" >/dev/null
runs "$work/cmake/outside_shared" shared
runs "$work/cmake/outside_static" static

export PKG_CONFIG_PATH="$lib/pkgconfig"
# shellcheck disable=SC2046 # lists of flags
{
    ${CC:-cc} -std=c17 "$outside/main.c" -o "$work/pc_shared" $(pkg-config --cflags --libs qsa)
    ${CC:-cc} -std=c17 -static "$outside/main.c" -o "$work/pc_static" $(pkg-config --static --cflags --libs qsa)
    ${CXX:-c++} -std=c++17 -x c++ "$outside/main.c" -x none -o "$work/pc_cpp" $(pkg-config --cflags --libs qsa)
}
runs "$work/pc_shared" shared
runs "$work/pc_static" static
runs "$work/pc_cpp" shared

version=$(pkg-config --modversion qsa)
LD_LIBRARY_PATH=$lib "$work/pc_shared" | grep -qF "$version" || { echo "qsa.pc says $version"; exit 1; }
echo "installed, moved, and linked five ways"
