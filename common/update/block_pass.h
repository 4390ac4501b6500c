// Implements ChunkPass on the CPU.
#ifndef TRIBUTARY_COMMON_UPDATE_BLOCK_PASS_H_
#define TRIBUTARY_COMMON_UPDATE_BLOCK_PASS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/buffer_pool.h"
#include "common/optimizer/optimizer.h"
#include "common/parameters/arena_layout.h"
#include "common/update/chunk_pass.h"

namespace tributary {

// Implements ChunkPass on the CPU. Processes one block of TreeSum::kBlock
// elements at a time: sums the gradients of the block, computes its new weights
// and writes them. The block stays in the cache during this work, so each array
// is read from memory and written to memory only once.
class BlockPass final : public ChunkPass {
 public:
  // `optimizer` must outlive the pass.
  BlockPass(const ArenaLayout& layout, int chunk, const Optimizer* optimizer);

  bool brief() const override;
  absl::StatusOr<double> SumOfSquares(const TreeSum& sum) override;
  absl::StatusOr<std::vector<TensorSquares>> SumTensorSquares(
      const TensorArguments& arguments) override;
  absl::StatusOr<double> Run(const Arguments& arguments) override;
  absl::Status Restore(std::vector<Buffer> slots) override;
  absl::Status CopyState(absl::Span<const Buffer> to) override;

 private:
  // Returns block_segments_ with the learning rate factors times the trust
  // ratios.
  std::vector<ChunkSegment> Scaled(absl::Span<const float> trust_ratios) const;

  const int64_t elements_;
  const std::vector<ChunkSegment> segments_;
  const Optimizer& optimizer_;
  // `block_segments_` holds the parts of segments_ in each block, block after
  // block, with positions relative to the block's start. `first_of_block_`
  // holds, for each block, the index of its first part in `block_segments_`.
  std::vector<ChunkSegment> block_segments_;
  std::vector<size_t> first_of_block_;
  // Only if the optimizer has trust ratios: for each element of
  // `block_segments_`, the number of its parameter, counted from 0 among those
  // with weight decay that have elements in the chunk; -1 for the others.
  std::vector<int> block_parts_;
  int parts_ = 0;              // Number of these parameters.
  std::vector<Buffer> slots_;  // The optimizer's state.
};

// Creates BlockPasses; see ChunkPassMaker. Never returns an error.
absl::StatusOr<ChunkPasses> MakeBlockPasses(const ChunkPassPlan& plan);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_UPDATE_BLOCK_PASS_H_
