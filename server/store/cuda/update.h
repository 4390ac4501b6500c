// The optimizers of common/optimizer/optimizer.h, with the same bits.
#ifndef TRIBUTARY_SERVER_STORE_CUDA_UPDATE_H_
#define TRIBUTARY_SERVER_STORE_CUDA_UPDATE_H_

#include <cstdint>

#include "absl/types/span.h"
#include "common/cuda/stream.h"
#include "common/optimizer/optimizer_list.h"
#include "server/store/cuda/chunk_rows.h"

namespace tributary::cuda {

// A chunk's update: see UpdateArguments. Arrays are in the GPU's memory.
struct ChunkUpdatePass {
  int64_t elements = 0;            // A multiple of kRowElements.
  const ChunkRow* rows = nullptr;  // [elements / kRowElements]
  const float* sum = nullptr;      // [elements], never written.
  float* weights = nullptr;        // [elements], in place; 0 in gaps.
  // [elements] each, in place; as many as the rule has. Read by the call.
  absl::Span<float* const> slots;
  float gradient_scale = 1;
  float statistics_scale = 0;
  // For rows of group kDecay, and of group kNoDecay; the same rule.
  OptimizerRule decayed, plain;
};

// In one pass over the memory.
void UpdateChunk(Stream& stream, const ChunkUpdatePass& pass);

}  // namespace tributary::cuda

#endif  // TRIBUTARY_SERVER_STORE_CUDA_UPDATE_H_
