#include "tests/simulation/world/ledger.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace tributary::simulation {

void Ledger::AddUpdate(int64_t attempt, int chunk, int64_t step,
                       int64_t sample_count) {
  Update& update = applied_[{attempt, chunk, step}];
  ++update.times;
  update.sample_count = sample_count;
  ++updates_;
}

void Ledger::AddAttempt(int64_t attempt, const CheckpointManifest* checkpoint) {
  newest_attempt_ = std::max(newest_attempt_, attempt);
  Attempt& begun = attempts_[attempt];
  if (checkpoint == nullptr) return;
  begun.first = checkpoint->version();
  begun.checkpoint = checkpoint->SerializeAsString();
}

void Ledger::SetFromMemory(int64_t attempt, int64_t version) {
  Attempt& begun = attempts_[attempt];
  begun.first = version;
  begun.checkpoint.clear();
  begun.from_memory = true;
}

void Ledger::AddCommit(int64_t attempt, const CheckpointManifest& checkpoint) {
  // A later attempt that finds the job complete writes the same manifest again;
  // the first one counts.
  committed_by_.emplace(checkpoint.SerializeAsString(), attempt);
}

std::string Ledger::Check(int64_t attempt, int chunks,
                          const std::vector<int64_t>& sample_counts) const {
  for (const auto& [key, update] : applied_) {
    const auto& [in, chunk, step] = key;
    if (update.times > 1) {
      return absl::StrCat("P1: step ", step, " was applied to chunk ", chunk,
                          " ", update.times, " times in attempt ", in);
    }
    if (update.sample_count != sample_counts[static_cast<size_t>(step)]) {
      return absl::StrCat("P1: step ", step, ", chunk ", chunk,
                          " was applied with weight ", update.sample_count,
                          " of ", sample_counts[static_cast<size_t>(step)]);
    }
  }
  for (int chunk = 0; chunk < chunks; ++chunk) {
    std::string missing =
        Trace(attempt, static_cast<int64_t>(sample_counts.size()), chunk);
    if (!missing.empty()) return missing;
  }
  return "";
}

std::string Ledger::Trace(int64_t attempt, int64_t end, int chunk) const {
  const auto found = attempts_.find(attempt);
  if (found == attempts_.end()) {
    return absl::StrCat("attempt ", attempt, " never began");
  }
  const Attempt& part = found->second;
  for (int64_t step = part.first; step < end; ++step) {
    if (applied_.count({attempt, chunk, step}) == 0) {
      return absl::StrCat("P1: step ", step, " was never applied to chunk ",
                          chunk, " in attempt ", attempt, ", which made steps ",
                          part.first, " to ", end);
    }
  }
  if (part.from_memory) {
    // An earlier attempt made that version. Attempts in between may have begun
    // and made fewer steps, and chunks may come from different attempts.
    std::string why;
    for (auto before = found; before != attempts_.begin();) {
      --before;
      if (before->second.first > part.first) continue;
      const std::string missing = Trace(before->first, part.first, chunk);
      if (missing.empty()) return "";
      if (why.empty()) why = missing;
    }
    return absl::StrCat("attempt ", attempt, " began at ", part.first, ": ",
                        why);
  }
  if (part.checkpoint.empty()) return "";
  const auto by = committed_by_.find(part.checkpoint);
  if (by == committed_by_.end()) {
    return absl::StrCat("P8: attempt ", attempt,
                        " began from a checkpoint that no attempt committed");
  }
  return Trace(by->second, part.first, chunk);
}

}  // namespace tributary::simulation
