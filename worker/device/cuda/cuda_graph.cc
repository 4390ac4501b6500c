#include "worker/device/cuda/cuda_graph.h"

#include "common/base/status_macros.h"
#include "common/cuda/cuda_status.h"

namespace tributary::cuda {

absl::Status CudaGraph::Begin(Stream& stream) {
  TRIBUTARY_RETURN_IF_ERROR(stream.status());
  // Thread-local, so that other compute threads may allocate and wait
  // meanwhile.
  TRIBUTARY_RETURN_IF_ERROR(ToStatus(
      cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal),
      "cudaStreamBeginCapture"));
  stream.BeginErrors();
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<CudaGraph>> CudaGraph::End(Stream& stream,
                                                          int64_t growths) {
  cudaGraph_t graph = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(stream.get(), &graph);
  absl::Status status = stream.EndErrors();
  status.Update(ToStatus(ended, "cudaStreamEndCapture"));
  cudaGraphExec_t executable = nullptr;
  if (status.ok()) {
    status = ToStatus(cudaGraphInstantiate(&executable, graph, /*flags=*/0),
                      "cudaGraphInstantiate");
  }
  if (graph != nullptr) cudaGraphDestroy(graph);
  if (!status.ok()) {
    cudaGetLastError();  // Do not report it from a later call.
    return status;
  }
  return std::unique_ptr<CudaGraph>(
      new CudaGraph(stream.ordinal(), executable, growths));
}

CudaGraph::~CudaGraph() {
  cudaSetDevice(ordinal_);
  cudaGraphExecDestroy(graph_);
}

void CudaGraph::LaunchOn(Stream& stream) const {
  stream.Enqueue("cudaGraphLaunch", [&](cudaStream_t queue) {
    return cudaGraphLaunch(graph_, queue);
  });
}

absl::Status CudaCapture::Begin() {
  return CudaGraph::Begin(context_->Current());
}

absl::StatusOr<std::unique_ptr<CapturedWork>> CudaCapture::End() {
  return CudaGraph::End(context_->Current(), context_->growths());
}

bool CudaCapture::Launch(const CapturedWork& work) {
  const auto& graph = static_cast<const CudaGraph&>(work);
  if (graph.growths() != context_->growths()) return false;
  graph.LaunchOn(context_->Current());
  return true;
}

}  // namespace tributary::cuda
