#include "common/sparse/table_bucket.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/sparse/for_each_key.h"
#include "common/sparse/key_hash.h"

namespace tributary {
namespace {

void AppendRow(const RowHeader& row, const RowLayout& layout, BucketRows* to) {
  to->keys.push_back(row.key);
  to->last_steps.push_back(row.last_step);
  const float* const values = RowValues(&row);
  to->values.insert(to->values.end(), values, values + layout.floats());
}

}  // namespace

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
  changed_.push_back(key);
  row->last_step = static_cast<uint32_t>(step);
  return row;
}

RowHeader* TableBucket::Add(uint64_t key, uint64_t hash) {
  RowHeader* const row = rows_.Insert(key, hash);
  if (row == nullptr) return nullptr;
  std::fill_n(RowValues(row) + layout_.dim, layout_.state, 0.f);
  return row;
}

absl::Status TableBucket::Full() const {
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
        "); set a larger memory_bytes, a capacity or expiry in the job's "
        "sparse.table, or use more servers"));
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      path,
      "no memory for more rows; set a capacity or expiry in the job's "
      "sparse.table, or use more servers"));
}

void TableBucket::RemoveOld(int64_t step, RowsBefore* before) {
  std::vector<std::pair<uint32_t, uint64_t>> old;
  const int64_t unused = spec_.expiry().unused_steps();
  if (unused > 0 && (step + 1) % unused == number_ % unused) {
    const auto expired = [&](int64_t last) { return last + unused <= step; };
    rows_.ForEach([&](const RowHeader* row) {
      if (expired(row->last_step)) old.push_back({row->last_step, row->key});
    });
    for (const auto& [last, key] : old) Remove(key, step, before);
    for (auto next = candidates_.begin(); next != candidates_.end();) {
      const auto candidate = next++;
      if (!expired(candidate->second.last_step)) continue;
      changed_.push_back(candidate->first);
      candidates_.erase(candidate);
    }
  }
  if (spec_.capacity() == 0) return;
  const int64_t most =
      (spec_.capacity() + spec_.buckets() - 1) / spec_.buckets();
  if (rows_.size() <= most) return;
  old.clear();
  rows_.ForEach([&](const RowHeader* row) {
    old.push_back({row->last_step, row->key});
  });
  const int64_t surplus = rows_.size() - (most - most / 8);
  std::nth_element(old.begin(), old.begin() + surplus, old.end());
  for (int64_t row = 0; row < surplus; ++row) {
    Remove(old[row].second, step, before);
  }
}

void TableBucket::Remove(uint64_t key, int64_t step, RowsBefore* before) {
  const uint64_t hash = KeyHash(key);
  const RowHeader* const row = rows_.Find(key, hash);
  // `before` contains the rows of the step's gradients already.
  if (row->last_step != step) {
    before->Add(key, /*existed=*/true, RowValues(row));
  }
  if (row->last_step < changed_since_) changed_.push_back(key);
  rows_.Remove(key, hash);
}

BucketRows TableBucket::TakeChanges(int64_t version) {
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
  ForEachKey(
      taken_, layout_.bytes(), [this](uint64_t /*hash*/) { return this; },
      [&](int64_t place, uint64_t hash, const TableBucket* /*bucket*/) {
        const uint64_t key = taken_[place];
        if (const RowHeader* const row = rows_.Find(key, hash)) {
          AppendRow(*row, layout_, &changes);
        } else if (const auto candidate = candidates_.find(key);
                   candidate != candidates_.end()) {
          changes.candidates.push_back(candidate->second);
        } else {
          changes.removed.push_back(key);
        }
      });
  return changes;
}

void TableBucket::ChangeAll() {
  rows_.ForEach([&](const RowHeader* row) { changed_.push_back(row->key); });
  for (const auto& [key, candidate] : candidates_) changed_.push_back(key);
}

BucketRows TableBucket::Copy() const {
  BucketRows copy;
  copy.bucket = number_;
  std::vector<const RowHeader*> all;
  all.reserve(rows_.size());
  rows_.ForEach([&](const RowHeader* row) { all.push_back(row); });
  std::sort(all.begin(), all.end(), [](const RowHeader* a, const RowHeader* b) {
    return a->key < b->key;
  });
  copy.keys.reserve(all.size());
  copy.last_steps.reserve(all.size());
  copy.values.reserve(all.size() * layout_.floats());
  for (const RowHeader* const row : all) {
    AppendRow(*row, layout_, &copy);
  }
  for (const auto& [key, candidate] : candidates_) {
    copy.candidates.push_back(candidate);
  }
  std::sort(copy.candidates.begin(), copy.candidates.end(),
            [](const auto& a, const auto& b) { return a.key < b.key; });
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
    if (rows_.Find(key, hash) != nullptr) {
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
