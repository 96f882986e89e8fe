# SPDX-License-Identifier: Apache-2.0
# Flags of every file, as the interface target qsa_flags. The numeric contract needs
# -ffp-contract=off by name (gcc contracts by default outside -std=c17) and never -ffast-math;
# -fno-math-errno changes no bits, it only lets sqrtf and fmaf become instructions.

if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Release or Debug" FORCE)
endif()
set(CMAKE_C_FLAGS_RELEASE "-O2 -g -DNDEBUG")
if(QSA_SANITIZE OR QSA_FUZZ)
    # Assertions on; optimised, because the real geometry runs under the sanitizers too. -g1: lines and functions, which
    # is what a report needs.
    set(CMAKE_C_FLAGS_DEBUG "-O1 -g1 -fno-omit-frame-pointer")
else()
    set(CMAKE_C_FLAGS_DEBUG "-Og -g")
endif()

set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(CMAKE_C_FLAGS MATCHES "-ffast-math|-Ofast|-ffp-contract=(fast|on)|-funsafe-math")
    message(FATAL_ERROR "CMAKE_C_FLAGS breaks the numeric contract: ${CMAKE_C_FLAGS}")
endif()

add_library(qsa_flags INTERFACE)
target_compile_definitions(qsa_flags INTERFACE _POSIX_C_SOURCE=200809L $<$<BOOL:${QSA_REFERENCE_ONLY}>:QSA_REFERENCE_ONLY>)
target_compile_options(qsa_flags INTERFACE
    -ffp-contract=off -fno-math-errno
    -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes
    -Wvla -Wpointer-arith -Wundef -Wwrite-strings
    $<$<BOOL:${QSA_WERROR}>:-Werror>)

if(QSA_SANITIZE)
    target_compile_options(qsa_flags INTERFACE
        -fsanitize=${QSA_SANITIZE} -fno-sanitize-recover=all)
    target_link_options(qsa_flags INTERFACE -fsanitize=${QSA_SANITIZE})
    # At -O1 gcc's range warnings see paths that do not exist; the release build has them on.
    target_compile_options(qsa_flags INTERFACE
        $<$<C_COMPILER_ID:GNU>:-Wno-stringop-overread;-Wno-stringop-overflow;-Wno-format-truncation;-Wno-maybe-uninitialized>)
    target_compile_definitions(qsa_flags INTERFACE QSA_SANITIZED=1)
endif()
if(QSA_FUZZ)
    # fuzzer-no-link instruments everything; only the fuzz targets get libFuzzer's main.
    target_compile_options(qsa_flags INTERFACE -fsanitize=fuzzer-no-link)
    target_link_options(qsa_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
