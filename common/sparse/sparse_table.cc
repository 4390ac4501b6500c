#include "common/sparse/sparse_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/numerics/flush_denormals.h"
#include "common/sparse/for_each_key.h"
#include "common/sparse/key_hash.h"

namespace tributary {

absl::StatusOr<std::unique_ptr<SparseTable>> SparseTable::Create(
    const Options& options) {
  TRIBUTARY_ASSIGN_OR_RETURN(RowRule rule, RowRule::Create(options.spec));
  const RowLayout layout = {options.spec.dim(),
                            rule.StateElements(options.spec.dim())};
  std::unique_ptr<SparseTable> table(
      new SparseTable(options, std::move(rule), layout));
  TRIBUTARY_RETURN_IF_ERROR(table->AddBuckets());
  return table;
}

SparseTable::SparseTable(const Options& options, RowRule rule,
                         const RowLayout& layout)
    : options_(options),
      rule_(std::move(rule)),
      layout_(layout),
      initial_(options.spec, options.seed),
      version_(options.version),
      memory_(layout_.bytes() * RowBucket::kSlabRows,
              options.spec.has_disk() ? 0 : options.spec.memory_bytes()),
      bucket_of_(options.spec.buckets()) {}

absl::Status SparseTable::AddBuckets() {
  const std::vector<int> numbers = buckets();
  TableBucket::Disk disk;
  if (spec().has_disk() && !numbers.empty()) {
    // Buckets take memory in slabs, and have about the same number of rows.
    const int64_t least = layout_.bytes() * RowBucket::kSlabRows *
                          static_cast<int64_t>(numbers.size());
    if (spec().memory_bytes() < least) {
      return absl::InvalidArgumentError(absl::StrCat(
          "table '", spec().name(), "': memory_bytes is ",
          spec().memory_bytes(), ", but ", RowBucket::kSlabRows,
          " rows of each of the ", numbers.size(), " buckets of a server take ",
          least, "; set memory_bytes to at least that, or fewer buckets"));
    }
    absl::StatusOr<std::unique_ptr<RowLog>> log =
        RowLog::Create(spec().disk().folder(), layout_.bytes());
    if (!log.ok()) {
      return absl::Status(log.status().code(),
                          absl::StrCat("table '", spec().name(),
                                       "': disk: ", log.status().message()));
    }
    log_ = *std::move(log);
    disk.log = log_.get();
    disk.rows_in_memory = spec().memory_bytes() / least * RowBucket::kSlabRows;
  }
  for (const int bucket : numbers) {
    buckets_.push_back(std::make_unique<TableBucket>(
        bucket, &options_.spec, layout_, &memory_, disk, options_.version));
    bucket_of_[bucket] = buckets_.back().get();
  }
  return absl::OkStatus();
}

std::vector<int> SparseTable::buckets() const {
  std::vector<int> buckets;
  for (int bucket = options_.shard; bucket < options_.spec.buckets();
       bucket += options_.servers) {
    buckets.push_back(bucket);
  }
  return buckets;
}

absl::Status SparseTable::CheckKeys(absl::Span<const uint64_t> keys) const {
  for (size_t i = 0; i < keys.size(); ++i) {
    if (i > 0 && keys[i] <= keys[i - 1]) {
      return absl::InvalidArgumentError(absl::StrCat(
          "keys of table '", spec().name(), "' are not ascending: ", keys[i],
          " follows ", keys[i - 1]));
    }
    const int bucket = BucketOfHash(KeyHash(keys[i]), spec().buckets());
    if (ServerOfBucket(bucket, options_.servers) != options_.shard) {
      return absl::InvalidArgumentError(absl::StrCat(
          "key ", keys[i], " of table '", spec().name(), "' belongs to server ",
          ServerOfBucket(bucket, options_.servers), ", not to server ",
          options_.shard));
    }
  }
  return absl::OkStatus();
}

int64_t SparseTable::version() const {
  absl::ReaderMutexLock lock(&mu_);
  return version_;
}

absl::Status SparseTable::ReadNewest(absl::Span<const uint64_t> keys,
                                     float* values) const {
  std::vector<int64_t> places;
  std::vector<uint32_t> positions;
  ForEachKey(
      keys, layout_.bytes(), [this](uint64_t hash) { return BucketOf(hash); },
      [&](int64_t place, uint64_t hash, const TableBucket* bucket) {
        float* const to = values + place * layout_.dim;
        const RowHeader* const row = bucket->rows().Find(keys[place], hash);
        if (row != nullptr) {
          std::copy_n(RowValues(row), layout_.dim, to);
        } else if (const ColdRow* const cold =
                       bucket->cold().Find(keys[place], hash)) {
          places.push_back(place);
          positions.push_back(cold->position);
        } else {
          initial_.Write(keys[place], to);
        }
      });
  if (positions.empty()) return absl::OkStatus();
  return log_->Read(positions, [&](int64_t i, const RowHeader& row) {
    std::copy_n(RowValues(&row), layout_.dim, values + places[i] * layout_.dim);
  });
}

absl::Status SparseTable::Stage(absl::Span<const uint64_t> keys,
                                StagedRows* rows) const {
  if (log_ == nullptr || log_->rows() == 0) return absl::OkStatus();
  std::vector<uint32_t> positions;
  ForEachKey(
      keys, layout_.bytes(), [this](uint64_t hash) { return BucketOf(hash); },
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

absl::Status SparseTable::Read(int64_t version, absl::Span<const uint64_t> keys,
                               float* values) const {
  absl::ReaderMutexLock lock(&mu_);
  const int64_t age = version_ - version;
  if (age < 0 || age > static_cast<int64_t>(before_.size())) {
    return absl::FailedPreconditionError(absl::StrCat(
        "table '", spec().name(), "' is at version ", version_, " and has ",
        before_.size(), " versions before it, but not version ", version));
  }
  TRIBUTARY_RETURN_IF_ERROR(ReadNewest(keys, values));
  // The first later step that has changed a row knows its values.
  std::vector<RowsBefore::Reader> steps;
  for (int64_t i = age - 1; i >= 0; --i) steps.emplace_back(before_[i].get());
  if (steps.empty()) return absl::OkStatus();
  for (size_t place = 0; place < keys.size(); ++place) {
    float* const to = values + static_cast<int64_t>(place) * layout_.dim;
    for (RowsBefore::Reader& step : steps) {
      const float* old = nullptr;
      const RowsBefore::State state = step.Find(keys[place], &old);
      if (state == RowsBefore::State::kUnchanged) continue;
      if (state == RowsBefore::State::kAbsent) {
        initial_.Write(keys[place], to);
      } else {
        std::copy_n(old, layout_.dim, to);
      }
      break;
    }
  }
  return absl::OkStatus();
}

absl::Status SparseTable::Apply(std::shared_ptr<const RowGradients> sum,
                                const RowsUpdate& update) {
  const FlushDenormals flush;
  absl::MutexLock lock(&mu_);
  const int64_t step = version_;
  const RowStep rule =
      rule_.At(step, update.gradient_scale, update.rate_factor);
  const int64_t elements = sum->rows() * layout_.dim;
  if (spare_ == nullptr || spare_elements_ < elements) {
    // Somewhat larger, because the numbers of rows of steps differ little.
    spare_elements_ = elements + elements / 8;
    spare_ = AllocateBuffer(spare_elements_);
  }
  auto before =
      std::make_unique<RowsBefore>(sum, std::move(spare_), layout_.dim);
  StagedRows staged(layout_);
  absl::Status status = Stage(sum->keys, &staged);
  TRIBUTARY_RETURN_IF_ERROR(status);
  ForEachKey(
      sum->keys, layout_.bytes(),
      [this](uint64_t hash) { return BucketOf(hash); },
      [&](int64_t place, uint64_t hash, TableBucket* bucket) {
        const uint64_t key = sum->keys[place];
        RowHeader* row = bucket->rows().Find(key, hash);
        if (row == nullptr && bucket->cold().Find(key, hash) != nullptr) {
          if (!status.ok()) return;
          row = bucket->Load(key, hash, staged.At(place));
          if (row == nullptr) {
            status = bucket->Full();
            return;
          }
        }
        if (row != nullptr) {
          before->Existed(place);
          bucket->Touch(row, step);
        } else {
          if (!status.ok() || !bucket->Admit(key, step)) return;
          row = bucket->Insert(key, hash, step);
          if (row == nullptr) {
            status = bucket->Full();
            return;
          }
          initial_.Write(key, RowValues(row));
        }
        float* const values = RowValues(row);
        rule.Update(sum->values.get() + place * layout_.dim, layout_.dim,
                    values, values + layout_.dim, before->values(place));
      });
  TRIBUTARY_RETURN_IF_ERROR(status);
  return Advance(std::move(before));
}

absl::Status SparseTable::Skip() {
  absl::MutexLock lock(&mu_);
  auto before = std::make_unique<RowsBefore>(std::make_shared<RowGradients>(),
                                             nullptr, layout_.dim);
  return Advance(std::move(before));
}

absl::Status SparseTable::Advance(std::unique_ptr<RowsBefore> before) {
  for (const auto& bucket : buckets_) {
    TRIBUTARY_RETURN_IF_ERROR(bucket->RemoveOld(version_, before.get()));
  }
  before->Finish();
  before_.push_front(std::move(before));
  if (static_cast<int>(before_.size()) >= options_.versions) {
    const int64_t elements = before_.back()->elements();
    if (spare_ == nullptr || elements > spare_elements_) {
      spare_elements_ = elements;
      spare_ = before_.back()->TakeBuffer();
    }
    before_.pop_back();
  }
  ++version_;
  if (log_ == nullptr) return absl::OkStatus();
  return log_->Compact([this](uint32_t position, const RowHeader& row) {
    return BucketOf(KeyHash(row.key))->MoveInLog(position, row);
  });
}

SparseTable::Size SparseTable::size() const {
  absl::ReaderMutexLock lock(&mu_);
  Size size;
  size.bytes = memory_.bytes();
  for (const auto& bucket : buckets_) {
    size.rows += bucket->size();
    size.bytes += bucket->index_bytes() + bucket->changes_bytes();
  }
  if (log_ != nullptr) {
    size.rows_on_disk = log_->rows();
    size.disk_bytes = log_->bytes();
  }
  return size;
}

absl::StatusOr<BucketRows> SparseTable::ReadBucket(int bucket) const {
  absl::ReaderMutexLock lock(&mu_);
  return bucket_of_[bucket]->Copy();
}

absl::Status SparseTable::Restore(const BucketRows& rows) {
  absl::MutexLock lock(&mu_);
  if (rows.bucket < 0 || rows.bucket >= spec().buckets()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "table '", spec().name(), "' has no bucket ", rows.bucket));
  }
  TableBucket* const bucket = bucket_of_[rows.bucket];
  return bucket == nullptr ? absl::OkStatus() : bucket->Restore(rows);
}

SparseTable::Changes SparseTable::TakeChanges(int steps) {
  absl::MutexLock lock(&mu_);
  Changes changes;
  changes_taken_ = version_;
  for (const auto& bucket : buckets_) {
    absl::StatusOr<BucketRows> taken = bucket->TakeChanges(version_);
    if (!taken.ok()) {
      changes.status = taken.status();
      return changes;
    }
    BucketRows& rows = *taken;
    if (!rows.keys.empty() || !rows.candidates.empty() ||
        !rows.removed.empty()) {
      changes.buckets.push_back(std::move(rows));
    }
  }
  const int ages = std::min(steps, static_cast<int>(before_.size()));
  for (int age = 1; age <= ages; ++age) {
    StepBefore& before = changes.before.emplace_back();
    before.age = age;
    before_[age - 1]->ForEach([&](uint64_t key, bool existed,
                                  const float* values) {
      before.keys.push_back(key);
      before.existed.push_back(existed ? 1 : 0);
      before.values.insert(before.values.end(), values, values + layout_.dim);
    });
  }
  return changes;
}

void SparseTable::ConfirmChanges(int64_t version) {
  absl::MutexLock lock(&mu_);
  if (version != changes_taken_) return;
  for (const auto& bucket : buckets_) bucket->ConfirmChanges();
}

void SparseTable::ChangeAll() {
  absl::MutexLock lock(&mu_);
  for (const auto& bucket : buckets_) bucket->ChangeAll();
}

void SparseTable::Restore(const StepBefore& before) {
  absl::MutexLock lock(&mu_);
  if (static_cast<int>(before_.size()) < before.age) {
    before_.push_back(std::make_unique<RowsBefore>(
        std::make_shared<RowGradients>(), nullptr, layout_.dim));
  }
  RowsBefore* const step = before_[before.age - 1].get();
  for (size_t i = 0; i < before.keys.size(); ++i) {
    if (BucketOf(KeyHash(before.keys[i])) == nullptr) continue;
    step->Add(before.keys[i], before.existed[i] != 0,
              before.values.data() + static_cast<int64_t>(i) * layout_.dim);
  }
  step->Finish();
}

}  // namespace tributary
