// MemberOptimizer with the update rule of a program.
#ifndef TRIBUTARY_WORKER_EXCHANGE_ALL_REDUCE_PROGRAM_OPTIMIZER_H_
#define TRIBUTARY_WORKER_EXCHANGE_ALL_REDUCE_PROGRAM_OPTIMIZER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/buffer_pool.h"
#include "common/optimizer/optimizer.h"
#include "common/optimizer/program_rule.h"
#include "common/parameters/arena_layout.h"
#include "proto/job.pb.h"
#include "worker/exchange/all_reduce/host_optimizer.h"
#include "worker/exchange/all_reduce/member_optimizer.h"

namespace tributary {

// A MemberOptimizer that computes the mean gradient of all chunks, in host
// memory, and then calls the program's rule, once in each step. Updates running
// statistics itself, as other optimizers do. A skipped step (see
// UpdateRecipe::Skips) does not reach the rule.
//
// The state of the rule is an array of bytes, which is divided over the slots:
// slot 0 of all elements of the parameters, without the gaps between them, then
// slot 1, and so on. It is requested from the rule only when it is saved.
class ProgramOptimizer final : public MemberOptimizer {
 public:
  // `rule` must outlive this object. See MemberOptimizer for the other
  // arguments.
  ProgramOptimizer(const JobSpec& job, int64_t steps, const ArenaLayout* layout,
                   std::unique_ptr<Optimizer> optimizer, ProgramRule* rule);

  TreeSum AddUp(TreeSum parts, int64_t elements, bool whole) override {
    return gradients_.AddUp(std::move(parts), elements, whole);
  }
  void BeginSquareSum(int chunk, const TreeSum& gradient) override {
    gradients_.BeginSquareSum(chunk, gradient);
  }
  absl::StatusOr<std::map<int, SquareSum>> EndSquareSums() override {
    return gradients_.EndSquareSums();
  }
  // All chunks of a step, in ascending order.
  size_t chunks_per_update() const override { return layout_.chunk_count(); }
  absl::Status Update(const Step& step,
                      absl::Span<const WeightsUpdate> updates) override;
  std::shared_ptr<Event> Record() override { return nullptr; }
  absl::Status CopyState(const float* weights,
                         const Snapshot::Chunk& to) override;
  void Restore(const Snapshot::Chunk& chunk) override;

 private:
  // Calls `visit` for each segment of a chunk, with its bytes of the state of
  // the rule in each slot.
  template <typename Visit>
  void VisitState(int chunk, const Visit& visit);

  ProgramRule& rule_;
  HostOptimizer gradients_;  // Its weights are the mean gradient.
  const Buffer zeros_;       // Weights of a chunk that are 0.
  const Buffer mean_;        // The mean gradient: an arena.
  // For each chunk, the number of elements of parameters in earlier chunks; and
  // as the last element, those of all chunks.
  std::vector<int64_t> elements_before_;
  // The state of the rule. Restore fills it before the first step, which loads
  // it; CopyState requests that of the last step if `saved_` is false.
  std::vector<char> state_;
  bool loaded_ = false;
  bool saved_ = true;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_ALL_REDUCE_PROGRAM_OPTIMIZER_H_
