// Device on an NVIDIA GPU: CUDA kernels of our own, cuBLASLt for matrix
// products, cuDNN for convolutions, in float32, with or without TF32, or in
// bfloat16.
//
// What the interface leaves open:
// - Every operation is queued on one stream of the instance. An error, which
//   means that the GPU or its driver is broken or out of memory, is remembered,
//   and ends the process (exit code 1, one line on stderr that names the
//   operation) at the next wait.
// - The only waits are Synchronize, CopyToHost and AwaitLoss; also, while they
//   grow, working buffers, which later operations of that size use again. So an
//   operation that has run before allocates nothing.
// - Captured work is a CUDA graph.
// - CopyFromHost has read `from` when it returns. From pageable memory (new,
//   std::vector) it does not wait for the stream; from memory that CUDA has
//   pinned it does.
// - Results are the same bits on GPUs of one kind with the same versions of
//   CUDA and cuDNN: no atomics on floats, no algorithm that the libraries call
//   non-deterministic, and a choice of algorithm by shape alone.
// - Memory of one instance may be used by others of the same GPU, once the
//   first has been synchronized.
#ifndef TRIBUTARY_WORKER_DEVICE_CUDA_CUDA_DEVICE_H_
#define TRIBUTARY_WORKER_DEVICE_CUDA_CUDA_DEVICE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/device/device.h"

namespace tributary {

// GPUs of this machine, at least 1. FailedPrecondition, with the driver's
// reason, where there is none, or no driver; and in a build without CUDA.
absl::StatusOr<int> CountCudaDevices();

// Where GPU number `ordinal`, which must exist, sits: "0000:3b:00.0", in lower
// case.
absl::StatusOr<std::string> CudaBusId(int ordinal);

// Gives back what this process holds of a GPU: some hundred megabytes, from the
// first device on it to the process's end. Everything of that GPU must be gone.
void LeaveCuda(int ordinal);

// GPU number `ordinal` as CUDA counts them (from 0, CUDA_VISIBLE_DEVICES
// applies). NotFound if there are fewer, FailedPrecondition as above or where
// this build has no code for that GPU or cuBLASLt cannot be loaded,
// ResourceExhausted if its memory is full. cuDNN is loaded by the first
// convolution. One instance for each computing thread, as for every Device;
// several may share a GPU.
absl::StatusOr<std::unique_ptr<Device>> CreateCudaDevice(
    int ordinal, Precision precision = Precision::kFloat32);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DEVICE_CUDA_CUDA_DEVICE_H_
