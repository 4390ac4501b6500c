// Converts the job's exchange.wire_dtype to the NodeFormat that GPUs use for
// sums of gradients.
#ifndef TRIBUTARY_COMMON_CUDA_NODE_FORMAT_H_
#define TRIBUTARY_COMMON_CUDA_NODE_FORMAT_H_

#include "common/cuda/node_sums.h"
#include "common/numerics/half.h"

namespace tributary::cuda {

inline NodeFormat NodeFormatOf(WireDtype dtype) {
  switch (dtype) {
    case ExchangeSpec::BFLOAT16:
      return NodeFormat::kBfloat16;
    case ExchangeSpec::FLOAT16:
      return NodeFormat::kFloat16;
    default:
      return NodeFormat::kFloat32;
  }
}

}  // namespace tributary::cuda

#endif  // TRIBUTARY_COMMON_CUDA_NODE_FORMAT_H_
