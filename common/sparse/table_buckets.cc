#include "common/sparse/table_buckets.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/sparse/for_each_key.h"

namespace tributary {

TableBuckets::TableBuckets(const SparseTableSpec* spec, const RowLayout& layout)
    : spec_(*spec),
      layout_(layout),
      memory_(layout.bytes() * RowBucket::kSlabRows,
              spec->has_disk() ? 0 : spec->memory_bytes()),
      of_(spec->buckets()) {}

absl::StatusOr<std::unique_ptr<TableBuckets>> TableBuckets::Create(
    const SparseTableSpec* spec, const RowLayout& layout, int shard,
    int servers, int64_t version) {
  std::unique_ptr<TableBuckets> table(new TableBuckets(spec, layout));
  const int count = (spec->buckets() - shard + servers - 1) / servers;
  TableBucket::Disk disk;
  if (spec->has_disk() && count > 0) {
    // Buckets take memory in slabs, and have about the same number of rows.
    const int64_t least = layout.bytes() * RowBucket::kSlabRows * count;
    if (spec->memory_bytes() < least) {
      return absl::InvalidArgumentError(absl::StrCat(
          "table '", spec->name(), "': memory_bytes is ", spec->memory_bytes(),
          ", but ", RowBucket::kSlabRows, " rows of each of the ", count,
          " buckets of a server take ", least,
          "; set memory_bytes to at least that, or fewer buckets"));
    }
    absl::StatusOr<std::unique_ptr<RowLog>> log =
        RowLog::Create(spec->disk().folder(), layout.bytes());
    if (!log.ok()) {
      return absl::Status(log.status().code(),
                          absl::StrCat("table '", spec->name(),
                                       "': disk: ", log.status().message()));
    }
    table->log_ = *std::move(log);
    disk.log = table->log_.get();
    disk.rows_in_memory = spec->memory_bytes() / least * RowBucket::kSlabRows;
  }
  for (int bucket = shard; bucket < spec->buckets(); bucket += servers) {
    table->buckets_.push_back(std::make_unique<TableBucket>(
        bucket, spec, layout, &table->memory_, disk, version));
    table->of_[bucket] = table->buckets_.back().get();
  }
  return table;
}

absl::Status TableBuckets::Stage(absl::Span<const uint64_t> keys,
                                 StagedRows* rows) const {
  if (log_ == nullptr || log_->rows() == 0) return absl::OkStatus();
  std::vector<uint32_t> positions;
  ForEachKey(
      keys, layout_.bytes(), [this](uint64_t hash) { return Of(hash); },
      [&](int64_t place, uint64_t hash, const TableBucket* bucket) {
        const ColdRow* const cold = bucket->cold().Find(keys[place], hash);
        if (cold == nullptr) return;
        rows->Add(place);
        positions.push_back(cold->position);
      });
  rows->Allocate();
  return log_->Read(positions, [rows](int64_t i, const RowHeader& row) {
    rows->Set(i, row);
  });
}

absl::StatusOr<BucketRows> TableBuckets::CopyKeys(
    absl::Span<const uint64_t> keys) const {
  BucketRows copy;
  copy.keys.reserve(keys.size());
  copy.last_steps.reserve(keys.size());
  copy.values.reserve(keys.size() * layout_.floats());
  std::vector<uint32_t> positions;
  ForEachKey(
      keys, layout_.bytes(), [this](uint64_t hash) { return Of(hash); },
      [&](int64_t place, uint64_t hash, const TableBucket* bucket) {
        const uint64_t key = keys[place];
        if (const RowHeader* const row = bucket->rows().Find(key, hash)) {
          AppendRow(*row, layout_, &copy);
        } else if (const ColdRow* const cold = bucket->cold().Find(key, hash)) {
          positions.push_back(cold->position);
        } else {
          bucket->CopyAbsent(key, &copy);
        }
      });
  if (positions.empty()) return copy;
  TRIBUTARY_RETURN_IF_ERROR(
      log_->Read(positions, [&](int64_t /*i*/, const RowHeader& row) {
        AppendRow(row, layout_, &copy);
      }));
  return copy;
}

absl::Status TableBuckets::Compact() {
  if (log_ == nullptr) return absl::OkStatus();
  return log_->Compact([this](uint32_t position, const RowHeader& row) {
    return Of(KeyHash(row.key))->MoveInLog(position, row);
  });
}

absl::Status TableBuckets::Set(const BucketRows& rows) {
  const auto bucket_of = [this](uint64_t hash) { return Of(hash); };
  for (const uint64_t key : rows.removed) {
    const uint64_t hash = KeyHash(key);
    Of(hash)->SetAbsent(key, hash, nullptr);
  }
  for (const BucketRows::Candidate& candidate : rows.candidates) {
    const uint64_t hash = KeyHash(candidate.key);
    Of(hash)->SetAbsent(candidate.key, hash, &candidate);
  }
  absl::Status status;
  ForEachKey(rows.keys, layout_.bytes(), bucket_of,
             [&](int64_t place, uint64_t hash, TableBucket* bucket) {
               if (!status.ok()) return;
               RowHeader* const row = bucket->Put(rows.keys[place], hash);
               if (row == nullptr) {
                 status = bucket->Full();
                 return;
               }
               row->last_step = rows.last_steps[place];
               std::copy_n(rows.values.data() + place * layout_.floats(),
                           layout_.floats(), RowValues(row));
             });
  return status;
}

}  // namespace tributary
