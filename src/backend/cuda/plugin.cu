// SPDX-License-Identifier: Apache-2.0
//
// The backend cuda as libqsa sees it (backend/device.h): devices, memory, copies, the staging ring, and the kernels by name. The
// CUDA runtime is linked statically and finds the driver itself, so loading this succeeds without one; open then says so.

#include "backend/cuda/launch.h"
#include "backend/device.h"

#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>
#include <new>

namespace {

enum { SLOTS = 8 };
constexpr size_t SLOT_BYTES = QSA_DEVICE_ROWS * sizeof(qsa_cuda_row);

struct backend {
    int device;
    int major, minor;
    char name[320];
    // Pinned memory that small arrays are sent from, in turn; an event tells when a slot's copy is done.
    unsigned char *ring;
    cudaEvent_t sent[SLOTS];
    int slot;
};

// The caller's current device comes back when a call ends.
class current_device {
  public:
    explicit current_device(int device) {
        changed = cudaGetDevice(&before) != cudaSuccess || before != device;
        status = changed ? cudaSetDevice(device) : cudaSuccess;
    }
    ~current_device() {
        if (changed)
            cudaSetDevice(before);
    }
    cudaError_t status;

  private:
    int before = 0;
    bool changed;
};

cudaStream_t stream_of(void *stream) {
    return static_cast<cudaStream_t>(stream);
}

// An error that a launch or call leaves behind belongs to it: the next one starts clean.
int number_of(cudaError_t status) {
    if (status != cudaSuccess)
        (void)cudaGetLastError();
    return static_cast<int>(status);
}

template <typename Call> int with_device(void *handle, Call call) {
    current_device current(static_cast<backend *>(handle)->device);
    if (current.status != cudaSuccess)
        return number_of(current.status);
    return number_of(static_cast<cudaError_t>(call()));
}

int refuse(char *text, size_t capacity, cudaError_t status, const char *what) {
    snprintf(text, capacity, "%s: %s", what, cudaGetErrorString(status));
    return status == cudaSuccess ? 1 : number_of(status);
}

void close_backend(void *handle) {
    backend *b = static_cast<backend *>(handle);
    {
        current_device current(b->device);
        for (cudaEvent_t event : b->sent)
            if (event)
                cudaEventDestroy(event);
        if (b->ring)
            cudaFreeHost(b->ring);
        (void)cudaGetLastError();
    }
    delete b;
}

cudaError_t make_ring(backend *b) {
    cudaError_t status = cudaHostAlloc(reinterpret_cast<void **>(&b->ring), SLOTS * SLOT_BYTES, cudaHostAllocDefault);
    for (int i = 0; status == cudaSuccess && i < SLOTS; i++)
        status = cudaEventCreateWithFlags(&b->sent[i], cudaEventDisableTiming);
    return status;
}

int open_backend(int32_t device, void **handle, char *text, size_t capacity) {
    int count = 0;
    cudaError_t status = cudaGetDeviceCount(&count);
    if (status != cudaSuccess)
        return refuse(text, capacity, status, "the CUDA driver gives no device");
    if (device >= count) {
        snprintf(text, capacity, "device %d does not exist, there %s %d", device, count == 1 ? "is" : "are", count);
        return 1;
    }
    cudaDeviceProp properties;
    status = cudaGetDeviceProperties(&properties, device);
    if (status != cudaSuccess)
        return refuse(text, capacity, status, "the device tells nothing of itself");
    if (properties.major < 8) {
        snprintf(text, capacity, "%s has compute capability %d.%d, 8.0 or newer is needed", properties.name,
                 properties.major, properties.minor);
        return 1;
    }
    backend *b = new (std::nothrow) backend();
    if (!b) {
        snprintf(text, capacity, "no memory");
        return 1;
    }
    b->device = device;
    b->major = properties.major;
    b->minor = properties.minor;
    snprintf(b->name, sizeof b->name, "%s, compute capability %d.%d", properties.name, properties.major,
             properties.minor);
    current_device current(device);
    status = current.status == cudaSuccess ? make_ring(b) : current.status;
    if (status != cudaSuccess) {
        const int number = refuse(text, capacity, status, b->name);
        close_backend(b);
        return number;
    }
    *handle = b;
    return 0;
}

const char *name_of(void *handle) {
    return static_cast<backend *>(handle)->name;
}

const char *error_of(int number) {
    return cudaGetErrorString(static_cast<cudaError_t>(number));
}

int alloc_memory(void *handle, size_t bytes, void **memory) {
    *memory = nullptr;
    return with_device(handle, [&] { return cudaMalloc(memory, bytes); });
}

void free_memory(void *handle, void *memory) {
    with_device(handle, [&] { return cudaFree(memory); });
}

int copy_memory(void *handle, void *to, const void *from, size_t bytes, void *stream) {
    return with_device(handle, [&] { return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_of(stream)); });
}

int copy_rows(void *handle, void *to, size_t to_stride, const void *from, size_t from_stride, size_t bytes, size_t rows,
              void *stream) {
    return with_device(handle, [&] {
        return cudaMemcpy2DAsync(to, to_stride, from, from_stride, bytes, rows, cudaMemcpyDefault, stream_of(stream));
    });
}

int fill_memory(void *handle, void *to, int byte, size_t bytes, void *stream) {
    return with_device(handle, [&] { return cudaMemsetAsync(to, byte, bytes, stream_of(stream)); });
}

int wait_for(void *handle, void *stream) {
    return with_device(handle, [&] { return cudaStreamSynchronize(stream_of(stream)); });
}

int is_capturing(void *handle, void *stream, int *capturing) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    *capturing = 0;
    const int number = with_device(handle, [&] { return cudaStreamIsCapturing(stream_of(stream), &status); });
    *capturing = status != cudaStreamCaptureStatusNone;
    return number;
}

void *stage_memory(void *handle, size_t bytes) {
    backend *b = static_cast<backend *>(handle);
    if (bytes > SLOT_BYTES)
        return nullptr;
    // Fine for a slot never sent: its event counts as done.
    if (with_device(handle, [&] { return cudaEventSynchronize(b->sent[b->slot]); }) != 0)
        return nullptr;
    return b->ring + static_cast<size_t>(b->slot) * SLOT_BYTES;
}

int send_memory(void *handle, void *to, size_t bytes, void *stream) {
    backend *b = static_cast<backend *>(handle);
    const int slot = b->slot;
    b->slot = (slot + 1) % SLOTS;
    return with_device(handle, [&] {
        const cudaError_t status = cudaMemcpyAsync(to, b->ring + static_cast<size_t>(slot) * SLOT_BYTES, bytes,
                                                   cudaMemcpyHostToDevice, stream_of(stream));
        return status == cudaSuccess ? cudaEventRecord(b->sent[slot], stream_of(stream)) : status;
    });
}

int create_stream(void *handle, void **stream) {
    return with_device(handle, [&] {
        return cudaStreamCreateWithFlags(reinterpret_cast<cudaStream_t *>(stream), cudaStreamNonBlocking);
    });
}

void destroy_stream(void *handle, void *stream) {
    with_device(handle, [&] { return cudaStreamDestroy(stream_of(stream)); });
}

int begin_capture(void *handle, void *stream) {
    return with_device(handle,
                       [&] { return cudaStreamBeginCapture(stream_of(stream), cudaStreamCaptureModeThreadLocal); });
}

int end_capture(void *handle, void *stream, void **graph) {
    return with_device(handle, [&] {
        cudaGraph_t captured = nullptr;
        cudaError_t status = cudaStreamEndCapture(stream_of(stream), &captured);
        if (status == cudaSuccess)
            status = cudaGraphInstantiate(reinterpret_cast<cudaGraphExec_t *>(graph), captured, 0);
        if (captured)
            cudaGraphDestroy(captured);
        return status;
    });
}

int launch_graph(void *handle, void *graph, void *stream) {
    return with_device(handle,
                       [&] { return cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), stream_of(stream)); });
}

void destroy_graph(void *handle, void *graph) {
    with_device(handle, [&] { return cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph)); });
}

int create_event(void *handle, void **event) {
    return with_device(handle, [&] { return cudaEventCreate(reinterpret_cast<cudaEvent_t *>(event)); });
}

void destroy_event(void *handle, void *event) {
    with_device(handle, [&] { return cudaEventDestroy(static_cast<cudaEvent_t>(event)); });
}

int record_event(void *handle, void *event, void *stream) {
    return with_device(handle, [&] { return cudaEventRecord(static_cast<cudaEvent_t>(event), stream_of(stream)); });
}

int between_events(void *handle, void *first, void *second, float *ms) {
    return with_device(handle, [&] {
        const cudaError_t status = cudaEventSynchronize(static_cast<cudaEvent_t>(second));
        return status == cudaSuccess ? cudaEventElapsedTime(ms, static_cast<cudaEvent_t>(first),
                                                            static_cast<cudaEvent_t>(second))
                                     : status;
    });
}

int run_roof(void *handle, int which, void *memory, size_t bytes, int rounds, void *stream) {
    return with_device(handle, [&] { return qsa_roof_cuda(which, memory, bytes, rounds, stream); });
}

// One function per kernel: the arguments through, on the right device.
#define QSA_LAUNCHER(kernel, row)                                                                                      \
    int launch_##kernel(void *handle, const qsa_cuda_##kernel##_args *args, void *stream) {                            \
        return with_device(handle, [&] { return row(args, stream); });                                                 \
    }
QSA_LAUNCHER(prep, qsa_prep_cuda)
QSA_LAUNCHER(score, qsa_score_cuda)
QSA_LAUNCHER(topk, qsa_topk_cuda)
QSA_LAUNCHER(attend, qsa_attend_cuda)
QSA_LAUNCHER(merge, qsa_merge_cuda)
QSA_LAUNCHER(gate, qsa_gate_cuda)
QSA_LAUNCHER(commit, qsa_commit_cuda)
QSA_LAUNCHER(choose, qsa_choose_cuda_mma)
QSA_LAUNCHER(attention, qsa_attention_cuda_mma)
#undef QSA_LAUNCHER

const char *choose_row(void *, const qsa_cuda_cache *cache) {
    return qsa_choose_cuda_mma_serves(cache) ? "choose_cuda_mma" : nullptr;
}

size_t choose_scratch(void *handle, const qsa_cuda_cache *cache, int32_t count, int32_t most_cells) {
    current_device current(static_cast<backend *>(handle)->device);
    return qsa_choose_cuda_mma_scratch(cache, count, most_cells);
}

const char *attention_row(void *, const qsa_cuda_cache *cache) {
    return qsa_attention_cuda_mma_serves(cache) ? "attention_cuda_mma" : nullptr;
}

size_t attention_scratch(void *handle, const qsa_cuda_cache *cache, int32_t count) {
    current_device current(static_cast<backend *>(handle)->device);
    return qsa_attention_cuda_mma_scratch(cache, count);
}

} // namespace

extern "C" __attribute__((visibility("default"))) const qsa_device_ops *qsa_device_backend(void) {
    static qsa_device_ops ops;
    ops.abi = QSA_DEVICE_ABI;
    ops.layout = QSA_DEVICE_LAYOUT;
    ops.open = open_backend;
    ops.close = close_backend;
    ops.name = name_of;
    ops.error = error_of;
    ops.alloc = alloc_memory;
    ops.free = free_memory;
    ops.copy = copy_memory;
    ops.copy_rows = copy_rows;
    ops.fill = fill_memory;
    ops.wait = wait_for;
    ops.capturing = is_capturing;
    ops.stream_create = create_stream;
    ops.stream_destroy = destroy_stream;
    ops.capture_begin = begin_capture;
    ops.capture_end = end_capture;
    ops.graph_launch = launch_graph;
    ops.graph_destroy = destroy_graph;
    ops.event_create = create_event;
    ops.event_destroy = destroy_event;
    ops.event_record = record_event;
    ops.event_between = between_events;
    ops.roof = run_roof;
    ops.stage = stage_memory;
    ops.send = send_memory;
    ops.prep = launch_prep;
    ops.score = launch_score;
    ops.topk = launch_topk;
    ops.attend = launch_attend;
    ops.merge = launch_merge;
    ops.gate = launch_gate;
    ops.commit = launch_commit;
    ops.choose_row = choose_row;
    ops.choose_scratch = choose_scratch;
    ops.choose = launch_choose;
    ops.attention_row = attention_row;
    ops.attention_scratch = attention_scratch;
    ops.attention = launch_attention;
    return &ops;
}
