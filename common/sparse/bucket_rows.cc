#include "common/sparse/bucket_rows.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <utility>

namespace tributary {
namespace {

void AppendRowOf(const BucketRows& from, size_t row, int64_t row_floats,
                 BucketRows* to) {
  to->keys.push_back(from.keys[row]);
  to->last_steps.push_back(from.last_steps[row]);
  const float* const values =
      from.values.data() + static_cast<int64_t>(row) * row_floats;
  to->values.insert(to->values.end(), values, values + row_floats);
}

bool IsBefore(const BucketRows::Candidate& a, const BucketRows::Candidate& b) {
  return a.key < b.key;
}

}  // namespace

bool AreAscending(const std::vector<uint64_t>& keys) {
  return std::is_sorted(keys.begin(), keys.end(), std::less_equal<uint64_t>());
}

void AppendRow(const RowHeader& row, const RowLayout& layout, BucketRows* to) {
  to->keys.push_back(row.key);
  to->last_steps.push_back(row.last_step);
  const float* const values = RowValues(&row);
  to->values.insert(to->values.end(), values, values + layout.floats());
}

std::vector<uint64_t> AllKeysOf(const BucketRows& rows) {
  std::vector<uint64_t> keys = rows.keys;
  for (const auto& candidate : rows.candidates) keys.push_back(candidate.key);
  keys.insert(keys.end(), rows.removed.begin(), rows.removed.end());
  std::sort(keys.begin(), keys.end());
  return keys;
}

void RowSorter::Sort(int64_t row_floats, BucketRows* rows) {
  if (!AreAscending(rows->keys)) {
    const std::vector<KeyOrder::PlacedKey>& order = order_.Sort(rows->keys);
    unsorted_.keys.swap(rows->keys);
    unsorted_.last_steps.swap(rows->last_steps);
    unsorted_.values.swap(rows->values);
    rows->keys.clear();
    rows->keys.reserve(order.size());
    rows->last_steps.clear();
    rows->last_steps.reserve(order.size());
    rows->values.clear();
    rows->values.reserve(unsorted_.values.size());
    // Rows are at random places, so they are loaded ahead.
    constexpr size_t kAhead = 16;
    constexpr int64_t kLineFloats = 64 / sizeof(float);
    for (size_t i = 0; i < order.size(); ++i) {
      if (i + kAhead < order.size()) {
        const size_t place = order[i + kAhead].place;
        __builtin_prefetch(&unsorted_.last_steps[place]);
        const float* const row = unsorted_.values.data() + place * row_floats;
        for (int64_t at = 0; at < row_floats; at += kLineFloats) {
          __builtin_prefetch(row + at);
        }
        __builtin_prefetch(row + row_floats - 1);
      }
      if (!rows->keys.empty() && rows->keys.back() == order[i].key) continue;
      AppendRowOf(unsorted_, order[i].place, row_floats, rows);
    }
  }
  const auto same = [](const auto& a, const auto& b) { return a.key == b.key; };
  std::vector<BucketRows::Candidate>& candidates = rows->candidates;
  std::sort(candidates.begin(), candidates.end(), IsBefore);
  candidates.erase(std::unique(candidates.begin(), candidates.end(), same),
                   candidates.end());
  std::sort(rows->removed.begin(), rows->removed.end());
  rows->removed.erase(std::unique(rows->removed.begin(), rows->removed.end()),
                      rows->removed.end());
}

void SortRows(int64_t row_floats, BucketRows* rows) {
  RowSorter().Sort(row_floats, rows);
}

void ApplyChanges(const BucketRows& changes, int64_t row_floats,
                  BucketRows* rows) {
  // Every key that has changed, whatever has become of it.
  const std::vector<uint64_t> changed = AllKeysOf(changes);

  BucketRows merged;
  merged.bucket = rows->bucket;
  merged.keys.reserve(rows->keys.size() + changes.keys.size());
  merged.last_steps.reserve(merged.keys.capacity());
  merged.values.reserve(rows->values.size() + changes.values.size());
  size_t place = 0;  // In `changed`.
  size_t next = 0;   // In `changes`.
  for (size_t row = 0; row < rows->keys.size(); ++row) {
    const uint64_t key = rows->keys[row];
    for (; next < changes.keys.size() && changes.keys[next] <= key; ++next) {
      AppendRowOf(changes, next, row_floats, &merged);
    }
    while (place < changed.size() && changed[place] < key) ++place;
    if (place < changed.size() && changed[place] == key) continue;
    AppendRowOf(*rows, row, row_floats, &merged);
  }
  for (; next < changes.keys.size(); ++next) {
    AppendRowOf(changes, next, row_floats, &merged);
  }

  for (const auto& candidate : rows->candidates) {
    if (!std::binary_search(changed.begin(), changed.end(), candidate.key)) {
      merged.candidates.push_back(candidate);
    }
  }
  merged.candidates.insert(merged.candidates.end(), changes.candidates.begin(),
                           changes.candidates.end());
  std::sort(merged.candidates.begin(), merged.candidates.end(), IsBefore);
  *rows = std::move(merged);
}

}  // namespace tributary
