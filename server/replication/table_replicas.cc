#include "server/replication/table_replicas.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace tributary {
namespace {

// Returns the newest version of all tables, or -1 if they differ.
int64_t VersionOf(const ServerTables& tables) {
  const int64_t version = tables.front()->version();
  for (const auto& table : tables) {
    if (table->version() != version) return -1;
  }
  return version;
}

bool CanRollBack(const ServerTables& tables) {
  for (const auto& table : tables) {
    if (!table->CanRollBack()) return false;
  }
  return true;
}

// Takes tables back to `version`. Returns false if they cannot be.
bool GoBackTo(int64_t version, const ServerTables& tables) {
  const int64_t newest = VersionOf(tables);
  if (newest == version) return true;
  if (newest != version + 1 || !CanRollBack(tables)) return false;
  for (const auto& table : tables) {
    if (!table->RollBack().ok()) return false;
  }
  return true;
}

}  // namespace

void TableReplicas::Begin(const JobSpec& job, int servers) {
  absl::MutexLock lock(&mu_);
  job_ = job;
  servers_ = servers;
}

bool TableReplicas::used() const {
  absl::MutexLock lock(&mu_);
  return job_.has_sparse();
}

void TableReplicas::KeepOnly(std::optional<int64_t> version) {
  absl::MutexLock lock(&mu_);
  readers_.clear();
  for (auto next = tables_.begin(); next != tables_.end();) {
    const auto entry = next++;
    if (!version.has_value() || !GoBackTo(*version, entry->second)) {
      tables_.erase(entry);
    }
  }
}

void TableReplicas::SetOwn(int shard, ServerTables tables) {
  absl::MutexLock lock(&mu_);
  own_ = shard;
  tables_[shard] = std::move(tables);
}

absl::Status TableReplicas::Take(int shard, const JournalRows& rows,
                                 const ReceivedPayload& payload) {
  absl::MutexLock lock(&mu_);
  if (!job_.has_sparse()) {
    return absl::FailedPreconditionError(
        "JournalRows, but the job has no tables");
  }
  std::unique_ptr<ReplicaRowsReader>& reader = readers_[shard];
  if (reader == nullptr) {
    ServerTables tables;
    const auto kept = tables_.find(shard);
    if (kept != tables_.end() && !rows.whole()) {
      tables = kept->second;
    } else if (rows.whole() || rows.version() == 1) {
      // Nothing is sent of the empty tables of version 0.
      TRIBUTARY_ASSIGN_OR_RETURN(
          tables, MakeServerTables(job_, shard, servers_,
                                   rows.whole() ? rows.version() : 0));
    } else {
      return absl::FailedPreconditionError(
          absl::StrCat("JournalRows of version ", rows.version(),
                       ", but this server does not have the tables of server ",
                       shard, " at the version before"));
    }
    reader = std::make_unique<ReplicaRowsReader>(std::move(tables));
  }
  const absl::Status taken = reader->Take(rows, payload);
  if (!taken.ok()) {
    readers_.erase(shard);
    tables_.erase(shard);
    return taken;
  }
  if (reader->complete()) tables_[shard] = reader->tables();
  return absl::OkStatus();
}

std::map<int, std::vector<int64_t>> TableReplicas::Versions() const {
  absl::MutexLock lock(&mu_);
  std::map<int, std::vector<int64_t>> all;
  for (const auto& [shard, tables] : tables_) {
    const int64_t newest = VersionOf(tables);
    if (newest < 0) continue;
    std::vector<int64_t>& versions = all[shard];
    if (CanRollBack(tables)) versions.push_back(newest - 1);
    versions.push_back(newest);
  }
  return all;
}

absl::StatusOr<ServerTables> TableReplicas::Find(int shard,
                                                 int64_t version) const {
  absl::MutexLock lock(&mu_);
  const auto found = tables_.find(shard);
  if (found == tables_.end() || VersionOf(found->second) != version) {
    return absl::NotFoundError(
        absl::StrCat("version ", version, " of server ", shard,
                     "'s tables is not in this server's memory"));
  }
  return found->second;
}

int TableReplicas::fixed_lag() const {
  absl::MutexLock lock(&mu_);
  return job_.sparse().fixed_lag();
}

int64_t TableReplicas::copy_bytes() const {
  absl::MutexLock lock(&mu_);
  int64_t bytes = 0;
  for (const auto& [shard, tables] : tables_) {
    if (shard == own_) continue;
    for (const auto& table : tables) bytes += table->size().bytes;
  }
  return bytes;
}

}  // namespace tributary
