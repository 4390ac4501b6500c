// Device for NVIDIA GPUs. Uses cuBLASLt for matrix products, cuDNN for
// convolutions, and kernels of this project for all other operations, in
// float32 (with or without TF32) or bfloat16.
//
// Properties that the interface leaves open:
//   - Every operation is queued on the instance's stream. The first error (a
//     library's, a launch that CUDA refuses, working memory that does not fit,
//     or an earlier operation that failed on the GPU) is remembered: the
//     instance queues nothing more, and Synchronize and all functions that
//     return host values return the error. It names the operation, the GPU and
//     CUDA's error.
//   - Only Synchronize, Allocate, the copies, LossOps::Await, freeing memory,
//     and operations that grow internal buffers block. Later operations of the
//     same size reuse these buffers, so an operation that has run before
//     allocates nothing.
//   - Captured work is a CUDA graph.
//   - CopyFromHost blocks until the stream has executed the copy. Otherwise,
//     CUDA could read `from` after the call has returned, even if the memory is
//     pageable.
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
#include "common/base/buffer_pool.h"
#include "worker/device/device.h"

namespace tributary {

// Returns the number of GPUs of this machine that CUDA can use, which is at
// least 1. Returns FailedPrecondition, with the driver's reason, if there is no
// such GPU or no driver, and in a build without CUDA.
absl::StatusOr<int> CountCudaDevices();

// Returns the PCI address of GPU number `ordinal` in lower case, such as
// "0000:3b:00.0". The GPU must exist. Returns CUDA's error if CUDA cannot read
// the address, and FailedPrecondition in a build without CUDA.
absl::StatusOr<std::string> CudaBusId(int ordinal);

// Returns a function that pins host memory, so that GPU number `ordinal` can
// copy from and to it without involving the CPU. Needs only CUDA's driver, also
// in a build without CUDA. Returns FailedPrecondition, with the driver's
// reason, if there is no GPU that CUDA can use or no driver, and NotFound if
// there is no GPU with this number.
absl::StatusOr<PinMemory> PinForCuda(int ordinal);

// Releases the several hundred megabytes of memory that CUDA itself occupies on
// GPU number `ordinal` for this process. Without this call, the memory stays
// occupied from the creation of the first device until the process ends. All
// objects on that GPU must have been destroyed.
void LeaveCuda(int ordinal);

// Creates a device for GPU number `ordinal`. GPUs are numbered from 0 in CUDA's
// order, which CUDA_VISIBLE_DEVICES affects. Each thread that computes
// micro-batches uses an instance of its own; several instances may share a GPU.
// The first convolution loads cuDNN.
//
// Returns the errors of CountCudaDevices; NotFound if there is no GPU with this
// number; FailedPrecondition if this build has no code for the GPU or cuBLASLt
// cannot be loaded; and ResourceExhausted if the GPU's memory is full.
absl::StatusOr<std::unique_ptr<Device>> CreateCudaDevice(
    int ordinal, Precision precision = Precision::kFloat32);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DEVICE_CUDA_CUDA_DEVICE_H_
