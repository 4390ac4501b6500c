#include "common/stream/replica_rows.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/sparse/key_hash.h"

namespace tributary {
namespace {

// Bytes of a message, unless a single row has more. A receiver can use one
// message while the next one travels.
constexpr int64_t kReplicaPartBytes = int64_t{1} << 20;

struct CandidateRecord {
  uint64_t key = 0;
  uint64_t steps = 0;
  uint64_t last_step = 0;
};

template <typename T>
void Append(const std::vector<T>& from, int64_t begin, int64_t count,
            std::string* to) {
  if (count == 0) return;
  to->append(reinterpret_cast<const char*>(from.data() + begin),
             count * sizeof(T));
}

ReplicaRows MakePart(const JournalRows& rows, std::string bytes) {
  const auto owner = std::make_shared<const std::string>(std::move(bytes));
  return {rows, {owner->data(), static_cast<int64_t>(owner->size()), owner}};
}

// Adds messages with `rows`, at least one. `header` has the fields that all
// have in common.
void Pack(JournalRows header, const BucketRows& rows, int64_t floats,
          std::vector<ReplicaRows>* to) {
  const auto all_rows = static_cast<int64_t>(rows.keys.size());
  const auto all_candidates = static_cast<int64_t>(rows.candidates.size());
  const auto all_removed = static_cast<int64_t>(rows.removed.size());
  const int64_t row_bytes = 12 + 4 * floats;
  int64_t row = 0;
  int64_t candidate = 0;
  int64_t removed = 0;
  do {
    int64_t space = kReplicaPartBytes;
    // How many of `left` elements of this size come next.
    const auto take = [&space](int64_t left, int64_t bytes) {
      const int64_t fit = std::max<int64_t>(space, 0) / bytes;
      const int64_t count = std::min(
          left, space == kReplicaPartBytes ? std::max<int64_t>(fit, 1) : fit);
      space -= count * bytes;
      return count;
    };
    header.set_rows(take(all_rows - row, row_bytes));
    header.set_candidates(take(all_candidates - candidate, 24));
    header.set_removed(take(all_removed - removed, 8));
    std::string bytes;
    bytes.reserve(kReplicaPartBytes - space);
    Append(rows.keys, row, header.rows(), &bytes);
    Append(rows.last_steps, row, header.rows(), &bytes);
    Append(rows.values, row * floats, header.rows() * floats, &bytes);
    for (int64_t i = candidate; i < candidate + header.candidates(); ++i) {
      const BucketRows::Candidate& from = rows.candidates[i];
      const CandidateRecord record = {
          from.key, static_cast<uint64_t>(from.steps), from.last_step};
      bytes.append(reinterpret_cast<const char*>(&record), sizeof(record));
    }
    Append(rows.removed, removed, header.removed(), &bytes);
    row += header.rows();
    candidate += header.candidates();
    removed += header.removed();
    to->push_back(MakePart(header, std::move(bytes)));
  } while (row < all_rows || candidate < all_candidates ||
           removed < all_removed);
}

// Adds messages with the rows before a step, at least one.
void Pack(JournalRows header, const SparseTable::StepBefore& before,
          int64_t dim, std::vector<ReplicaRows>* to) {
  header.set_age(before.age);
  const auto rows = static_cast<int64_t>(before.keys.size());
  const int64_t most = std::max<int64_t>(kReplicaPartBytes / (12 + 4 * dim), 1);
  int64_t row = 0;
  do {
    const int64_t count = std::min(rows - row, most);
    header.set_rows(count);
    std::string bytes;
    Append(before.keys, row, count, &bytes);
    Append(before.existed, row, count, &bytes);
    Append(before.values, row * dim, count * dim, &bytes);
    row += count;
    to->push_back(MakePart(header, std::move(bytes)));
  } while (row < rows);
}

// Reads lists from a payload.
class PayloadReader {
 public:
  explicit PayloadReader(const ReceivedPayload& payload) : payload_(payload) {}

  template <typename T>
  void Read(int64_t count, std::vector<T>* to) {
    to->resize(count);
    const int64_t bytes = count * static_cast<int64_t>(sizeof(T));
    if (bytes > 0) payload_.Copy(at_, bytes, to->data());
    at_ += bytes;
  }

 private:
  const ReceivedPayload& payload_;
  int64_t at_ = 0;
};

// Checks that the payload has `bytes` bytes if it has `elements` elements. So
// products of these numbers do not overflow.
absl::Status CheckCounts(const JournalRows& rows, int64_t floats,
                         const ReceivedPayload& payload) {
  const int64_t most = payload.bytes();
  for (const int64_t count : {rows.rows(), rows.candidates(), rows.removed()}) {
    if (count < 0 || count > most) {
      return absl::InvalidArgumentError(absl::StrCat(
          "JournalRows with ", count, " keys in ", most, " bytes"));
    }
  }
  const int64_t expected = rows.rows() * (12 + 4 * floats) +
                           rows.candidates() * 24 + rows.removed() * 8;
  if (expected != most) {
    return absl::InvalidArgumentError(
        absl::StrCat("JournalRows with ", most, " bytes, expected ", expected));
  }
  return absl::OkStatus();
}

int64_t FloatsOf(const SparseTable& table) {
  return table.dim() + table.rule().StateElements(table.dim());
}

absl::StatusOr<BucketRows> ReadRows(const JournalRows& message,
                                    const ReceivedPayload& payload,
                                    const SparseTable& table) {
  const int64_t floats = FloatsOf(table);
  TRIBUTARY_RETURN_IF_ERROR(CheckCounts(message, floats, payload));
  PayloadReader reader(payload);
  BucketRows rows;
  std::vector<CandidateRecord> candidates;
  reader.Read(message.rows(), &rows.keys);
  reader.Read(message.rows(), &rows.last_steps);
  reader.Read(message.rows() * floats, &rows.values);
  reader.Read(message.candidates(), &candidates);
  reader.Read(message.removed(), &rows.removed);
  std::vector<uint64_t> keys;
  for (const CandidateRecord& candidate : candidates) {
    keys.push_back(candidate.key);
    rows.candidates.push_back({candidate.key,
                               static_cast<int64_t>(candidate.steps),
                               static_cast<uint32_t>(candidate.last_step)});
  }
  TRIBUTARY_RETURN_IF_ERROR(table.CheckKeys(rows.keys));
  TRIBUTARY_RETURN_IF_ERROR(table.CheckKeys(keys));
  TRIBUTARY_RETURN_IF_ERROR(table.CheckKeys(rows.removed));
  return rows;
}

absl::StatusOr<SparseTable::StepBefore> ReadBefore(
    const JournalRows& message, const ReceivedPayload& payload,
    const SparseTable& table) {
  if (message.candidates() != 0 || message.removed() != 0) {
    return absl::InvalidArgumentError(
        "JournalRows: earlier values with candidates or removed keys");
  }
  TRIBUTARY_RETURN_IF_ERROR(CheckCounts(message, table.dim(), payload));
  PayloadReader reader(payload);
  SparseTable::StepBefore before;
  before.age = message.age();
  reader.Read(message.rows(), &before.keys);
  reader.Read(message.rows(), &before.existed);
  reader.Read(message.rows() * table.dim(), &before.values);
  return before;
}

void Append(const BucketRows& from, BucketRows* to) {
  const auto append = [](const auto& list, auto* to_list) {
    to_list->insert(to_list->end(), list.begin(), list.end());
  };
  append(from.keys, &to->keys);
  append(from.last_steps, &to->last_steps);
  append(from.values, &to->values);
  append(from.candidates, &to->candidates);
  append(from.removed, &to->removed);
}

}  // namespace

std::vector<ReplicaRows> PackStepRows(int64_t version,
                                      const ServerTables& tables,
                                      const std::vector<BucketRows>& changes) {
  std::vector<ReplicaRows> parts;
  JournalRows header;
  header.set_version(version);
  for (size_t table = 0; table < tables.size(); ++table) {
    header.set_table(static_cast<int32_t>(table));
    Pack(header, changes[table], FloatsOf(*tables[table]), &parts);
  }
  parts.back().rows.set_last(true);
  return parts;
}

absl::StatusOr<std::vector<ReplicaRows>> WholeTables::Next() {
  std::vector<ReplicaRows> parts;
  JournalRows header;
  header.set_version(version_);
  header.set_whole(true);
  for (; table_ < tables_.size(); ++table_, bucket_ = 0) {
    const SparseTable& table = *tables_[table_];
    header.set_table(static_cast<int32_t>(table_));
    const std::vector<int> buckets = table.buckets();
    while (bucket_ < buckets.size()) {
      TRIBUTARY_ASSIGN_OR_RETURN(const BucketRows rows,
                                 table.ReadBucket(buckets[bucket_++]));
      if (rows.keys.empty() && rows.candidates.empty()) continue;
      Pack(header, rows, FloatsOf(table), &parts);
      return parts;
    }
    for (const SparseTable::StepBefore& before :
         table.ReadBefore(earlier_steps_)) {
      Pack(header, before, table.dim(), &parts);
    }
    if (parts.empty()) continue;
    ++table_;
    bucket_ = 0;
    return parts;
  }
  if (std::exchange(ended_, true)) return parts;
  header.set_last(true);
  parts.push_back(MakePart(header, ""));
  return parts;
}

absl::Status ReplicaRowsReader::Take(const JournalRows& rows,
                                     const ReceivedPayload& payload) {
  if (rows.table() < 0 ||
      rows.table() >= static_cast<int32_t>(tables_.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("JournalRows of table ", rows.table(),
                     ", but the job has ", tables_.size()));
  }
  if (std::exchange(complete_, false)) {
    whole_ = rows.whole();
    step_.assign(tables_.size(), BucketRows());
  } else if (rows.whole() != whole_) {
    return absl::InvalidArgumentError(
        "JournalRows: changes of a step and whole tables are mixed");
  }
  const int64_t expected =
      tables_[rows.table()]->version() + (rows.whole() ? 0 : 1);
  if (rows.version() != expected) {
    return absl::FailedPreconditionError(absl::StrCat(
        "JournalRows of version ", rows.version(), ", expected ", expected));
  }
  TRIBUTARY_RETURN_IF_ERROR(whole_ ? TakeWhole(rows, payload)
                                   : TakeStep(rows, payload));
  complete_ = rows.last();
  return absl::OkStatus();
}

absl::Status ReplicaRowsReader::TakeWhole(const JournalRows& message,
                                          const ReceivedPayload& payload) {
  SparseTable& table = *tables_[message.table()];
  if (message.age() != 0) {
    TRIBUTARY_ASSIGN_OR_RETURN(const SparseTable::StepBefore before,
                               ReadBefore(message, payload, table));
    return table.Restore(before);
  }
  TRIBUTARY_ASSIGN_OR_RETURN(BucketRows rows,
                             ReadRows(message, payload, table));
  if (!rows.removed.empty()) {
    return absl::InvalidArgumentError(
        "JournalRows: whole tables with removed keys");
  }
  if (rows.keys.empty() && rows.candidates.empty()) return absl::OkStatus();
  const uint64_t key =
      rows.keys.empty() ? rows.candidates.front().key : rows.keys.front();
  rows.bucket = BucketOfHash(KeyHash(key), table.spec().buckets());
  return table.Restore(rows);
}

absl::Status ReplicaRowsReader::TakeStep(const JournalRows& message,
                                         const ReceivedPayload& payload) {
  if (message.age() != 0) {
    return absl::InvalidArgumentError(
        "JournalRows: changes of a step with an age");
  }
  TRIBUTARY_ASSIGN_OR_RETURN(
      const BucketRows rows,
      ReadRows(message, payload, *tables_[message.table()]));
  Append(rows, &step_[message.table()]);
  if (!message.last()) return absl::OkStatus();
  for (size_t table = 0; table < tables_.size(); ++table) {
    // No key is in two lists.
    TRIBUTARY_RETURN_IF_ERROR(
        tables_[table]->CheckKeys(AllKeysOf(step_[table])));
  }
  for (size_t table = 0; table < tables_.size(); ++table) {
    TRIBUTARY_RETURN_IF_ERROR(tables_[table]->Replay(step_[table]));
  }
  step_.clear();
  return absl::OkStatus();
}

}  // namespace tributary
