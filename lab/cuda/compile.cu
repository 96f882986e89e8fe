// SPDX-License-Identifier: Apache-2.0
//
// NVRTC: a unit to machine code. The system's headers are a few lines here, since it has none of its own.

#include "lab/cuda/compile.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nvrtc.h>
#include <string>
#include <vector>

namespace {

const char integers[] =
    "#pragma once\n"
    "typedef signed char int8_t; typedef short int16_t; typedef int int32_t; typedef long int64_t;\n"
    "typedef unsigned char uint8_t; typedef unsigned short uint16_t; typedef unsigned int uint32_t;\n"
    "typedef unsigned long uint64_t; typedef unsigned long uintptr_t; typedef long intptr_t;\n"
    "#define INT8_MAX 127\n#define INT16_MAX 32767\n#define INT32_MAX 2147483647\n"
    "#define INT32_MIN (-2147483647 - 1)\n#define INT64_MAX 9223372036854775807L\n"
    "#define UINT32_MAX 4294967295u\n#define UINT64_MAX 18446744073709551615ul\n";
const char limits[] = "#pragma once\n#define FLT_MAX 3.402823466e+38f\n#define FLT_MIN 1.175494351e-38f\n"
                      "#define FLT_EPSILON 1.192092896e-07f\n#define INT_MAX 2147483647\n"
                      "#define INFINITY __int_as_float(0x7f800000)\n#define NAN __int_as_float(0x7fc00000)\n";
const char assertions[] = "#define assert(what)\n";
const char *const names[] = {"stdint.h", "stddef.h", "stdbool.h", "string.h",      "math.h",
                             "float.h",  "limits.h", "assert.h",  "cuda_runtime.h"};
const char *const texts[] = {integers, "", "", "", limits, limits, limits, assertions, ""};
constexpr int HEADERS = sizeof names / sizeof *names;

// The first error, without the place where it is: "unit.cu(15): error: ..." on its line.
void keep_error(nvrtcProgram program, lab_device_code *code) {
    size_t size = 0;
    if (nvrtcGetProgramLogSize(program, &size) != NVRTC_SUCCESS || size < 2)
        return;
    std::string log(size, '\0');
    if (nvrtcGetProgramLog(program, &log[0]) != NVRTC_SUCCESS)
        return;
    const size_t at = log.find("error: ");
    const size_t from = at == std::string::npos ? 0 : at + 7;
    snprintf(code->log, sizeof code->log, "%s", log.substr(from, log.find('\n', from) - from).c_str());
}

bool take(nvrtcProgram program, const lab_device_source *source, lab_device_code *code) {
    for (int i = 0; i < source->kernels_count; i++) {
        const char *name = nullptr;
        if (nvrtcGetLoweredName(program, source->kernels[i], &name) != NVRTC_SUCCESS || !name) {
            snprintf(code->log, sizeof code->log, "LAUNCH: kernel=%s is no kernel of the file", source->kernels[i]);
            return false;
        }
        code->lowered[i] = strdup(name);
    }
    if (nvrtcGetCUBINSize(program, &code->size) != NVRTC_SUCCESS || code->size == 0)
        return false;
    code->bytes = static_cast<char *>(malloc(code->size));
    return code->bytes && nvrtcGetCUBIN(program, code->bytes) == NVRTC_SUCCESS;
}

} // namespace

int lab_nvrtc_version(void) {
    int major = 0, minor = 0;
    return nvrtcVersion(&major, &minor) == NVRTC_SUCCESS ? major * 1000 + minor * 10 : 0;
}

bool lab_nvrtc_compile(const lab_device_source *source, lab_device_code *code) {
    nvrtcProgram program = nullptr;
    memset(code, 0, sizeof *code);
    nvrtcResult status = nvrtcCreateProgram(&program, source->text, source->name, HEADERS, texts, names);
    for (int i = 0; status == NVRTC_SUCCESS && i < source->kernels_count; i++)
        status = nvrtcAddNameExpression(program, source->kernels[i]);
    if (status == NVRTC_SUCCESS)
        status = nvrtcCompileProgram(program, source->flags_count, source->flags);
    bool right = status == NVRTC_SUCCESS && source->kernels_count <= 16;
    if (!right)
        keep_error(program, code);
    right = right && take(program, source, code);
    if (!right && !code->log[0])
        snprintf(code->log, sizeof code->log, "%s", nvrtcGetErrorString(status));
    if (program)
        nvrtcDestroyProgram(&program);
    return right;
}
