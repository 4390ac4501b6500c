// MemberOptimizer in host memory.
#ifndef TRIBUTARY_WORKER_EXCHANGE_ALL_REDUCE_HOST_OPTIMIZER_H_
#define TRIBUTARY_WORKER_EXCHANGE_ALL_REDUCE_HOST_OPTIMIZER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/optimizer/optimizer.h"
#include "common/parameters/arena_layout.h"
#include "common/update/block_pass.h"
#include "proto/job.pb.h"
#include "worker/exchange/all_reduce/member_optimizer.h"

namespace tributary {

// A MemberOptimizer that works in host memory, with the BlockPasses of a
// server. Its calls return when their operations are complete.
class HostOptimizer final : public MemberOptimizer {
 public:
  // Holds the optimizer state of `chunks`, initialized to zero. See
  // MemberOptimizer for the other arguments.
  HostOptimizer(const JobSpec& job, int64_t steps, const ArenaLayout* layout,
                std::unique_ptr<Optimizer> optimizer,
                const std::vector<int>& chunks);

  TreeSum AddUp(TreeSum parts, int64_t elements, bool whole) override;
  void BeginSquareSum(int chunk, const TreeSum& gradient) override;
  absl::StatusOr<std::map<int, SquareSum>> EndSquareSums() override;
  absl::StatusOr<std::vector<std::vector<TensorSquares>>> SumTensorSquares(
      const Step& step, absl::Span<const WeightsUpdate> updates) override;
  size_t chunks_per_update() const override { return 1; }
  absl::Status Update(const Step& step,
                      absl::Span<const WeightsUpdate> updates) override;
  std::shared_ptr<Event> Record() override { return nullptr; }
  absl::Status CopyState(const float* weights,
                         const Snapshot::Chunk& to) override;
  void Restore(const Snapshot::Chunk& chunk) override;

 private:
  UpdateStep At(const Step& step) const {
    return recipe_.At(step.number, step.sample_count, step.norm,
                      step.learning_rate);
  }
  SquareSum SumOf(int chunk, double squares, const TreeSum& gradient) const;

  const bool awaits_norm_;           // See ExchangeTraits::updates_await_norm.
  std::map<int, BlockPass> passes_;  // Indexed by chunk.
  // Indexed by chunk. Unless updates wait for the norm, Update computes them.
  std::map<int, SquareSum> square_sums_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_ALL_REDUCE_HOST_OPTIMIZER_H_
