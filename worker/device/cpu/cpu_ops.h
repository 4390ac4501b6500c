// Creates the groups of operations of CPU devices. One source file implements
// each group, in float32 and in bfloat16.
#ifndef TRIBUTARY_WORKER_DEVICE_CPU_CPU_OPS_H_
#define TRIBUTARY_WORKER_DEVICE_CPU_CPU_OPS_H_

#include <array>
#include <memory>

#include "worker/device/cpu/kernels/scratch.h"
#include "worker/device/ops/operations.h"

namespace tributary::cpu {

// State that the operations of one device share. The operations run one at a
// time.
struct Context {
  // Temporary memory of kernels.
  Scratch scratch;
  // Memory for the temporary float32 tensors of operations in bfloat16. Each
  // slot holds one tensor.
  std::array<Scratch, 5> slots;
  RandomBase random_base;  // See Device::SetRandomBase.
};

// Each of these functions creates a group of operations that computes with the
// number format `precision`, kFloat32 or kBfloat16. `context` must outlive the
// group.
std::unique_ptr<AttentionOps> CreateAttentionOps(Precision precision,
                                                 Context* context);
std::unique_ptr<BatchNormOps> CreateBatchNormOps(Precision precision,
                                                 Context* context);
std::unique_ptr<ConvolutionOps> CreateConvolutionOps(Precision precision,
                                                     Context* context);
std::unique_ptr<ElementwiseOps> CreateElementwiseOps(Precision precision,
                                                     Context* context);
std::unique_ptr<EmbeddingOps> CreateEmbeddingOps(Precision precision,
                                                 Context* context);
std::unique_ptr<InteractionOps> CreateInteractionOps(Precision precision,
                                                     Context* context);
std::unique_ptr<LayerNormOps> CreateLayerNormOps(Precision precision,
                                                 Context* context);
// Creates the operations of linear layers, which compute GELU with
// `elementwise`. `context` and `elementwise` must outlive the operations. See
// CreateAttentionOps for `precision`.
std::unique_ptr<LinearOps> CreateLinearOps(Precision precision,
                                           Context* context,
                                           ElementwiseOps* elementwise);
std::unique_ptr<LossOps> CreateLossOps(Precision precision, Context* context);
std::unique_ptr<NodeSumOps> CreateNodeSumOps();
std::unique_ptr<PoolingOps> CreatePoolingOps(Precision precision,
                                             Context* context);

}  // namespace tributary::cpu

#endif  // TRIBUTARY_WORKER_DEVICE_CPU_CPU_OPS_H_
