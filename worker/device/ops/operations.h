// The groups of operations of a device.
#ifndef TRIBUTARY_WORKER_DEVICE_OPS_OPERATIONS_H_
#define TRIBUTARY_WORKER_DEVICE_OPS_OPERATIONS_H_

#include <memory>

#include "worker/device/ops/attention_ops.h"
#include "worker/device/ops/batch_norm_ops.h"
#include "worker/device/ops/convolution_ops.h"
#include "worker/device/ops/elementwise_ops.h"
#include "worker/device/ops/embedding_ops.h"
#include "worker/device/ops/interaction_ops.h"
#include "worker/device/ops/layer_norm_ops.h"
#include "worker/device/ops/linear_ops.h"
#include "worker/device/ops/loss_ops.h"
#include "worker/device/ops/node_sum_ops.h"
#include "worker/device/ops/pooling_ops.h"

namespace tributary {

// The groups of operations of one device. No pointer is null.
struct Operations {
  std::unique_ptr<ElementwiseOps> elementwise;
  std::unique_ptr<LinearOps> linear;
  std::unique_ptr<ConvolutionOps> convolution;
  std::unique_ptr<PoolingOps> pooling;
  std::unique_ptr<LayerNormOps> layer_norm;
  std::unique_ptr<BatchNormOps> batch_norm;
  std::unique_ptr<EmbeddingOps> embedding;
  std::unique_ptr<InteractionOps> interaction;
  std::unique_ptr<AttentionOps> attention;
  std::unique_ptr<LossOps> loss;
  std::unique_ptr<NodeSumOps> node_sum;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DEVICE_OPS_OPERATIONS_H_
