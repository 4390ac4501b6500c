// Puts together what servers report about the rounds of a job.
#ifndef TRIBUTARY_SERVER_PROGRESS_ROUND_SUMS_H_
#define TRIBUTARY_SERVER_PROGRESS_ROUND_SUMS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/parameters/trust_ratios.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// Adds up the servers' reports of each round until all servers have reported.
// Rounds may complete in any order. Not thread-safe.
class RoundSums {
 public:
  // What servers have reported about a round (what they count as one step).
  struct Round {
    // Sum of the squares of the gradient's elements. It is added up in the
    // order of the chunks, then of the tables and their buckets, so its bits do
    // not depend on the number of servers.
    double squares = 0;
    int64_t sample_count = 0;
    std::optional<double> loss_sum;  // Nullopt: unknown.
    // The last chunk with a non-finite element, which is the first one in the
    // order of the backward pass.
    std::optional<StepSums::Nonfinite> nonfinite;
    // A row whose gradient is not finite.
    std::optional<StepSums::NonfiniteRow> nonfinite_row;
    int64_t nonfinite_loss_contributor = 0;
    // See TrustRatios::Of. Empty if the optimizer has none.
    std::vector<float> trust_ratios;
    // The learning rate that the workers have stated; absent: none.
    std::optional<double> learning_rate;
  };

  // The job has the rounds below `rounds`. The model has `chunks` chunks,
  // distributed over `servers` servers. `buckets` is the number of buckets of
  // each table of the job. `trust_ratios` is absent unless the servers need
  // them.
  RoundSums(int64_t rounds, int chunks, int servers,
            std::vector<int> buckets = {},
            std::optional<TrustRatios> trust_ratios = std::nullopt)
      : rounds_(rounds),
        chunks_(chunks),
        servers_(servers),
        buckets_(std::move(buckets)),
        trust_ratios_(std::move(trust_ratios)) {}

  // Resumes at `round`: the rounds below it are complete.
  void Resume(int64_t round) { completed_ = all_complete_below_ = round; }

  // Adds the report of server `shard`. Returns the round if all servers have
  // now reported it, otherwise nullopt. Returns InvalidArgument for a report
  // that does not match the job's state.
  absl::StatusOr<std::optional<Round>> Add(int shard, const StepSums& sums);

  // Returns the number of complete rounds.
  int64_t completed() const { return completed_; }

 private:
  // A round that some servers have not reported.
  struct OpenRound {
    Round sums;
    // Sums of squares, indexed by chunk, then by bucket of each table.
    std::vector<double> squares;
    // Indexed by chunk; empty without trust ratios.
    std::vector<std::vector<TensorSquares>> tensors;
    // True if the server has reported, indexed by shard.
    std::vector<bool> reported;
    int missing = 0;
  };

  const int64_t rounds_;
  const int chunks_;
  const int servers_;
  const std::vector<int> buckets_;
  const std::optional<TrustRatios> trust_ratios_;

  std::map<int64_t, OpenRound> open_;
  int64_t completed_ = 0;
  // All rounds below this number are complete, but not this round itself.
  // complete_beyond_ holds the complete rounds above it.
  int64_t all_complete_below_ = 0;
  std::set<int64_t> complete_beyond_;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_PROGRESS_ROUND_SUMS_H_
