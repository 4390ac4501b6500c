// What a UpdateEngine knows about the workers: which of them were revoked,
// and which work they have not sent.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/update/update_engine.h"

namespace tributary {

void UpdateEngine::Revoke(int64_t incarnation) {
  {
    absl::MutexLock lock(&revoked_mu_);
    revoked_.insert(incarnation);
  }
  has_revoked_ = true;
  for (const auto& chunk : chunks_) {
    absl::MutexLock lock(&chunk->mu);
    chunk->contributions->DropFrom(incarnation);
  }
}

absl::Status UpdateEngine::CheckNotRevoked(int64_t incarnation) const {
  if (!has_revoked_) return absl::OkStatus();
  absl::MutexLock lock(&revoked_mu_);
  if (revoked_.count(incarnation) == 0) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat(
      "incarnation ", incarnation,
      " is no longer a member, because it has violated the protocol"));
}

void UpdateEngine::FillHeartbeat(ServerHeartbeat* heartbeat) const {
  heartbeat->set_version(CompleteVersion());
  if (const auto missing = FindMissingWork()) {
    *heartbeat->mutable_missing() = *missing;
  }
}

std::optional<MissingWork> UpdateEngine::FindMissingWork() const {
  const int64_t oldest = CompleteVersion();
  for (const auto& chunk : chunks_) {
    absl::MutexLock lock(&chunk->mu);
    if (chunk->weights.version() != oldest || chunk->updating) continue;
    const std::optional<int> leaf = chunk->contributions->FirstMissing(oldest);
    if (!leaf.has_value()) continue;
    MissingWork missing;
    missing.set_step(oldest);
    missing.set_leaf(*leaf);
    return missing;
  }
  return std::nullopt;
}

int64_t UpdateEngine::NewestPossibleStep() const {
  int64_t newest = 0;
  for (const auto& chunk : chunks_) {
    absl::MutexLock lock(&chunk->mu);
    newest = std::max(newest, chunk->weights.version());
  }
  return newest + 1 + traits_.staleness;
}

}  // namespace tributary
