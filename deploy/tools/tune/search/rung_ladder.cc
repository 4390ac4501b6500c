#include "deploy/tools/tune/search/rung_ladder.h"

#include <algorithm>
#include <utility>

namespace tributary {

RungLadder::RungLadder(int rungs, int64_t eta, std::vector<bool> maximize)
    : eta_(eta), maximize_(std::move(maximize)), rungs_(rungs) {}

void RungLadder::Enter(int64_t trial) { EnterRung(trial, 0); }

void RungLadder::EnterRung(int64_t trial, int rung) {
  Rung& at = rungs_[rung];
  at.position[trial] = at.entries.size();
  Entry entry;
  entry.trial = trial;
  at.entries.push_back(std::move(entry));
}

void RungLadder::Resolve(int64_t trial, int rung,
                         absl::optional<TrialResult> result) {
  Rung& at = rungs_[rung];
  Entry& entry = at.entries[at.position.at(trial)];
  entry.resolved = true;
  entry.result = std::move(result);
  Decide(rung);
}

void RungLadder::Close() {
  rungs_[0].closed = true;
  Decide(0);
}

void RungLadder::Decide(int rung) {
  // Nothing is decided at the last rung.
  if (rung + 1 == static_cast<int>(rungs_.size())) return;
  Rung& at = rungs_[rung];
  while (at.decided < at.entries.size() && at.entries[at.decided].resolved) {
    const int64_t decided_by = at.entries[at.decided].trial;
    ++at.decided;
    PromoteUpTo(static_cast<int64_t>(at.decided) / eta_, decided_by, rung);
  }
  if (!at.closed || at.decided < at.entries.size()) return;
  PromoteUpTo(1, /*decided_by=*/-1, rung);
  if (rungs_[rung + 1].closed) return;
  rungs_[rung + 1].closed = true;
  Decide(rung + 1);
}

void RungLadder::PromoteUpTo(int64_t quota, int64_t decided_by, int rung) {
  Rung& at = rungs_[rung];
  while (at.promoted < quota) {
    Entry* best = nullptr;
    for (size_t i = 0; i < at.decided; ++i) {
      Entry& entry = at.entries[i];
      if (entry.promoted || !entry.result.has_value()) continue;
      if (best == nullptr ||
          IsBetter(*entry.result, *best->result, maximize_)) {
        best = &entry;
      }
    }
    if (best == nullptr) return;
    best->promoted = true;
    ++at.promoted;
    EnterRung(best->trial, rung + 1);
    taken_later_.push_back({best->trial, rung + 1, decided_by});
  }
}

std::vector<Promotion> RungLadder::TakePromotions() {
  return std::exchange(taken_later_, {});
}

}  // namespace tributary
