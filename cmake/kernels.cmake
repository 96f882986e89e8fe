# SPDX-License-Identifier: Apache-2.0
# src/kernels/<stage>/<kernel>_<where>[_<idea>].c: `where` decides the architecture and the flags.
# A new instruction set is one line in the table below. Files in src/kernels/ itself (no stage) are
# compiled like the rest of the library.

# where | architecture (any: all) | flags. Longer names first: avx512_vnni is no idea of avx512.
set(QSA_KERNEL_WHERES
    "avx512_vnni|x86_64|-march=x86-64-v4 -mavx512vnni"
    "avx2_vnni|x86_64|-march=x86-64-v3 -mavxvnni"
    "avx512|x86_64|-march=x86-64-v4"
    "avx2|x86_64|-march=x86-64-v3"
    "amx|x86_64|-march=x86-64-v4 -mamx-tile -mamx-int8"
    "neon_dot|aarch64|-march=armv8.2-a+dotprod"
    "neon|aarch64|"
    "fma|x86_64|-mavx2 -mfma -mf16c"
    "ref|any|")

string(TOLOWER "${CMAKE_SYSTEM_PROCESSOR}" QSA_ARCH)
if(QSA_ARCH STREQUAL "amd64")
    set(QSA_ARCH x86_64)
elseif(QSA_ARCH STREQUAL "arm64")
    set(QSA_ARCH aarch64)
endif()

# With QSA_HOST_ROWS the rows of the rarer instruction sets that this machine lacks are left out: it could not run them.
set(QSA_WITHOUT "")
if(QSA_HOST_ROWS AND QSA_ARCH STREQUAL "x86_64" AND NOT CMAKE_CROSSCOMPILING AND EXISTS /proc/cpuinfo)
    file(STRINGS /proc/cpuinfo cpu_flags REGEX "^flags" LIMIT_COUNT 1)
    if(NOT cpu_flags MATCHES " avx_vnni")
        list(APPEND QSA_WITHOUT avx2_vnni)
    endif()
    if(NOT cpu_flags MATCHES " avx512_vnni")
        list(APPEND QSA_WITHOUT avx512_vnni)
    endif()
    if(NOT cpu_flags MATCHES " amx_int8")
        list(APPEND QSA_WITHOUT amx)
    endif()
    foreach(part avx512f avx512bw avx512vl avx512dq)
        if(NOT cpu_flags MATCHES " ${part}")
            list(APPEND QSA_WITHOUT avx512 avx512_vnni amx)
        endif()
    endforeach()
    list(REMOVE_DUPLICATES QSA_WITHOUT)
    list(TRANSFORM QSA_WITHOUT PREPEND QSA_WITHOUT_ OUTPUT_VARIABLE definitions)
    target_compile_definitions(qsa_flags INTERFACE ${definitions})
endif()

# Sets `out` to the kernel sources of this architecture among the files of a glob, and their flags on each of them.
function(qsa_kernel_sources out glob)
    set(sources "")
    file(GLOB kernels CONFIGURE_DEPENDS "${glob}")
    foreach(file IN LISTS kernels)
        cmake_path(GET file STEM stem)
        set(found FALSE)
        foreach(row IN LISTS QSA_KERNEL_WHERES)
            string(REGEX MATCH "^([^|]+)\\|([^|]+)\\|(.*)$" row "${row}")
            set(where "${CMAKE_MATCH_1}")
            set(arch "${CMAKE_MATCH_2}")
            separate_arguments(flags UNIX_COMMAND "${CMAKE_MATCH_3}")
            if(stem MATCHES "^.+_${where}(_.+)?$")
                set(found TRUE)
                break()
            endif()
        endforeach()
        if(NOT found)
            message(FATAL_ERROR
                "${file}: a kernel's file is named <kernel>_<where>[_<idea>].c; no `where` in it")
        endif()
        if(arch STREQUAL "any" OR arch STREQUAL QSA_ARCH)
            # -O3 last, so it wins over the build type's; no LTO, which would mix the flags.
            if(CMAKE_BUILD_TYPE STREQUAL "Release")
                list(APPEND flags -O3)
            endif()
            set_source_files_properties(${file} PROPERTIES COMPILE_OPTIONS "${flags};-fno-lto")
            list(APPEND sources ${file})
        endif()
    endforeach()
    set(${out} ${sources} PARENT_SCOPE)
endfunction()
