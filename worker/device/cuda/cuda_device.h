// Device for NVIDIA GPUs: own CUDA kernels, cuBLASLt for matrix products, cuDNN
// for convolutions, in float32 (with or without TF32) or bfloat16.
//
// Properties that the interface leaves open:
//   - Every operation is queued on the instance's stream. The first error (a
//     library's, a launch that CUDA refuses, working memory that does not fit,
//     or an earlier operation that failed on the GPU) is remembered: the
//     instance queues nothing more, and Synchronize and all functions that
//     return host values return the error. It names the operation, the GPU and
//     CUDA's error.
//   - Only Synchronize, the copies and LossOps::Await block, and operations
//     that grow internal buffers, which later operations of that size reuse. An
//     operation that has run before therefore allocates nothing.
//   - Captured work is a CUDA graph.
//   - CopyFromHost waits for the stream, so that it has read `from` when it
//     returns: CUDA may copy even pageable memory later.
//   - Results are bit-identical on GPUs of the same kind with the same versions
//     of CUDA and cuDNN: there are no atomics on floats and no algorithms that
//     the libraries call non-deterministic, and the shape alone selects the
//     algorithm.
//   - Other instances on the same GPU may use the memory of an instance once
//     that instance has been synchronized.
#ifndef TRIBUTARY_WORKER_DEVICE_CUDA_CUDA_DEVICE_H_
#define TRIBUTARY_WORKER_DEVICE_CUDA_CUDA_DEVICE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/device/device.h"

namespace tributary {

// Returns the number of GPUs of this machine, at least 1. Returns
// FailedPrecondition, with the driver's reason, if there is no GPU or no
// driver, and in a build without CUDA.
absl::StatusOr<int> CountCudaDevices();

// Returns the PCI address of GPU number `ordinal`, which must exist:
// "0000:3b:00.0", in lower case.
absl::StatusOr<std::string> CudaBusId(int ordinal);

// Releases the resources that this process holds on a GPU: several hundred
// megabytes, otherwise held from the first device to the end of the process.
// All objects on that GPU must have been destroyed.
void LeaveCuda(int ordinal);

// Creates a device for GPU number `ordinal` in CUDA's order (from 0;
// CUDA_VISIBLE_DEVICES applies). Each compute thread uses an instance of its
// own; several may share a GPU. The first convolution loads cuDNN.
//
// Returns NotFound if there are fewer GPUs, FailedPrecondition as
// CountCudaDevices does or if this build has no code for the GPU or cuBLASLt
// cannot be loaded, and ResourceExhausted if the GPU's memory is full.
absl::StatusOr<std::unique_ptr<Device>> CreateCudaDevice(
    int ordinal, Precision precision = Precision::kFloat32);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DEVICE_CUDA_CUDA_DEVICE_H_
