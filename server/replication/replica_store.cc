#include "server/replication/replica_store.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace tributary {
namespace {

constexpr size_t kVersions = 2;
// Number of versions whose job state is kept. Chunks of one server may be one
// version apart, and so may two servers.
constexpr size_t kJobStates = 4;

}  // namespace

bool SameScope(const JournalScope& a, const JournalScope& b) {
  return a.job_id() == b.job_id() && a.signature() == b.signature() &&
         a.servers() == b.servers() && a.run() == b.run() &&
         a.data() == b.data();
}

void ReplicaStore::Begin(const JournalScope& scope, const ArenaLayout& layout,
                         int arrays, bool every_version) {
  absl::MutexLock lock(&mu_);
  every_version_ = every_version;
  if (layout_.has_value() && SameScope(scope, scope_) && arrays == arrays_) {
    return;
  }
  scope_ = scope;
  layout_ = layout;
  arrays_ = arrays;
  shards_.clear();
  states_.clear();
  tables_.KeepOnly(std::nullopt);
}

void ReplicaStore::KeepOnly(std::optional<int64_t> version) {
  absl::MutexLock lock(&mu_);
  const auto forget = [&](auto* by_version) {
    for (auto entry = by_version->begin(); entry != by_version->end();) {
      entry =
          entry->first == version ? std::next(entry) : by_version->erase(entry);
    }
  };
  forget(&states_);
  if (!version.has_value()) shards_.clear();
  for (auto& [shard, chunks] : shards_) {
    for (Versions& versions : chunks) forget(&versions);
  }
  tables_.KeepOnly(version);
}

absl::Status ReplicaStore::CheckScope(const JournalScope& scope) const {
  absl::MutexLock lock(&mu_);
  if (!layout_.has_value()) {
    return absl::UnavailableError(
        "this server keeps no in-memory replicas yet");
  }
  if (SameScope(scope, scope_)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "the state is of another job, model or number of servers: start all "
      "servers with the same job");
}

absl::StatusOr<size_t> ReplicaStore::PlaceOf(int shard, int chunk) const {
  // The shard's chunks are every servers-th chunk, starting at its number.
  if (layout_.has_value() && shard >= 0 && chunk >= 0 &&
      chunk < layout_->chunk_count() &&
      ArenaLayout::ShardOf(chunk, scope_.servers()) == shard) {
    return chunk / scope_.servers();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("chunk ", chunk, " is not one of server ", shard, "'s"));
}

absl::StatusOr<ReplicaStore::CopyShape> ReplicaStore::ShapeOf(int shard,
                                                              int chunk) const {
  absl::MutexLock lock(&mu_);
  TRIBUTARY_RETURN_IF_ERROR(PlaceOf(shard, chunk).status());
  return CopyShape{layout_->ChunkSize(chunk), layout_->chunk_elements(),
                   arrays_};
}

absl::Status ReplicaStore::Add(int shard, int64_t version,
                               Snapshot::Chunk copy) {
  Snapshot::Chunk oldest;  // Freed without the lock.
  absl::MutexLock lock(&mu_);
  TRIBUTARY_ASSIGN_OR_RETURN(const size_t place, PlaceOf(shard, copy.number));
  std::vector<Versions>& chunks = shards_[shard];
  if (chunks.empty()) {
    chunks.resize(layout_->ChunksOf(shard, scope_.servers()).size());
  }
  Versions& versions = chunks[place];
  const int64_t newest = versions.empty() ? -1 : versions.rbegin()->first;
  const bool follows =
      every_version_ ? version - 1 == newest : version > newest;
  if (!versions.empty() && versions.count(version) == 0 && !follows) {
    return absl::InvalidArgumentError(absl::StrCat("a copy of chunk ",
                                                   copy.number, " at version ",
                                                   version, " after ", newest));
  }
  versions[version] = std::move(copy);
  if (versions.size() > kVersions) {
    oldest = std::move(versions.begin()->second);
    versions.erase(versions.begin());
  }
  return absl::OkStatus();
}

void ReplicaStore::AddJobState(int64_t version, const JobState& state) {
  absl::MutexLock lock(&mu_);
  states_[version] = state;
  if (states_.size() > kJobStates) states_.erase(states_.begin());
}

std::optional<std::vector<int64_t>> ReplicaStore::WholeVersions(
    int shard) const {
  if (layout_->ChunksOf(shard, scope_.servers()).empty()) return std::nullopt;
  std::vector<int64_t> whole;
  const auto found = shards_.find(shard);
  if (found == shards_.end()) return whole;
  const std::vector<Versions>& chunks = found->second;
  for (const auto& [version, copy] : chunks.front()) {
    if (std::all_of(chunks.begin(), chunks.end(),
                    [v = version](const Versions& versions) {
                      return versions.count(v) > 0;
                    })) {
      whole.push_back(version);
    }
  }
  return whole;
}

std::optional<JournalHoldings> ReplicaStore::Holdings() const {
  const std::map<int, std::vector<int64_t>> tables = tables_.Versions();
  absl::MutexLock lock(&mu_);
  if (shards_.empty() && tables.empty()) return std::nullopt;
  JournalHoldings holdings;
  *holdings.mutable_scope() = scope_;
  std::set<int> shards;
  for (const auto& [shard, chunks] : shards_) shards.insert(shard);
  for (const auto& [shard, versions] : tables) shards.insert(shard);
  for (const int shard : shards) {
    const auto of_tables = tables.find(shard);
    // A shard with neither is not in `shards`.
    std::vector<int64_t> versions = WholeVersions(shard).value_or(
        of_tables == tables.end() ? std::vector<int64_t>() : of_tables->second);
    for (const int64_t version : versions) {
      if (tables_.used() &&
          (of_tables == tables.end() ||
           std::count(of_tables->second.begin(), of_tables->second.end(),
                      version) == 0)) {
        continue;
      }
      JournalHoldings::Whole* const entry = holdings.add_whole();
      entry->set_shard(shard);
      entry->set_version(version);
    }
  }
  for (const auto& [version, state] : states_) {
    JournalHoldings::State* const entry = holdings.add_state();
    entry->set_version(version);
    *entry->mutable_job_state() = state;
  }
  return holdings;
}

absl::StatusOr<Snapshot> ReplicaStore::Find(int shard, int64_t version) const {
  absl::MutexLock lock(&mu_);
  Snapshot snapshot;
  snapshot.version = version;
  const auto chunks = shards_.find(shard);
  // A shard has no chunks if there are fewer chunks than servers.
  if (layout_.has_value() &&
      layout_->ChunksOf(shard, scope_.servers()).empty()) {
    return snapshot;
  }
  if (chunks != shards_.end()) {
    for (const Versions& versions : chunks->second) {
      const auto copy = versions.find(version);
      if (copy != versions.end()) snapshot.chunks.push_back(copy->second);
    }
    if (snapshot.chunks.size() == chunks->second.size()) return snapshot;
  }
  return absl::NotFoundError(
      absl::StrCat("version ", version, " of server ", shard,
                   "'s state is not in this server's memory"));
}

std::optional<ReplicaPoint> NewestInMemory(
    const std::vector<std::optional<JournalHoldings>>& holdings,
    const JournalScope& scope, const ArenaLayout& layout, bool tables) {
  const int servers = static_cast<int>(holdings.size());
  std::map<int64_t, JobState> states;
  // Maps version to shard to the servers that hold it.
  std::map<int64_t, std::map<int, std::set<int>>> holders;
  for (int server = 0; server < servers; ++server) {
    if (!holdings[server].has_value()) continue;
    const JournalHoldings& held = *holdings[server];
    if (!SameScope(held.scope(), scope)) continue;
    for (const JournalHoldings::State& state : held.state()) {
      states[state.version()] = state.job_state();
    }
    for (const JournalHoldings::Whole& whole : held.whole()) {
      if (whole.shard() < 0 || whole.shard() >= servers) continue;
      holders[whole.version()][whole.shard()].insert(server);
    }
  }
  for (auto found = holders.rbegin(); found != holders.rend(); ++found) {
    auto& [version, by_shard] = *found;
    for (int shard = 0; shard < servers; ++shard) {
      if (!tables && layout.ChunksOf(shard, servers).empty()) {
        by_shard[shard] = {shard, ReplicaHolderOf(shard, servers)};
      }
    }
    const auto state = states.find(version);
    if (static_cast<int>(by_shard.size()) < servers || state == states.end()) {
      continue;
    }
    ReplicaPoint point;
    point.version = version;
    point.job_state = state->second;
    for (const auto& [shard, servers_with] : by_shard) {
      point.holders.push_back(
          servers_with.count(shard) > 0 ? shard : *servers_with.begin());
      point.stored.push_back(
          servers_with.count(ReplicaHolderOf(shard, servers)) > 0);
    }
    return point;
  }
  return std::nullopt;
}

}  // namespace tributary
