#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# LABELS: install
# What a release build of the library may take from outside: memory, strings, formatting into a buffer,
# threads, what the kernel knows about the machine, the loader (a GPU's plugin), and sqrt and fma. Nothing that aborts, exits, prints or
# reads the environment, and no other function of libm (their bits differ between machines). Control: an
# object that calls abort must be caught.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
grep -q '^CMAKE_BUILD_TYPE:[^=]*=Release$' "$BUILD/CMakeCache.txt" || { echo "no release build"; exit 77; }

cat >"$work/allowed" <<'END'
memcpy memmove memset memcmp memchr
malloc calloc realloc free aligned_alloc posix_memalign madvise
strlen strcmp strncmp strchr strrchr strstr
snprintf vsnprintf
sqrt sqrtf fma fmaf
dlopen dlsym dlerror
pthread_[a-z_]*
sysconf getauxval clock_gettime sched_getaffinity syscall __sched_cpucount
__errno_location __tls_get_addr _GLOBAL_OFFSET_TABLE_ __cpu_model __cpu_indicator_init
END
tr ' ' '\n' <"$work/allowed" | sed 's/.*/^&$/' >"$work/patterns"

imports() { # imports ARCHIVE: undefined in some member and defined in none
    nm -u "$1" | awk 'NF == 2 { print $2 }' | sort -u >"$work/undefined"
    nm --defined-only "$1" | awk 'NF == 3 { print $3 }' | sort -u >"$work/defined"
    comm -23 "$work/undefined" "$work/defined"
}
refused() { imports "$1" | grep -v -f "$work/patterns" || true; }

printf '#include <stdlib.h>\nvoid f(void);\nvoid f(void) { abort(); }\n' | ${CC:-cc} -c -x c - -o "$work/control.o"
ar rc "$work/control.a" "$work/control.o"
[ "$(refused "$work/control.a")" = abort ] || { echo "control: abort was not caught"; exit 1; }

found=$(refused "$BUILD/libqsa.a")
[ -z "$found" ] || { echo "libqsa.a imports:"; echo "$found"; nm -A -u "$BUILD/libqsa.a" | grep -wF "$found"; exit 1; }
echo "libqsa.a imports: $(imports "$BUILD/libqsa.a" | tr '\n' ' ')"
