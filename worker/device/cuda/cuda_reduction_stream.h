// ReductionStream for NVIDIA GPUs.
#ifndef TRIBUTARY_WORKER_DEVICE_CUDA_CUDA_REDUCTION_STREAM_H_
#define TRIBUTARY_WORKER_DEVICE_CUDA_CUDA_REDUCTION_STREAM_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/device/reduction_stream.h"

namespace tributary {

// Creates a ReductionStream, which adds gradients and updates weights, on an
// NVIDIA GPU. See ReductionStreamMaker for the arguments and errors. Also
// returns FailedPrecondition in a build without CUDA.
absl::StatusOr<std::unique_ptr<ReductionStream>> CreateCudaReductionStream(
    const std::string& bus_id, const ReductionStream::Plan& plan);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DEVICE_CUDA_CUDA_REDUCTION_STREAM_H_
