// Creates the groups of operations of CUDA devices. One source file implements
// each group.
#ifndef TRIBUTARY_WORKER_DEVICE_CUDA_CUDA_OPS_H_
#define TRIBUTARY_WORKER_DEVICE_CUDA_CUDA_OPS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "worker/device/cuda/cuda_context.h"
#include "worker/device/cuda/kernels/bfloat16.h"
#include "worker/device/ops/operations.h"

namespace tributary::cuda {

// Each of these functions creates a group of operations that computes with the
// number format `precision`. The GPU of `context` must be the calling thread's
// current CUDA device. `context` must outlive the group.
std::unique_ptr<AttentionOps> CreateAttentionOps(Precision precision,
                                                 CudaContext* context);
std::unique_ptr<BatchNormOps> CreateBatchNormOps(Precision precision,
                                                 CudaContext* context);
std::unique_ptr<ConvolutionOps> CreateConvolutionOps(Precision precision,
                                                     CudaContext* context);
std::unique_ptr<ElementwiseOps> CreateElementwiseOps(Precision precision,
                                                     CudaContext* context);
std::unique_ptr<EmbeddingOps> CreateEmbeddingOps(Precision precision,
                                                 CudaContext* context);
std::unique_ptr<InteractionOps> CreateInteractionOps(Precision precision,
                                                     CudaContext* context);
std::unique_ptr<LayerNormOps> CreateLayerNormOps(Precision precision,
                                                 CudaContext* context);
// Creates the operations of linear layers, with the requirements of
// CreateAttentionOps. Where cuBLASLt cannot compute GELU, `elementwise` does;
// it must outlive the operations. Returns FailedPrecondition if cuBLASLt cannot
// be loaded.
absl::StatusOr<std::unique_ptr<LinearOps>> CreateLinearOps(
    Precision precision, CudaContext* context, ElementwiseOps* elementwise);
// Creates the operations of losses, with the requirements of
// CreateAttentionOps. Returns CUDA's error if CUDA cannot create an event.
absl::StatusOr<std::unique_ptr<LossOps>> CreateLossOps(Precision precision,
                                                       CudaContext* context);
std::unique_ptr<NodeSumOps> CreateNodeSumOps(CudaContext* context);
std::unique_ptr<PoolingOps> CreatePoolingOps(Precision precision,
                                             CudaContext* context);

// Cast a pointer to Real, the opaque element type, to a pointer to T, the type
// that Real stands for. T must be float on devices with Precision::kFloat32,
// and Bfloat16 on devices with Precision::kBfloat16.
template <typename T>
const T* As(const Real* x) {
  return reinterpret_cast<const T*>(x);
}
template <typename T>
T* As(Real* x) {
  return reinterpret_cast<T*>(x);
}

// Creates the operations Ops<T> for the type T that Real stands for.
template <typename Interface, template <typename T> class Ops>
std::unique_ptr<Interface> CreateOps(Precision precision,
                                     CudaContext* context) {
  if (precision == Precision::kBfloat16) {
    return std::make_unique<Ops<Bfloat16>>(context);
  }
  return std::make_unique<Ops<float>>(context);
}

}  // namespace tributary::cuda

#endif  // TRIBUTARY_WORKER_DEVICE_CUDA_CUDA_OPS_H_
