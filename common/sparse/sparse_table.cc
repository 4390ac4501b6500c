#include "common/sparse/sparse_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/numerics/flush_denormals.h"
#include "common/sparse/for_each_key.h"
#include "common/sparse/key_hash.h"

namespace tributary {
namespace {

std::vector<SparseTable::StepBefore> CopyBefore(
    const std::deque<std::unique_ptr<RowsBefore>>& steps, int most, int dim) {
  std::vector<SparseTable::StepBefore> copies;
  const int ages = std::min(most, static_cast<int>(steps.size()));
  for (int age = 1; age <= ages; ++age) {
    SparseTable::StepBefore& copy = copies.emplace_back();
    copy.age = age;
    steps[age - 1]->ForEach(
        [&](uint64_t key, bool existed, const float* values) {
          copy.keys.push_back(key);
          copy.existed.push_back(existed ? 1 : 0);
          copy.values.insert(copy.values.end(), values, values + dim);
        });
  }
  return copies;
}

// Returns InvalidArgument unless earlier values of this age can follow those of
// the ages up to `known`.
absl::Status CheckAge(const SparseTableSpec& spec, int age, int known) {
  if (age >= 1 && age <= known + 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("table '", spec.name(), "' has earlier values of age ", age,
                   ", expected 1 to ", known + 1));
}

// Returns the earlier values of a step that has changed nothing.
std::unique_ptr<RowsBefore> NothingBefore(const RowLayout& layout) {
  return std::make_unique<RowsBefore>(std::vector<uint64_t>(),
                                      RowsBefore::Space(), layout.dim);
}

// Returns what the keys of `undo` were.
std::unique_ptr<RowsBefore> BeforeOf(const BucketRows& undo,
                                     const RowLayout& layout) {
  auto before = NothingBefore(layout);
  for (size_t i = 0; i < undo.keys.size(); ++i) {
    before->Add(undo.keys[i], /*existed=*/true,
                undo.values.data() + static_cast<int64_t>(i) * layout.floats());
  }
  const std::vector<float> none(layout.dim);
  for (const auto& candidate : undo.candidates) {
    before->Add(candidate.key, /*existed=*/false, none.data());
  }
  for (const uint64_t key : undo.removed) {
    before->Add(key, /*existed=*/false, none.data());
  }
  return before;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SparseTable>> SparseTable::Create(
    const Options& options) {
  TRIBUTARY_ASSIGN_OR_RETURN(RowRule rule, RowRule::Create(options.spec));
  const RowLayout layout = {options.spec.dim(),
                            rule.StateElements(options.spec.dim())};
  std::unique_ptr<SparseTable> table(
      new SparseTable(options, std::move(rule), layout));
  TRIBUTARY_ASSIGN_OR_RETURN(
      table->buckets_,
      TableBuckets::Create(&table->options_.spec, layout, options.shard,
                           options.servers, options.version));
  return table;
}

SparseTable::SparseTable(const Options& options, RowRule rule,
                         const RowLayout& layout)
    : options_(options),
      rule_(std::move(rule)),
      layout_(layout),
      initial_(options.spec, options.seed),
      version_(options.version) {}

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
    if (options_.servers == 1) continue;
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
      keys, layout_.bytes(),
      [this](uint64_t hash) { return buckets_->Of(hash); },
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
  const RowLog* const log = buckets_->log();
  return log->Read(positions, [&](int64_t i, const RowHeader& row) {
    std::copy_n(RowValues(&row), layout_.dim, values + places[i] * layout_.dim);
  });
}

absl::Status SparseTable::Read(int64_t version, absl::Span<const uint64_t> keys,
                               float* values) const {
  absl::ReaderMutexLock lock(&mu_);
  const int64_t age = version == kNewestRows ? 0 : version_ - version;
  if (version_ < 0 || age < 0 || age > static_cast<int64_t>(before_.size())) {
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
  const int64_t step = std::exchange(version_, -1);
  const RowStep rule =
      rule_.At(step, update.gradient_scale, update.rate_factor);
  const int64_t elements = sum->rows() * layout_.dim;
  if (spare_.elements < elements) {
    // Somewhat larger, because the numbers of rows of steps differ little.
    spare_.elements = elements + elements / 8;
    spare_.values = AllocateBuffer(spare_.elements);
  }
  auto before = std::make_unique<RowsBefore>(
      sum->keys, std::exchange(spare_, {}), layout_.dim);
  BucketRows undo;
  if (options_.replicated) {
    undo.keys.reserve(sum->rows());
    undo.last_steps.reserve(sum->rows());
    undo.values.reserve(sum->rows() * layout_.floats());
  }
  StagedRows staged(layout_);
  absl::Status status = buckets_->Stage(sum->keys, &staged);
  TRIBUTARY_RETURN_IF_ERROR(status);
  ForEachKey(
      sum->keys, layout_.bytes(),
      [this](uint64_t hash) { return buckets_->Of(hash); },
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
          if (options_.replicated) AppendRow(*row, layout_, &undo);
          before->Existed(place);
          bucket->Touch(row, step);
        } else {
          if (options_.replicated) bucket->CopyAbsent(key, &undo);
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
  RowStep::Finish();
  TRIBUTARY_RETURN_IF_ERROR(status);
  return Advance(step, std::move(before), std::move(undo));
}

absl::Status SparseTable::Skip() {
  absl::MutexLock lock(&mu_);
  return Advance(std::exchange(version_, -1), NothingBefore(layout_), {});
}

absl::Status SparseTable::Advance(int64_t step,
                                  std::unique_ptr<RowsBefore> before,
                                  BucketRows undo) {
  for (const auto& bucket : buckets_->all()) {
    TRIBUTARY_RETURN_IF_ERROR(bucket->RemoveOld(
        step, before.get(), options_.replicated ? &undo : nullptr));
  }
  return Finish(step, std::move(before), std::move(undo));
}

absl::Status SparseTable::Finish(int64_t step,
                                 std::unique_ptr<RowsBefore> before,
                                 BucketRows undo) {
  before->Finish();
  before_.push_front(std::move(before));
  if (static_cast<int>(before_.size()) >= options_.versions) {
    RowsBefore::Space space = before_.back()->TakeSpace();
    if (space.elements > spare_.elements) spare_ = std::move(space);
    before_.pop_back();
  }
  TRIBUTARY_RETURN_IF_ERROR(buckets_->Compact());
  if (options_.replicated) undo_ = std::move(undo);
  version_ = step + 1;
  return absl::OkStatus();
}

absl::StatusOr<BucketRows> SparseTable::LastStep() const {
  absl::ReaderMutexLock lock(&mu_);
  if (!undo_.has_value()) return BucketRows();
  TRIBUTARY_ASSIGN_OR_RETURN(BucketRows changes,
                             buckets_->CopyKeys(AllKeysOf(*undo_)));
  SortRows(layout_.floats(), &changes);
  return changes;
}

absl::Status SparseTable::Replay(const BucketRows& changes) {
  const std::vector<uint64_t> keys = AllKeysOf(changes);
  absl::MutexLock lock(&mu_);
  const int64_t step = std::exchange(version_, -1);
  TRIBUTARY_ASSIGN_OR_RETURN(BucketRows undo, buckets_->CopyKeys(keys));
  auto before = BeforeOf(undo, layout_);
  TRIBUTARY_RETURN_IF_ERROR(buckets_->Set(changes));
  return Finish(step, std::move(before), std::move(undo));
}

bool SparseTable::CanRollBack() const {
  absl::ReaderMutexLock lock(&mu_);
  return version_ >= 0 && undo_.has_value();
}

absl::Status SparseTable::RollBack() {
  absl::MutexLock lock(&mu_);
  if (version_ < 0 || !undo_.has_value()) {
    return absl::FailedPreconditionError(
        absl::StrCat("table '", spec().name(), "' has no step to take back"));
  }
  const int64_t version = std::exchange(version_, -1);
  TRIBUTARY_RETURN_IF_ERROR(buckets_->Set(*undo_));
  undo_.reset();
  before_.pop_front();
  version_ = version - 1;
  return absl::OkStatus();
}

SparseTable::Size SparseTable::size() const {
  absl::ReaderMutexLock lock(&mu_);
  Size size;
  size.bytes = buckets_->memory_bytes();
  for (const auto& bucket : buckets_->all()) {
    size.rows += bucket->size();
    size.bytes += bucket->index_bytes();
  }
  if (const RowLog* const log = buckets_->log()) {
    size.rows_on_disk = log->rows();
    size.disk_bytes = log->bytes();
  }
  return size;
}

absl::StatusOr<BucketRows> SparseTable::ReadBucket(int bucket) const {
  absl::ReaderMutexLock lock(&mu_);
  return buckets_->Numbered(bucket)->Copy();
}

absl::Status SparseTable::Restore(const BucketRows& rows) {
  absl::MutexLock lock(&mu_);
  if (rows.bucket < 0 || rows.bucket >= spec().buckets()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "table '", spec().name(), "' has no bucket ", rows.bucket));
  }
  TableBucket* const bucket = buckets_->Numbered(rows.bucket);
  return bucket == nullptr ? absl::OkStatus() : bucket->Restore(rows);
}

SparseTable::Changes SparseTable::TakeChanges(int steps) {
  absl::MutexLock lock(&mu_);
  Changes changes;
  changes_taken_ = version_;
  for (const auto& bucket : buckets_->all()) {
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
  changes.before = CopyBefore(before_, steps, layout_.dim);
  return changes;
}

std::vector<SparseTable::StepBefore> SparseTable::ReadBefore(int steps) const {
  absl::ReaderMutexLock lock(&mu_);
  return CopyBefore(before_, steps, layout_.dim);
}

void SparseTable::ConfirmChanges(int64_t version) {
  absl::MutexLock lock(&mu_);
  if (version != changes_taken_) return;
  for (const auto& bucket : buckets_->all()) bucket->ConfirmChanges();
}

void SparseTable::ChangeAll() {
  absl::MutexLock lock(&mu_);
  for (const auto& bucket : buckets_->all()) bucket->ChangeAll();
}

absl::Status SparseTable::Restore(const StepBefore& before) {
  absl::MutexLock lock(&mu_);
  // Jobs with a larger lag have more versions.
  if (before.age >= options_.versions) return absl::OkStatus();
  const int known = static_cast<int>(before_.size());
  TRIBUTARY_RETURN_IF_ERROR(CheckAge(spec(), before.age, known));
  if (before.age > known) before_.push_back(NothingBefore(layout_));
  RowsBefore* const step = before_[before.age - 1].get();
  for (size_t i = 0; i < before.keys.size(); ++i) {
    if (buckets_->Of(KeyHash(before.keys[i])) == nullptr) continue;
    step->Add(before.keys[i], before.existed[i] != 0,
              before.values.data() + static_cast<int64_t>(i) * layout_.dim);
  }
  step->Finish();
  return absl::OkStatus();
}

}  // namespace tributary
