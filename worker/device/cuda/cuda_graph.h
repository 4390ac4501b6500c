// Operations captured as a CUDA graph.
#ifndef TRIBUTARY_WORKER_DEVICE_CUDA_CUDA_GRAPH_H_
#define TRIBUTARY_WORKER_DEVICE_CUDA_CUDA_GRAPH_H_

#include <cuda_runtime.h>

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/cuda/stream.h"
#include "worker/device/device.h"

namespace tributary::cuda {

// What is queued on the stream between Begin and End is not done but becomes a
// graph, which one call queues. One thread at a time, from Begin to End the
// same; others are not hindered.
class CudaGraph final : public CapturedWork {
 public:
  // In case of an error nothing is captured, and End must not be called.
  static absl::Status Begin(Stream& stream);
  // Errors of what was queued since Begin are returned here alone. `growths`
  // says where the memory is that it uses.
  static absl::StatusOr<std::unique_ptr<CudaGraph>> End(Stream& stream,
                                                        int64_t growths);
  // The GPU may still be running it.
  ~CudaGraph() override;
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  int64_t growths() const { return growths_; }
  void LaunchOn(Stream& stream) const;

 private:
  CudaGraph(cudaGraphExec_t graph, int64_t growths)
      : graph_(graph), growths_(growths) {}

  const cudaGraphExec_t graph_;
  const int64_t growths_;
};

}  // namespace tributary::cuda

#endif  // TRIBUTARY_WORKER_DEVICE_CUDA_CUDA_GRAPH_H_
