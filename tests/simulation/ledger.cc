#include "tests/simulation/ledger.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace tributary::simulation {

void Ledger::AddUpdate(int64_t attempt, int chunk, int64_t step,
                       int64_t weight) {
  Update& update = applied_[{attempt, chunk, step}];
  ++update.times;
  update.weight = weight;
  ++updates_;
}

void Ledger::AddAttempt(int64_t attempt, const CheckpointManifest* checkpoint) {
  newest_attempt_ = std::max(newest_attempt_, attempt);
  Attempt& begun = attempts_[attempt];
  if (checkpoint == nullptr) return;
  begun.first = checkpoint->version();
  begun.checkpoint = checkpoint->SerializeAsString();
}

void Ledger::AddCommit(int64_t attempt, const CheckpointManifest& checkpoint) {
  committed_by_[checkpoint.SerializeAsString()] = attempt;
}

std::string Ledger::Check(int64_t attempt, int chunks,
                          const std::vector<int64_t>& weights) const {
  for (const auto& [key, update] : applied_) {
    const auto& [in, chunk, step] = key;
    if (update.times > 1) {
      return absl::StrCat("P1: step ", step, " was applied to chunk ", chunk,
                          " ", update.times, " times in attempt ", in);
    }
    if (update.weight != weights[static_cast<size_t>(step)]) {
      return absl::StrCat("P1: step ", step, ", chunk ", chunk,
                          " was applied with weight ", update.weight, " of ",
                          weights[static_cast<size_t>(step)]);
    }
  }
  auto end = static_cast<int64_t>(weights.size());
  while (true) {
    const auto found = attempts_.find(attempt);
    if (found == attempts_.end()) {
      return absl::StrCat("attempt ", attempt, " never began");
    }
    const Attempt& part = found->second;
    for (int64_t step = part.first; step < end; ++step) {
      for (int chunk = 0; chunk < chunks; ++chunk) {
        if (applied_.count({attempt, chunk, step}) == 0) {
          return absl::StrCat("P1: step ", step, " was never applied to chunk ",
                              chunk, " in attempt ", attempt,
                              ", which made steps ", part.first, " to ", end);
        }
      }
    }
    if (part.checkpoint.empty()) return "";
    const auto by = committed_by_.find(part.checkpoint);
    if (by == committed_by_.end()) {
      return absl::StrCat("P8: attempt ", attempt,
                          " began from a checkpoint that nobody committed");
    }
    end = part.first;
    attempt = by->second;
  }
}

}  // namespace tributary::simulation
