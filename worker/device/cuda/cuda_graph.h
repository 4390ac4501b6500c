// Operations captured as a CUDA graph.
#ifndef TRIBUTARY_WORKER_DEVICE_CUDA_CUDA_GRAPH_H_
#define TRIBUTARY_WORKER_DEVICE_CUDA_CUDA_GRAPH_H_

#include <cuda_runtime.h>

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/cuda/stream.h"
#include "worker/device/capture.h"
#include "worker/device/cuda/cuda_context.h"

namespace tributary::cuda {

// Operations queued on the stream between Begin and End, which become a graph
// instead of running; one call launches the graph. Not thread-safe: the same
// thread must call everything from Begin to End. Other threads are unaffected.
class CudaGraph final : public CapturedWork {
 public:
  // Begins capture. On an error nothing is captured, and End must not be
  // called.
  static absl::Status Begin(Stream& stream);
  // Ends capture. Also returns the errors of operations queued since Begin,
  // which are not reported elsewhere. `growths` is the current value of
  // CudaContext::growths(). Once that value changes, working memory that the
  // graph uses may have moved.
  static absl::StatusOr<std::unique_ptr<CudaGraph>> End(Stream& stream,
                                                        int64_t growths);
  // Waits for the GPU, which may still be running the graph.
  ~CudaGraph() override;
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  int64_t growths() const { return growths_; }
  void LaunchOn(Stream& stream) const;

 private:
  CudaGraph(int ordinal, cudaGraphExec_t graph, int64_t growths)
      : ordinal_(ordinal), graph_(graph), growths_(growths) {}

  const int ordinal_;
  const cudaGraphExec_t graph_;
  const int64_t growths_;
};

// The Capture of a CUDA device. `context` must outlive this object.
class CudaCapture final : public Capture {
 public:
  explicit CudaCapture(CudaContext* context) : context_(context) {}

  absl::Status Begin() override;
  absl::StatusOr<std::unique_ptr<CapturedWork>> End() override;
  bool Launch(const CapturedWork& work) override;

 private:
  CudaContext* const context_;
};

}  // namespace tributary::cuda

#endif  // TRIBUTARY_WORKER_DEVICE_CUDA_CUDA_GRAPH_H_
