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

// A CUDA graph of operations. Operations that are queued on a stream between
// Begin and End do not run, but become part of the graph. LaunchOn queues all
// of them with one call. Not thread-safe: the thread that calls Begin must also
// queue the operations and call End. Other threads are unaffected.
class CudaGraph final : public CapturedWork {
 public:
  // Begins a capture. If it returns an error, nothing is captured, and End must
  // not be called.
  static absl::Status Begin(Stream& stream);
  // Ends the capture and returns the graph. Returns the first error of the
  // capture or of the operations queued since Begin; the errors of these
  // operations are not reported elsewhere. `growths` is the current value of
  // CudaContext::growths(). Once that value changes, working memory that the
  // graph uses may have moved.
  static absl::StatusOr<std::unique_ptr<CudaGraph>> End(Stream& stream,
                                                        int64_t growths);
  // The graph may still be running on the GPU. CUDA then frees it when it has
  // completed.
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

// Implements Capture for a CUDA device. `context` must outlive this object.
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
