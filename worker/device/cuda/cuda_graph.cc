#include "worker/device/cuda/cuda_graph.h"

#include "common/base/status_macros.h"
#include "common/cuda/cuda_status.h"

namespace tributary::cuda {

absl::Status CudaGraph::Begin(Stream& stream) {
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
  stream.Check(cudaGraphLaunch(graph_, stream.get()), "cudaGraphLaunch");
}

}  // namespace tributary::cuda
