// SPDX-License-Identifier: Apache-2.0
//
// The driver's functions are asked for by name through the runtime, which is linked statically and finds the driver itself: so the
// object can be loaded where there is none.

#include "lab/cuda/module.h"

#include <cstdio>
#include <cstring>
#include <vector>

namespace {

struct driver {
    decltype(&cuModuleLoadData) load;
    decltype(&cuModuleUnload) unload;
    decltype(&cuModuleGetFunction) function;
    decltype(&cuFuncGetAttribute) get;
    decltype(&cuFuncSetAttribute) set;
    decltype(&cuLaunchKernelEx) launch;
    decltype(&cuOccupancyMaxActiveBlocksPerMultiprocessor) blocks;
    decltype(&cuGetErrorString) text;
};

template <class F> void find(const char *name, F *function) {
    cudaDriverEntryPointQueryResult found;
    void *address = nullptr;
    lab_check(cudaGetDriverEntryPointByVersion(name, &address, 12000, cudaEnableDefault, &found), name);
    if (found != cudaDriverEntryPointSuccess)
        throw lab_stop{-1, std::string("the driver has no ") + name};
    *function = (F)address;
}

const driver &the_driver() {
    static driver d;
    static bool found;
    if (!found) {
        // A wait that spins uses CPU time, so a call that does not end reaches the child's cap.
        lab_check(cudaSetDeviceFlags(cudaDeviceScheduleSpin), "starting the device");
        lab_check(cudaFree(nullptr), "starting the device"); // makes the context
        find("cuModuleLoadData", &d.load);
        find("cuModuleUnload", &d.unload);
        find("cuModuleGetFunction", &d.function);
        find("cuFuncGetAttribute", &d.get);
        find("cuFuncSetAttribute", &d.set);
        find("cuLaunchKernelEx", &d.launch);
        find("cuOccupancyMaxActiveBlocksPerMultiprocessor", &d.blocks);
        find("cuGetErrorString", &d.text);
        found = true;
    }
    return d;
}

void check(CUresult status, int arm, const char *what) {
    if (status == CUDA_SUCCESS)
        return;
    const char *text = nullptr;
    the_driver().text(status, &text);
    throw lab_stop{arm, std::string(what) + ": " + (text ? text : "unknown error")};
}

std::vector<char> bytes_of(const char *path) {
    std::vector<char> bytes;
    FILE *file = fopen(path, "rb");
    char some[65536];
    for (size_t n; file && (n = fread(some, 1, sizeof some, file)) > 0;)
        bytes.insert(bytes.end(), some, some + n);
    if (!file)
        throw lab_stop{-1, std::string(path) + ": cannot be read"};
    fclose(file);
    bytes.push_back('\0');
    return bytes;
}

void from_geometry(lab_launch_values *v, const qsa_geometry &g) {
    v->heads = g.heads, v->kv_heads = g.kv_heads, v->head_dim = g.head_dim, v->index_heads = g.index_heads;
    v->index_dim = g.index_dim, v->rotary_dim = g.rotary_dim, v->ratio = g.ratio, v->budget = g.budget;
    v->chunks = (g.budget + g.ratio - 1 + 63) / 64;
}

void from_cache(lab_launch_values *v, const qsa_cuda_cache &c) {
    from_geometry(v, c.geometry);
    v->kv_type = c.kv_type, v->block_key_type = c.block_key_type, v->keep = c.keep;
}

bool aligned(const qsa_cuda_prep_args *a) {
    uintptr_t all = 0;
    for (const qsa_rows *r : {&a->q, &a->k, &a->v, &a->index_q, &a->index_k})
        all |= (uintptr_t)r->data | (uintptr_t)r->row_stride | (uintptr_t)r->head_stride;
    for (const void *p :
         {(const void *)a->q_factor, (const void *)a->k_factor, (const void *)a->iq_factor, (const void *)a->ik_factor,
          (const void *)a->q_out, (const void *)a->index_q_out, (const void *)a->k_out, (const void *)a->v_out,
          (const void *)a->cache.k, (const void *)a->cache.v, (const void *)a->cache.block_keys,
          (const void *)a->cache.raw, (const void *)a->cache.raw_pending})
        all |= (uintptr_t)p;
    return all % 16 == 0;
}

int attribute(cudaDeviceAttr what) {
    int x = 0, device = 0;
    lab_check(cudaGetDevice(&device), "device");
    lab_check(cudaDeviceGetAttribute(&x, what, device), "attribute");
    return x;
}

int up(int a, int b) {
    return (a + b - 1) / b * b;
}

// Which of the multiprocessor's limits is reached first. Registers come by 256 to a warp; each thread block takes some shared
// memory of its own.
void limit(lab_device_resources *r) {
    const int warps = up(r->threads, 32) / 32, shared = r->shared_static + r->shared_dynamic;
    const int reserved = attribute(cudaDevAttrReservedSharedMemoryPerBlock);
    const int by[4] = {attribute(cudaDevAttrMaxRegistersPerMultiprocessor) / (warps * up(r->registers * 32, 256)),
                       shared + reserved > 0
                           ? attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor) / up(shared + reserved, 128)
                           : 1024,
                       attribute(cudaDevAttrMaxThreadsPerMultiProcessor) / (warps * 32),
                       attribute(cudaDevAttrMaxBlocksPerMultiprocessor)};
    const char *const names[4] = {"registers", "shared memory", "threads", "thread blocks"};
    int least = 0;
    for (int i = 1; i < 4; i++)
        if (by[i] < by[least])
            least = i;
    snprintf(r->limited_by, sizeof r->limited_by, "%s", names[least]);
}

} // namespace

void lab_check(cudaError_t status, const char *what) {
    if (status != cudaSuccess)
        throw lab_stop{-1, std::string(what) + ": " + cudaGetErrorString(status)};
}

lab_launch_values lab_values_of(int kernel, const void *args) {
    lab_launch_values v = {};
    const auto cells = [&](int32_t most) { v.most_cells = most, v.blocks = v.ratio > 0 ? most / v.ratio : 0; };
    if (kernel == LAB_DEVICE_score) {
        const auto *a = static_cast<const qsa_cuda_score_args *>(args);
        from_cache(&v, a->cache), v.rows = a->count, cells(a->most_cells);
    } else if (kernel == LAB_DEVICE_topk) {
        const auto *a = static_cast<const qsa_cuda_topk_args *>(args);
        from_geometry(&v, a->geometry), v.rows = a->count, cells(a->most_cells);
    } else if (kernel == LAB_DEVICE_attend) {
        const auto *a = static_cast<const qsa_cuda_attend_args *>(args);
        from_cache(&v, a->cache), v.rows = a->count;
    } else if (kernel == LAB_DEVICE_merge) {
        const auto *a = static_cast<const qsa_cuda_merge_args *>(args);
        from_geometry(&v, a->geometry), v.rows = a->count;
    } else if (kernel == LAB_DEVICE_gate) {
        const auto *a = static_cast<const qsa_cuda_gate_args *>(args);
        from_geometry(&v, a->geometry), v.rows = a->count;
    } else if (kernel == LAB_DEVICE_prep) {
        const auto *a = static_cast<const qsa_cuda_prep_args *>(args);
        from_cache(&v, a->cache), v.rows = a->count, v.aligned = aligned(a);
    } else {
        const auto *a = static_cast<const qsa_cuda_commit_args *>(args);
        v.rows = a->count, v.index_dim = a->index_dim, v.keep = a->keep, v.layers = a->layers;
    }
    return v;
}

lab_module::lab_module(const lab_device_arm &arm, int number) : number_(number) {
    char why[300];
    const std::vector<char> code = bytes_of(arm.code), lines = bytes_of(arm.launches);
    if (!lab_launch_read(list_, &count_, lines.data(), why, sizeof why))
        throw lab_stop{number, why};
    check(the_driver().load(&module_, code.data()), number, "the driver does not load the module");
    for (int i = 0; i < count_; i++)
        check(the_driver().function(&function_[i], module_, list_[i].kernel), number, list_[i].kernel);
}

lab_module::~lab_module() {
    if (module_)
        the_driver().unload(module_);
}

int lab_module::choose(int kernel, const void *args, lab_launch_shape *shape) {
    char why[300];
    const lab_launch_values values = lab_values_of(kernel, args);
    const int i = lab_launch_choose(list_, count_, &values, shape, why, sizeof why);
    if (i < 0)
        throw lab_stop{number_, why};
    if (shape->shared > 0)
        check(the_driver().set(function_[i], CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)shape->shared),
              number_, "dynamic shared memory");
    return i;
}

void lab_module::launch(int kernel, const void *args, cudaStream_t stream) {
    lab_launch_shape shape;
    const int i = choose(kernel, args, &shape);
    if (shape.grid[0] == 0 || shape.grid[1] == 0 || shape.grid[2] == 0)
        return;
    int32_t narrow[LAB_LAUNCH_ARGS];
    void *parameters[1 + LAB_LAUNCH_ARGS] = {const_cast<void *>(args)};
    int count = 1;
    for (int k = 0; k < list_[i].args; k++) {
        narrow[k] = (int32_t)shape.arg[k];
        if (list_[i].arg_bytes[k] > 0) // else a further member of the struct that narrow already is
            parameters[count++] = list_[i].arg_bytes[k] == 8 ? (void *)&shape.arg[k] : (void *)&narrow[k];
    }
    CUlaunchAttribute cluster = {};
    cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    cluster.value.clusterDim.x = (unsigned)shape.cluster;
    cluster.value.clusterDim.y = cluster.value.clusterDim.z = 1;
    CUlaunchConfig config = {};
    config.gridDimX = (unsigned)shape.grid[0], config.gridDimY = (unsigned)shape.grid[1];
    config.gridDimZ = (unsigned)shape.grid[2], config.blockDimX = (unsigned)shape.block[0];
    config.blockDimY = (unsigned)shape.block[1], config.blockDimZ = (unsigned)shape.block[2];
    config.sharedMemBytes = (unsigned)shape.shared, config.hStream = stream;
    config.attrs = &cluster, config.numAttrs = shape.cluster > 1 ? 1u : 0u;
    check(the_driver().launch(&config, function_[i], parameters, nullptr), number_, "launch");
}

lab_device_resources lab_module::resources(int kernel, const void *args) {
    lab_device_resources r = {};
    lab_launch_shape shape;
    const int i = choose(kernel, args, &shape);
    const auto get = [&](CUfunction_attribute what) {
        int x = 0;
        check(the_driver().get(&x, what, function_[i]), number_, "attribute");
        return x;
    };
    snprintf(r.kernel, sizeof r.kernel, "%s", list_[i].kernel);
    r.registers = get(CU_FUNC_ATTRIBUTE_NUM_REGS), r.spill_bytes = get(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
    r.shared_static = get(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES), r.shared_dynamic = (int)shape.shared;
    r.threads = (int)(shape.block[0] * shape.block[1] * shape.block[2]);
    check(the_driver().blocks(&r.blocks_per_sm, function_[i], r.threads, (size_t)shape.shared), number_, "occupancy");
    limit(&r);
    return r;
}
