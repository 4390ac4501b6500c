// MemberOptimizer in a device's memory.
#ifndef TRIBUTARY_WORKER_EXCHANGE_ALL_REDUCE_DEVICE_OPTIMIZER_H_
#define TRIBUTARY_WORKER_EXCHANGE_ALL_REDUCE_DEVICE_OPTIMIZER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/optimizer/optimizer.h"
#include "common/parameters/arena_layout.h"
#include "proto/job.pb.h"
#include "worker/device/reduction_stream.h"
#include "worker/exchange/all_reduce/member_optimizer.h"

namespace tributary {

// A MemberOptimizer that queues its operations on a ReductionStream, which
// holds the optimizer state in its device's memory. Operations overlap with
// transfers and with the computation of gradients, which a ChunkPass, whose
// calls return when their work is done, could not do.
class DeviceOptimizer final : public MemberOptimizer {
 public:
  // `stream` must outlive this object. See MemberOptimizer for the other
  // arguments.
  DeviceOptimizer(const JobSpec& job, int64_t steps, const ArenaLayout* layout,
                  std::unique_ptr<Optimizer> optimizer, ReductionStream* stream)
      : MemberOptimizer(job, steps, layout, std::move(optimizer)),
        stream_(*stream) {}

  // The result is always one array.
  TreeSum AddUp(TreeSum parts, int64_t elements, bool whole) override;
  void BeginSquareSum(int chunk, const TreeSum& gradient) override {
    gradients_.push_back({chunk, Whole(gradient)});
  }
  absl::StatusOr<std::map<int, SquareSum>> EndSquareSums() override;
  absl::StatusOr<std::vector<std::vector<TensorSquares>>> SumTensorSquares(
      const Step& step, absl::Span<const WeightsUpdate> updates) override;
  // Chunks that are updated in one launch.
  size_t chunks_per_update() const override { return 16; }
  absl::Status Update(const Step& step,
                      absl::Span<const WeightsUpdate> updates) override;
  std::shared_ptr<Event> Record() override { return stream_.Record(); }
  absl::Status CopyState(const float* weights,
                         const Snapshot::Chunk& to) override;
  void Restore(const Snapshot::Chunk& chunk) override;

 private:
  UpdateStep At(const Step& step) const {
    return recipe_.At(step.number, step.sample_count, step.norm,
                      step.learning_rate);
  }
  // Searches on the host: the result is part of a warning or an error.
  absl::StatusOr<int64_t> FindNonfinite(
      const ReductionStream::GradientSum& gradient);

  ReductionStream& stream_;
  // The gradients whose squares are to be summed.
  std::vector<ReductionStream::GradientSum> gradients_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_ALL_REDUCE_DEVICE_OPTIMIZER_H_
