#include "server/progress/round_sums.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/parameters/arena_layout.h"

namespace tributary {

absl::StatusOr<std::optional<RoundSums::Round>> RoundSums::Add(
    int shard, const StepSums& sums) {
  const int64_t round = sums.step();
  // Servers work on the same round, but reports of several rounds may be in
  // flight.
  if (round < all_complete_below_ || complete_beyond_.count(round) > 0 ||
      round >= rounds_) {
    return absl::InvalidArgumentError(
        absl::StrCat("server ", shard, " reports step ", round,
                     " while the job is at step ", completed_));
  }
  OpenRound& open = open_[round];
  if (open.reported.empty()) {
    open.squares.resize(
        std::accumulate(buckets_.begin(), buckets_.end(), chunks_));
    open.tensors.resize(trust_ratios_.has_value() ? chunks_ : 0);
    open.reported.resize(servers_);
    // With more servers than chunks, some servers have no chunk. They report
    // nothing, unless the job has tables.
    open.missing = buckets_.empty() ? std::min(servers_, chunks_) : servers_;
  }
  std::vector<int> own;
  for (int chunk = 0; chunk < chunks_; ++chunk) {
    if (ArenaLayout::ShardOf(chunk, servers_) == shard) own.push_back(chunk);
  }
  std::vector<int> own_buckets;
  int place = chunks_;
  for (const int buckets : buckets_) {
    for (int bucket = shard; bucket < buckets; bucket += servers_) {
      own_buckets.push_back(place + bucket);
    }
    place += buckets;
  }
  int parts = 0;  // Of parameters with trust ratios.
  for (const int chunk : own) {
    if (trust_ratios_.has_value()) parts += trust_ratios_->PartsIn(chunk);
  }
  const char* const wrong =
      open.reported[shard] ? " twice"
      : sums.sum_of_squares_size() != static_cast<int>(own.size())
          ? " with a wrong number of chunks"
      : sums.row_sum_of_squares_size() != static_cast<int>(own_buckets.size())
          ? " with a wrong number of buckets"
      : sums.weight_squares_size() != parts ||
              sums.direction_squares_size() != parts
          ? " with a wrong number of squares of parameters"
          : nullptr;
  if (wrong != nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("server ", shard, " reports step ", round, wrong));
  }
  for (size_t i = 0; i < own.size(); ++i) {
    open.squares[own[i]] = sums.sum_of_squares(static_cast<int>(i));
  }
  for (size_t i = 0; i < own_buckets.size(); ++i) {
    open.squares[own_buckets[i]] = sums.row_sum_of_squares(static_cast<int>(i));
  }
  int next = 0;
  for (const int chunk : own) {
    if (!trust_ratios_.has_value()) break;
    for (int part = 0; part < trust_ratios_->PartsIn(chunk); ++part, ++next) {
      open.tensors[chunk].push_back(
          {sums.weight_squares(next), sums.direction_squares(next)});
    }
  }
  if (sums.has_nonfinite_row()) {
    open.sums.nonfinite_row = sums.nonfinite_row();
  }
  open.reported[shard] = true;
  for (const StepSums::Nonfinite& place : sums.nonfinite()) {
    if (!open.sums.nonfinite.has_value() ||
        place.chunk() > open.sums.nonfinite->chunk()) {
      open.sums.nonfinite = place;
    }
  }
  if (sums.has_learning_rate()) {
    open.sums.learning_rate = sums.learning_rate();
  }
  if (shard == 0) {
    open.sums.sample_count = sums.weight();
    if (sums.has_loss_sum()) open.sums.loss_sum = sums.loss_sum();
    open.sums.nonfinite_loss_contributor = sums.nonfinite_loss_contributor();
  }
  if (--open.missing > 0) return std::optional<Round>();
  for (const double square : open.squares) open.sums.squares += square;
  if (trust_ratios_.has_value()) {
    open.sums.trust_ratios = trust_ratios_->Of(open.tensors);
  }
  const Round complete = std::move(open.sums);
  open_.erase(round);
  complete_beyond_.insert(round);
  while (complete_beyond_.erase(all_complete_below_) > 0) {
    ++all_complete_below_;
  }
  ++completed_;
  return std::optional<Round>(complete);
}

}  // namespace tributary
