#include "common/sparse/table_bucket.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/sparse/for_each_key.h"
#include "common/sparse/key_hash.h"

namespace tributary {
bool TableBucket::Admit(uint64_t key, int64_t step) {
  const int64_t wanted = spec_.admission().min_count();
  if (wanted <= 1) return true;
  const auto [found, added] = candidates_.try_emplace(key);
  BucketRows::Candidate& candidate = found->second;
  if (added || candidate.last_step < changed_since_) changed_.push_back(key);
  candidate.key = key;
  candidate.last_step = static_cast<uint32_t>(step);
  if (++candidate.steps < wanted) return false;
  candidates_.erase(found);
  return true;
}

RowHeader* TableBucket::Insert(uint64_t key, uint64_t hash, int64_t step) {
  RowHeader* const row = Add(key, hash);
  if (row == nullptr) return nullptr;
  std::fill_n(RowValues(row) + layout_.dim, layout_.state, 0.f);
  changed_.push_back(key);
  row->last_step = static_cast<uint32_t>(step);
  return row;
}

RowHeader* TableBucket::Add(uint64_t key, uint64_t hash) {
  if (disk_.log != nullptr && rows_.size() >= disk_.rows_in_memory) {
    log_error_ = MoveToLog();
    if (!log_error_.ok()) return nullptr;
  }
  return rows_.Insert(key, hash);
}

RowHeader* TableBucket::Load(uint64_t key, uint64_t hash,
                             const RowHeader* copy) {
  const uint32_t position = cold_.Find(key, hash)->position;
  RowHeader* const row = Add(key, hash);
  if (row == nullptr) return nullptr;
  const auto load = [&](int64_t /*i*/, const RowHeader& from) {
    std::memcpy(static_cast<void*>(row), &from, layout_.bytes());
  };
  if (copy != nullptr) {
    load(0, *copy);
  } else {
    log_error_ = disk_.log->Read({position}, load);
    if (!log_error_.ok()) return nullptr;
  }
  cold_.Remove(key, hash);
  disk_.log->Remove(position);
  return row;
}

absl::Status TableBucket::MoveToLog() {
  std::vector<std::pair<uint32_t, uint64_t>> rows;
  rows.reserve(rows_.size());
  rows_.ForEach([&](const RowHeader* row) {
    rows.push_back({row->last_step, row->key});
  });
  const size_t count = std::min(rows.size(), rows.size() / 8 + 1);
  std::nth_element(rows.begin(), rows.begin() + count, rows.end());
  for (size_t i = 0; i < count; ++i) {
    const auto [last_step, key] = rows[i];
    const uint64_t hash = KeyHash(key);
    TRIBUTARY_ASSIGN_OR_RETURN(const uint32_t position,
                               disk_.log->Append(*rows_.Find(key, hash)));
    cold_.Insert({key, position, last_step});
    rows_.Remove(key, hash);
  }
  return absl::OkStatus();
}

absl::Status TableBucket::MoveInLog(uint32_t from, const RowHeader& row) {
  const uint64_t hash = KeyHash(row.key);
  const ColdRow* const cold = cold_.Find(row.key, hash);
  if (cold == nullptr || cold->position != from) return absl::OkStatus();
  TRIBUTARY_ASSIGN_OR_RETURN(const uint32_t to, disk_.log->Append(row));
  cold_.Move(row.key, hash, to);
  disk_.log->Remove(from);
  return absl::OkStatus();
}

absl::Status TableBucket::Full() const {
  TRIBUTARY_RETURN_IF_ERROR(log_error_);
  const std::string path = absl::StrCat("table '", spec_.name(), "': ");
  if (rows_.size() >= RowBucket::kMaxRows) {
    return absl::ResourceExhaustedError(
        absl::StrCat(path, "a bucket has ", rows_.size(),
                     " rows; set more `buckets` in the job's sparse.table"));
  }
  if (spec_.memory_bytes() > 0) {
    return absl::ResourceExhaustedError(absl::StrCat(
        path, "the rows of this server do not fit into memory_bytes (",
        spec_.memory_bytes(),
        "); set a larger memory_bytes, a disk, a capacity or expiry in the "
        "job's sparse.table, or use more servers"));
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      path,
      "no memory for more rows; set a capacity or expiry in the job's "
      "sparse.table, or use more servers"));
}

void TableBucket::CopyAbsent(uint64_t key, BucketRows* to) const {
  const auto candidate = candidates_.find(key);
  if (candidate != candidates_.end()) {
    to->candidates.push_back(candidate->second);
  } else {
    to->removed.push_back(key);
  }
}

RowHeader* TableBucket::Put(uint64_t key, uint64_t hash) {
  RowHeader* const row = rows_.Find(key, hash);
  if (row != nullptr) return row;
  SetAbsent(key, hash, nullptr);
  return Add(key, hash);
}

void TableBucket::SetAbsent(uint64_t key, uint64_t hash,
                            const BucketRows::Candidate* candidate) {
  if (const ColdRow* const cold = cold_.Find(key, hash)) {
    disk_.log->Remove(cold->position);
    cold_.Remove(key, hash);
  }
  rows_.Remove(key, hash);
  if (candidate != nullptr) {
    candidates_[key] = *candidate;
  } else {
    candidates_.erase(key);
  }
}

absl::Status TableBucket::RemoveOld(int64_t step, RowsBefore* before,
                                    BucketRows* undo) {
  const int64_t unused = spec_.expiry().unused_steps();
  if (unused > 0 && (step + 1) % unused == number_ % unused) {
    const auto expired = [&](int64_t last) { return last + unused <= step; };
    std::vector<uint64_t> old;
    ForEachRow([&](uint64_t key, uint32_t last_step) {
      if (expired(last_step)) old.push_back(key);
    });
    TRIBUTARY_RETURN_IF_ERROR(Remove(old, step, before, undo));
    for (auto next = candidates_.begin(); next != candidates_.end();) {
      const auto candidate = next++;
      if (!expired(candidate->second.last_step)) continue;
      if (undo != nullptr) undo->candidates.push_back(candidate->second);
      changed_.push_back(candidate->first);
      candidates_.erase(candidate);
    }
  }
  if (spec_.capacity() == 0) return absl::OkStatus();
  const int64_t most =
      (spec_.capacity() + spec_.buckets() - 1) / spec_.buckets();
  if (size() <= most) return absl::OkStatus();
  std::vector<std::pair<uint32_t, uint64_t>> oldest;
  ForEachRow([&](uint64_t key, uint32_t last_step) {
    oldest.push_back({last_step, key});
  });
  const int64_t surplus = size() - (most - most / 8);
  std::nth_element(oldest.begin(), oldest.begin() + surplus, oldest.end());
  std::vector<uint64_t> keys;
  for (int64_t row = 0; row < surplus; ++row) {
    keys.push_back(oldest[row].second);
  }
  return Remove(keys, step, before, undo);
}

absl::Status TableBucket::Remove(const std::vector<uint64_t>& keys,
                                 int64_t step, RowsBefore* before,
                                 BucketRows* undo) {
  std::vector<uint32_t> positions;  // Of rows to record.
  std::vector<uint32_t> removed;    // Of all rows.
  const auto record = [&](const RowHeader& row) {
    before->Add(row.key, /*existed=*/true, RowValues(&row));
    if (undo != nullptr) AppendRow(row, layout_, undo);
  };
  // `before` and `undo` contain the rows of the step's gradients already.
  for (const uint64_t key : keys) {
    const uint64_t hash = KeyHash(key);
    uint32_t last_step = 0;
    if (const RowHeader* const row = rows_.Find(key, hash)) {
      last_step = row->last_step;
      if (last_step != step) record(*row);
      rows_.Remove(key, hash);
    } else {
      const ColdRow cold = *cold_.Find(key, hash);
      last_step = cold.last_step;
      if (last_step != step) positions.push_back(cold.position);
      removed.push_back(cold.position);
      cold_.Remove(key, hash);
    }
    if (last_step < changed_since_) changed_.push_back(key);
  }
  if (removed.empty()) return absl::OkStatus();
  const absl::Status read = disk_.log->Read(
      positions, [&](int64_t /*i*/, const RowHeader& row) { record(row); });
  for (const uint32_t position : removed) disk_.log->Remove(position);
  return read;
}

absl::Status TableBucket::Append(const std::vector<uint32_t>& positions,
                                 BucketRows* to) const {
  if (positions.empty()) return absl::OkStatus();
  return disk_.log->Read(positions, [&](int64_t /*i*/, const RowHeader& row) {
    AppendRow(row, layout_, to);
  });
}

absl::StatusOr<BucketRows> TableBucket::TakeChanges(int64_t version) {
  if (taken_.empty()) {
    taken_ = std::move(changed_);
  } else {
    taken_.insert(taken_.end(), changed_.begin(), changed_.end());
    std::sort(taken_.begin(), taken_.end());
    taken_.erase(std::unique(taken_.begin(), taken_.end()), taken_.end());
  }
  changed_ = std::vector<uint64_t>();
  changed_since_ = version;
  BucketRows changes;
  changes.bucket = number_;
  changes.keys.reserve(taken_.size());
  changes.last_steps.reserve(taken_.size());
  changes.values.reserve(taken_.size() * layout_.floats());
  std::vector<uint32_t> positions;
  ForEachKey(
      taken_, layout_.bytes(), [this](uint64_t /*hash*/) { return this; },
      [&](int64_t place, uint64_t hash, const TableBucket* /*bucket*/) {
        const uint64_t key = taken_[place];
        if (const RowHeader* const row = rows_.Find(key, hash)) {
          AppendRow(*row, layout_, &changes);
        } else if (const ColdRow* const cold = cold_.Find(key, hash)) {
          positions.push_back(cold->position);
        } else if (const auto candidate = candidates_.find(key);
                   candidate != candidates_.end()) {
          changes.candidates.push_back(candidate->second);
        } else {
          changes.removed.push_back(key);
        }
      });
  TRIBUTARY_RETURN_IF_ERROR(Append(positions, &changes));
  return changes;
}

void TableBucket::ChangeAll() {
  ForEachRow(
      [&](uint64_t key, uint32_t /*last_step*/) { changed_.push_back(key); });
  for (const auto& [key, candidate] : candidates_) changed_.push_back(key);
}

absl::StatusOr<BucketRows> TableBucket::Copy() const {
  BucketRows copy;
  copy.bucket = number_;
  copy.keys.reserve(size());
  copy.last_steps.reserve(size());
  copy.values.reserve(size() * layout_.floats());
  rows_.ForEach([&](const RowHeader* row) { AppendRow(*row, layout_, &copy); });
  std::vector<uint32_t> positions;
  cold_.ForEach([&](const ColdRow& row) { positions.push_back(row.position); });
  TRIBUTARY_RETURN_IF_ERROR(Append(positions, &copy));
  for (const auto& [key, candidate] : candidates_) {
    copy.candidates.push_back(candidate);
  }
  SortRows(layout_.floats(), &copy);
  return copy;
}

absl::Status TableBucket::Restore(const BucketRows& rows) {
  const auto check = [&](uint64_t key) {
    const int expected = BucketOfHash(KeyHash(key), spec_.buckets());
    return expected == number_
               ? absl::OkStatus()
               : absl::InvalidArgumentError(absl::StrCat(
                     "key ", key, " of table '", spec_.name(),
                     "' belongs to bucket ", expected, ", not to ", number_));
  };
  for (size_t i = 0; i < rows.keys.size(); ++i) {
    const uint64_t key = rows.keys[i];
    TRIBUTARY_RETURN_IF_ERROR(check(key));
    const uint64_t hash = KeyHash(key);
    if (rows_.Find(key, hash) != nullptr || cold_.Find(key, hash) != nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          "key ", key, " of table '", spec_.name(), "' has two rows"));
    }
    RowHeader* const row = Add(key, hash);
    if (row == nullptr) return Full();
    row->last_step = rows.last_steps[i];
    std::copy_n(rows.values.data() + static_cast<int64_t>(i) * layout_.floats(),
                layout_.floats(), RowValues(row));
  }
  for (const BucketRows::Candidate& candidate : rows.candidates) {
    TRIBUTARY_RETURN_IF_ERROR(check(candidate.key));
    candidates_[candidate.key] = candidate;
  }
  return absl::OkStatus();
}

}  // namespace tributary
