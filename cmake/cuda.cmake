# SPDX-License-Identifier: Apache-2.0
# The plugin libqsa_cuda: src/backend/cuda/*.cu and src/kernels/<stage>/*_cuda*.cu. Strict kernels must not contract, and their
# divisions and roots are IEEE's; fast ones, <kernel>_cuda_<idea>.cu, may use what the device has. Machine code for sm_90a, and
# PTX of compute_80 that newer and older devices (8.0 on) compile for themselves; rows that need sm_90a say so inside.

set(QSA_HAS_CUDA FALSE)
if(NOT QSA_CUDA STREQUAL "OFF")
    find_program(QSA_NVCC NAMES nvcc PATHS /usr/local/cuda/bin)
    if(QSA_NVCC)
        set(CMAKE_CUDA_COMPILER ${QSA_NVCC})
        set(CMAKE_CUDA_ARCHITECTURES OFF)
        enable_language(CUDA)
        set(QSA_HAS_CUDA TRUE)
    elseif(QSA_CUDA STREQUAL "ON")
        message(FATAL_ERROR "QSA_CUDA is ON and there is no nvcc")
    else()
        message(STATUS "no nvcc: the backend cuda is not built")
    endif()
endif()

option(QSA_CUDA_PTX_ONLY "PTX of compute_90a alone: a third of the time, for machines that only see whether it compiles" OFF)
set(QSA_CUDA_FLAGS "SHELL:-gencode arch=compute_90a,code=sm_90a" "SHELL:-gencode arch=compute_80,code=compute_80")
if(QSA_CUDA_PTX_ONLY)
    set(QSA_CUDA_FLAGS "SHELL:-gencode arch=compute_90a,code=compute_90a")
endif()
list(APPEND QSA_CUDA_FLAGS
    --prec-div=true --prec-sqrt=true --ftz=false "SHELL:-Xcompiler -Wall,-Wextra,-ffp-contract=off")

if(QSA_HAS_CUDA)
    file(GLOB cuda_sources CONFIGURE_DEPENDS src/backend/cuda/*.cu src/kernels/*/*_cuda*.cu)
    add_library(qsa_cuda_objects OBJECT ${cuda_sources})
    set_target_properties(qsa_cuda_objects PROPERTIES POSITION_INDEPENDENT_CODE ON CUDA_VISIBILITY_PRESET hidden
        CUDA_STANDARD 17 CUDA_STANDARD_REQUIRED ON CUDA_EXTENSIONS OFF)
    target_include_directories(qsa_cuda_objects PRIVATE include src)
    target_compile_options(qsa_cuda_objects PRIVATE ${QSA_CUDA_FLAGS})
    add_library(qsa_cuda SHARED $<TARGET_OBJECTS:qsa_cuda_objects>)
    set_target_properties(qsa_cuda PROPERTIES
        VERSION ${PROJECT_VERSION} SOVERSION ${QSA_SOVERSION} LINKER_LANGUAGE CUDA CUDA_RUNTIME_LIBRARY Static
        LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
    foreach(file IN LISTS cuda_sources)
        if(file MATCHES "_cuda\\.cu$")
            set_source_files_properties(${file} PROPERTIES COMPILE_OPTIONS "--fmad=false")
        endif()
    endforeach()
endif()

# The lab's part for GPUs, libqsa_cuda_lab: NVRTC, proofs, times, probes. It is loaded by qsa-lab alone.
if(QSA_HAS_CUDA AND QSA_TOOL)
    cmake_path(GET QSA_NVCC PARENT_PATH QSA_NVCC_DIR)
    find_library(QSA_NVRTC nvrtc PATHS ${QSA_NVCC_DIR}/../lib64 /usr/local/cuda/lib64)
    if(QSA_NVRTC)
        file(GLOB cuda_lab_sources CONFIGURE_DEPENDS lab/cuda/*.cu)
        add_library(qsa_cuda_lab SHARED ${cuda_lab_sources} lab/launch.c)
        set_target_properties(qsa_cuda_lab PROPERTIES
            VERSION ${PROJECT_VERSION} SOVERSION ${QSA_SOVERSION} LINKER_LANGUAGE CUDA CUDA_RUNTIME_LIBRARY Static
            CUDA_STANDARD 17 CUDA_STANDARD_REQUIRED ON CUDA_EXTENSIONS OFF CUDA_VISIBILITY_PRESET hidden
            POSITION_INDEPENDENT_CODE ON LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
        target_include_directories(qsa_cuda_lab PRIVATE . src include tests tests/cuda)
        target_compile_options(qsa_cuda_lab PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:${QSA_CUDA_FLAGS}>
            $<$<COMPILE_LANGUAGE:CUDA>:-Xcudafe --diag_suppress=177>)
        target_link_libraries(qsa_cuda_lab PRIVATE qsa_static ${QSA_NVRTC})
    else()
        message(STATUS "no libnvrtc: qsa-lab takes no .cu files")
    endif()
endif()
