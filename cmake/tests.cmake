# SPDX-License-Identifier: Apache-2.0
# Tests by name, so that a new one needs no edit here.
#   tests/**/test_*.c   one executable and one ctest each, named by the stem; links the static library
#                       and tests/support/*.c, tests/oracle/*.c; may include src/ and tests/
#   tests/**/test_*.sh  run with sh
#   tests/fuzz/fuzz_*.c replays tests/fuzz/corpus/<name>/ (or libFuzzer's main with QSA_FUZZ); a line
#                       `// SOURCES: tool/a.c ...` names files of the command that it is built with
#   examples/*.c        built against the static library, run as example_<stem>
# A line `// LABELS: small cross` (`# LABELS:` in a script) replaces the default label: `real` for
# test_*_real.*, else `small`. `// RUNNER: plain` marks a test that uses tests/support/plain_runner.h
# and libqsa alone: it is built with QSA_TOOL=OFF too; all others link cmocka, qsa_io and the
# helpers in tests/support/io/*.c. All link the lab's cases (qsa_cases), and with QSA_TOOL the lab itself. Cross builds hold the plain tests labelled `cross`, thread-sanitized ones those
# labelled `threads`; docs/conventions.md lists the labels.
#   tests/emulated/*.c  rows of kernels.tbl on instructions in plain C; flags by suffix, as in src/kernels/
# Every test sees SRC, BUILD, QSA and QSA_LAB (the commands) in its environment; exit 77 means skipped.

set(qsa_test_environment
    "SRC=${PROJECT_SOURCE_DIR}" "BUILD=${PROJECT_BINARY_DIR}" "CC=${CMAKE_C_COMPILER}"
    "QSA=${PROJECT_BINARY_DIR}/qsa" "QSA_LAB=${PROJECT_BINARY_DIR}/qsa-lab"
    "ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1"
    "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/support/lsan.supp:print_suppressions=0"
    "UBSAN_OPTIONS=print_stacktrace=1"
    "TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1")

# Sets `out` to what follows `KEY:` in a comment of the file's first lines, or to an empty string.
function(qsa_test_note out file key)
    file(STRINGS ${file} line LIMIT_COUNT 1 LIMIT_INPUT 4096 REGEX "^(//|#) ${key}: ")
    string(REGEX REPLACE "^(//|#) ${key}: *" "" line "${line}")
    set(${out} "${line}" PARENT_SCOPE)
endfunction()

function(qsa_test_labels out file)
    qsa_test_note(labels ${file} LABELS)
    if(labels)
        string(REPLACE " " ";" labels "${labels}")
    elseif(file MATCHES "_real\\.[a-z]+$")
        set(labels real)
    else()
        set(labels small)
    endif()
    set(${out} "${labels}" PARENT_SCOPE)
endfunction()

# What takes longest starts first: a clone's first run knows no times.
function(qsa_test_properties name)
    set(cost 0)
    if("long" IN_LIST ARGN)
        set(cost 30)
    elseif("clock" IN_LIST ARGN)
        set(cost 20)
    elseif("lab" IN_LIST ARGN)
        set(cost 15)
    elseif("real" IN_LIST ARGN)
        set(cost 10)
    endif()
    set_tests_properties(${name} PROPERTIES
        LABELS "${ARGN}" ENVIRONMENT "${qsa_test_environment}" SKIP_RETURN_CODE 77 TIMEOUT 900 COST ${cost})
endfunction()

# --- helpers ---------------------------------------------------------------------------------------

add_library(qsa_test_base INTERFACE)
target_include_directories(qsa_test_base INTERFACE tests src)
target_compile_definitions(qsa_test_base INTERFACE
    QSA_GOLDEN_DIR="${PROJECT_SOURCE_DIR}/tests/golden"
    QSA_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
    QSA_BUILD_DIR="${PROJECT_BINARY_DIR}"
    QSA_TOOL_PATH="${PROJECT_BINARY_DIR}/qsa")
target_link_libraries(qsa_test_base INTERFACE qsa_flags qsa_static Threads::Threads m)

file(GLOB support_sources CONFIGURE_DEPENDS tests/support/*.c tests/oracle/*.c)
list(FILTER support_sources EXCLUDE REGEX "/(fuzz_main|test_[^/]*)\\.c$")
foreach(file IN LISTS case_support)
    list(REMOVE_ITEM support_sources ${PROJECT_SOURCE_DIR}/${file})
endforeach()
qsa_kernel_sources(emulated_kernels tests/emulated/*.c)
add_library(qsa_test_support STATIC ${support_sources} ${emulated_kernels})
target_link_libraries(qsa_test_support PUBLIC qsa_test_base qsa_cases qsa_host)
if(QSA_TOOL)
    target_link_libraries(qsa_test_support PUBLIC qsa_lab_core)
    target_compile_definitions(qsa_test_support PUBLIC QSA_TEST_LAB)
endif()

if(QSA_TOOL)
    pkg_check_modules(cmocka REQUIRED IMPORTED_TARGET cmocka)
    file(GLOB support_io_sources CONFIGURE_DEPENDS tests/support/io/*.c)
    add_library(qsa_test_io STATIC ${support_io_sources})
    target_link_libraries(qsa_test_io PUBLIC
        qsa_test_support qsa_io PkgConfig::libcrypto PkgConfig::cmocka)
endif()

# --- test programs ---------------------------------------------------------------------------------

file(GLOB_RECURSE test_sources CONFIGURE_DEPENDS tests/test_*.c)
foreach(file IN LISTS test_sources)
    cmake_path(GET file STEM name)
    qsa_test_labels(labels ${file})
    qsa_test_note(runner ${file} RUNNER)
    if(NOT runner STREQUAL "plain" AND NOT QSA_TOOL)
        continue()
    endif()
    if(CMAKE_CROSSCOMPILING AND NOT "cross" IN_LIST labels)
        continue()
    endif()
    if(QSA_SANITIZE MATCHES "thread" AND NOT "threads" IN_LIST labels)
        continue()
    endif()
    add_executable(${name} ${file})
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY tests)
    if(NOT runner STREQUAL "plain")
        target_link_libraries(${name} PRIVATE qsa_test_io)
    endif()
    target_link_libraries(${name} PRIVATE qsa_test_support)
    if(file MATCHES "/tests/bench/")
        target_link_libraries(${name} PRIVATE qsa_bench_core)
    endif()
    add_test(NAME ${name} COMMAND ${name})
    qsa_test_properties(${name} ${labels})
endforeach()

# Kernels of the plugin called directly: against the CPU's reference rows, or timed alone (bench_*.cu). Where there is nvcc but no
# device they are built only when asked for (target cuda_tests), and listed as skipped by the tests above.
if(QSA_HAS_CUDA)
    add_custom_target(cuda_tests)
    foreach(name test_cuda_kernels bench_choose bench_attention)
        set(sources tests/cuda/${name}.cu)
        if(name STREQUAL "bench_choose")
            list(APPEND sources tests/cuda/check_choose.cu)
        endif()
        add_executable(${name} EXCLUDE_FROM_ALL ${sources})
        set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY tests CUDA_STANDARD 17 CUDA_RUNTIME_LIBRARY Static)
        target_include_directories(${name} PRIVATE . tests/cuda tests src include)
        target_compile_options(${name} PRIVATE "SHELL:-gencode arch=compute_90a,code=sm_90a" "SHELL:-Xcompiler -ffp-contract=off")
        target_link_libraries(${name} PRIVATE qsa_cuda_objects qsa_static)
        add_dependencies(cuda_tests ${name})
    endforeach()
endif()

# A minute of `make soak`, with seeds of its own, among the long tests.
if(NOT CMAKE_CROSSCOMPILING AND NOT QSA_SANITIZE)
    add_test(NAME test_history_soak COMMAND test_history 60)
    qsa_test_properties(test_history_soak long)
endif()

# The digests again, on a GPU.
if(NOT CMAKE_CROSSCOMPILING AND NOT QSA_SANITIZE)
    foreach(name test_digests test_digests_real)
        add_test(NAME ${name}_cuda COMMAND ${name} --cuda)
        qsa_test_properties(${name}_cuda cuda)
    endforeach()
endif()

if(QSA_TOOL AND NOT CMAKE_CROSSCOMPILING)
    file(GLOB_RECURSE test_scripts CONFIGURE_DEPENDS tests/test_*.sh)
    foreach(file IN LISTS test_scripts)
        cmake_path(GET file STEM name)
        qsa_test_labels(labels ${file})
        add_test(NAME ${name} COMMAND sh ${file})
        qsa_test_properties(${name} ${labels})
    endforeach()
endif()

# --- fuzz targets ----------------------------------------------------------------------------------

if(QSA_TOOL)
    add_custom_target(fuzz_targets)
    file(GLOB fuzz_sources CONFIGURE_DEPENDS tests/fuzz/fuzz_*.c)
    foreach(file IN LISTS fuzz_sources)
        cmake_path(GET file STEM name)
        string(REGEX REPLACE "^fuzz_" "" corpus ${name})
        add_executable(${name} ${file})
        set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY fuzz)
        qsa_test_note(extra ${file} SOURCES)
        if(extra)
            string(REPLACE " " ";" extra "${extra}")
            list(TRANSFORM extra PREPEND ${PROJECT_SOURCE_DIR}/)
            target_sources(${name} PRIVATE ${extra})
        endif()
        target_include_directories(${name} PRIVATE tests src .)
        target_link_libraries(${name} PRIVATE qsa_flags qsa_io)
        add_dependencies(fuzz_targets ${name})
        if(QSA_FUZZ)
            target_link_options(${name} PRIVATE -fsanitize=fuzzer)
        else()
            target_sources(${name} PRIVATE tests/support/fuzz_main.c)
            add_test(NAME ${name} COMMAND ${name} ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${corpus})
            qsa_test_properties(${name} small)
        endif()
    endforeach()
endif()

# --- examples --------------------------------------------------------------------------------------

file(GLOB example_sources CONFIGURE_DEPENDS examples/*.c)
foreach(file IN LISTS example_sources)
    cmake_path(GET file STEM name)
    add_executable(example_${name} ${file})
    set_target_properties(example_${name} PROPERTIES
        OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY examples)
    target_link_libraries(example_${name} PRIVATE qsa_flags qsa_static m)
    add_test(NAME example_${name} COMMAND example_${name})
    qsa_test_properties(example_${name} small)
endforeach()
