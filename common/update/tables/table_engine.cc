#include "common/update/tables/table_engine.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <variant>

#include "absl/base/call_once.h"
#include "absl/strings/str_cat.h"
#include "common/base/failpoint.h"
#include "common/base/status_macros.h"
#include "common/codec/row_codec.h"
#include "common/numerics/sum_of_squares.h"
#include "common/sparse/key_hash.h"
#include "common/sparse/row_gradients.h"
#include "common/text/counted.h"
#include "common/update/consistency/asynchronous_policy.h"
#include "common/update/consistency/ordered_policy.h"
#include "common/update/tables/row_source.h"

namespace tributary {
namespace {

// Adds up the rows of a step in the order of the reduction tree.
TableGradients Total(const TreeSum& sum, Encoding encoding,
                     const RowDims& dims) {
  std::vector<TableSums> stack;
  for (const auto& source : sum.steps()) {
    if (source != nullptr) {
      stack.push_back(
          ToSums(static_cast<const RowSource&>(*source).tables(), dims));
      continue;
    }
    const TableSums right = std::move(stack.back());
    stack.pop_back();
    stack.back() = AddSums(stack.back(), right, encoding);
  }
  TableGradients total;
  for (const auto& table : stack.back()) total.push_back(table->Gradients());
  return total;
}

// Returns where a row of `table`, whose rows have `dim` values, got a value
// that is not finite.
StepSums::NonfiniteRow FindNonfinite(const TreeSum& sum, int table, int dim,
                                     uint64_t key) {
  StepSums::NonfiniteRow found;
  found.set_table(table);
  found.set_key(key);
  found.set_contributor(sum.FindContributor([&](const GradientSource& source) {
    const RowGradients& rows =
        *static_cast<const RowSource&>(source).tables()[table];
    const auto place =
        std::lower_bound(rows.keys.begin(), rows.keys.end(), key);
    if (place == rows.keys.end() || *place != key) return false;
    const double square = SumOfSquares(
        rows.values.get() + (place - rows.keys.begin()) * dim, dim);
    return !std::isfinite(square);
  }));
  return found;
}

// A worker may contribute to step s as soon as each server has version s -
// fixed_lag.
std::unique_ptr<ContributionQueue> NewQueue(
    const TableEngine::Options& options) {
  ConsistencyPolicy::Options policy;
  policy.leaves = static_cast<int>(options.job.batch().micro_batches());
  policy.steps = options.steps;
  policy.first_step = options.first_version;
  if (options.whole_batches) {
    // No step is refused: a worker that computes a step again, because a chunk
    // has refused it, sends its rows twice, and they count once.
    AsynchronousSpec spec;
    spec.set_max_staleness(std::numeric_limits<int64_t>::max());
    return AsynchronousPolicy(policy, spec).NewQueue();
  }
  return OrderedPolicy(policy, options.job.sparse().fixed_lag()).NewQueue();
}

// Returns what the job's schedule makes of a learning rate of 1.
double RateFactor(const JobSpec& job, double learning_rate) {
  const double peak = PeakLearningRate(job.optimizer());
  return peak > 0 ? learning_rate / peak : 1;
}

// Returns the sums to report of a step.
StepSums SumsOf(const ChunkUpdate& step, const TableGradients& total,
                const ServerTables& tables) {
  StepSums sums;
  sums.set_step(step.step);
  sums.set_weight(step.sum.sample_count());
  for (size_t number = 0; number < tables.size(); ++number) {
    const SparseTable& table = *tables[number];
    const RowGradients& rows = *total[number];
    std::vector<double> squares_of_rows(rows.rows());
    SumsOfSquares(rows.values.get(), rows.rows(), table.dim(),
                  squares_of_rows.data());
    std::vector<double> squares(table.spec().buckets());
    for (int64_t row = 0; row < rows.rows(); ++row) {
      const uint64_t key = rows.keys[row];
      const double square = squares_of_rows[row];
      squares[BucketOfHash(KeyHash(key), table.spec().buckets())] += square;
      if (!std::isfinite(square) && !sums.has_nonfinite_row()) {
        *sums.mutable_nonfinite_row() =
            FindNonfinite(step.sum, static_cast<int>(number), table.dim(), key);
      }
    }
    for (const int bucket : table.buckets()) {
      sums.add_row_sum_of_squares(squares[bucket]);
    }
  }
  return sums;
}

std::vector<SparseTable::Changes> ChangesOf(const ServerTables& tables,
                                            int fixed_lag) {
  std::vector<SparseTable::Changes> changes;
  for (const auto& table : tables) {
    changes.push_back(table->TakeChanges(fixed_lag));
  }
  return changes;
}

// Returns the values of rows of a version: those of the first table, then those
// of the next.
absl::StatusOr<Buffer> ReadRows(const ServerTables& tables, int64_t version,
                                const TableKeys& keys) {
  int64_t elements = 0;
  for (size_t table = 0; table < keys.size(); ++table) {
    elements += static_cast<int64_t>(keys[table].size()) * tables[table]->dim();
  }
  Buffer values = AllocateBuffer(elements);
  float* to = values.get();
  for (size_t table = 0; table < keys.size(); ++table) {
    TRIBUTARY_RETURN_IF_ERROR(tables[table]->Read(version, keys[table], to));
    to += static_cast<int64_t>(keys[table].size()) * tables[table]->dim();
  }
  return values;
}

// Returns what the last step has changed in each table.
absl::StatusOr<std::vector<BucketRows>> LastSteps(const ServerTables& tables) {
  std::vector<BucketRows> changes;
  for (const auto& table : tables) {
    TRIBUTARY_ASSIGN_OR_RETURN(changes.emplace_back(), table->LastStep());
  }
  return changes;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TableEngine>> TableEngine::Create(
    Options options, Executor* pool) {
  TRIBUTARY_ASSIGN_OR_RETURN(
      ServerTables tables,
      MakeServerTables(options.job, options.shard, options.servers,
                       options.first_version));
  options.on_failure = [on_failure = std::move(options.on_failure),
                        failed = std::make_shared<absl::once_flag>()](
                           const absl::Status& status) {
    absl::call_once(*failed, on_failure, status);
  };
  return std::unique_ptr<TableEngine>(
      new TableEngine(std::move(options), pool, std::move(tables)));
}

TableEngine::TableEngine(Options options, Executor* pool, ServerTables tables)
    : options_(std::move(options)),
      pool_(pool),
      encoding_(RowEncoding(options_.job)),
      recipe_(options_.job, options_.steps, /*statistics_rate=*/0),
      tables_(std::move(tables)),
      queue_(NewQueue(options_)),
      version_(options_.first_version) {}

absl::Status TableEngine::CheckKeys(const TableKeys& keys) const {
  if (keys.size() != tables_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("keys of ", keys.size(), " tables, expected keys of ",
                     Counted(tables_.size(), "table")));
  }
  for (size_t table = 0; table < keys.size(); ++table) {
    TRIBUTARY_RETURN_IF_ERROR(tables_[table]->CheckKeys(keys[table]));
  }
  return absl::OkStatus();
}

absl::Status TableEngine::AddContribution(NodeSum sum) {
  absl::MutexLock lock(&mu_);
  if (options_.check != nullptr) {
    TRIBUTARY_RETURN_IF_ERROR(options_.check(sum));
  }
  TRIBUTARY_RETURN_IF_ERROR(options_.rates->Add(sum.step, sum.learning_rate));
  // What asynchronous workers read need not be known: no step is refused.
  sum.base_version = version_;
  TRIBUTARY_RETURN_IF_ERROR(queue_->Add(version_, std::move(sum)));
  Advance();
  return absl::OkStatus();
}

void TableEngine::DropFrom(int64_t incarnation) {
  absl::MutexLock lock(&mu_);
  queue_->DropFrom(incarnation);
}

void TableEngine::AddListener(int64_t id, Listener listener) {
  absl::MutexLock lock(&mu_);
  listener(Announced());
  listeners_[id] = std::move(listener);
}

void TableEngine::RemoveListener(int64_t id) {
  absl::MutexLock lock(&mu_);
  listeners_.erase(id);
}

int64_t TableEngine::version() const {
  absl::MutexLock lock(&mu_);
  return version_;
}

std::optional<MissingWork> TableEngine::FindMissingWork() const {
  absl::MutexLock lock(&mu_);
  if (state_ != State::kCollecting) return std::nullopt;
  const std::optional<int> leaf = queue_->FirstMissing(version_);
  if (!leaf.has_value()) return std::nullopt;
  MissingWork missing;
  missing.set_step(version_);
  missing.set_leaf(*leaf);
  return missing;
}

int64_t TableEngine::Announced() const {
  // Without replicas, a step is complete when its contributions are.
  return state_ == State::kCollecting || replicate_ != nullptr ? version_
                                                               : version_ + 1;
}

void TableEngine::Advance() {
  if (state_ != State::kCollecting) return;
  ContributionQueue::Decision decision = queue_->Next(version_);
  // The outcome of a step that was applied already.
  while (std::holds_alternative<ContributionOutcome>(decision)) {
    decision = queue_->Next(version_);
  }
  auto* const update = std::get_if<ChunkUpdate>(&decision);
  if (update == nullptr) return;
  step_ = std::move(*update);
  state_ = State::kSumming;
  if (replicate_ == nullptr) {
    for (const auto& [id, listener] : listeners_) listener(Announced());
  }
  pool_->Run([this] { Sum(); });
}

void TableEngine::Sum() {
  total_ = Total(step_.sum, encoding_, dims());
  const StepSums sums = SumsOf(step_, total_, tables_);
  {
    absl::MutexLock lock(&mu_);
    state_ = options_.awaits_norm ? State::kAwaitingNorm : State::kUpdating;
  }
  options_.on_sums(sums);
  if (!options_.awaits_norm) Update(/*norm=*/0);
}

void TableEngine::SetGradientNorm(int64_t step, double norm) {
  {
    absl::MutexLock lock(&mu_);
    if (state_ != State::kAwaitingNorm || step != step_.step) return;
    state_ = State::kUpdating;
  }
  pool_->Run([this, norm] { Update(norm); });
}

void TableEngine::Update(double norm) {
  const UpdateStep step = recipe_.At(step_.step, step_.sum.sample_count(), norm,
                                     options_.rates->Of(step_.step));
  RowsUpdate update;
  update.gradient_scale = step.gradient_scale;
  update.rate_factor = RateFactor(options_.job, step.learning_rate);
  const bool skips = options_.awaits_norm && recipe_.Skips(norm);
  for (size_t table = 0; table < tables_.size(); ++table) {
    const absl::Status status =
        skips ? tables_[table]->Skip()
              : tables_[table]->Apply(std::move(total_[table]), update);
    if (!status.ok()) return options_.on_failure(status);
  }
  LedgerEntry(options_.attempt, options_.ledger_place, step_.step,
              step_.sum.sample_count());
  total_.clear();
  step_ = ChunkUpdate();
  if (replicate_ == nullptr) return Publish();
  absl::StatusOr<std::vector<BucketRows>> changes = LastSteps(tables_);
  if (!changes.ok()) return options_.on_failure(changes.status());
  int64_t version = 0;
  {
    absl::MutexLock lock(&mu_);
    state_ = State::kReplicating;
    version = version_ + 1;
  }
  replicate_(version, *std::move(changes), [this] { Publish(); });
}

void TableEngine::Publish() {
  absl::MutexLock lock(&mu_);
  ++version_;
  const auto end = waiting_.upper_bound(version_);
  for (auto read = waiting_.begin(); read != end; ++read) {
    pool_->Run([this, version = read->first, read = std::move(read->second)] {
      ReadNow(version, read.keys, read.done);
    });
  }
  waiting_.erase(waiting_.begin(), end);
  if (taken_version_ == version_) {
    // Before the next step changes the rows.
    pool_->Run([done = std::move(taken_),
                tables = std::make_shared<std::vector<SparseTable::Changes>>(
                    ChangesOf(tables_, options_.job.sparse().fixed_lag()))] {
      done(std::move(*tables));
    });
    taken_version_ = -1;
  }
  state_ = State::kCollecting;
  if (replicate_ != nullptr) {
    for (const auto& [id, listener] : listeners_) listener(Announced());
  }
  Advance();
}

void TableEngine::Read(int64_t version, TableKeys keys, ReadCallback done) {
  {
    absl::MutexLock lock(&mu_);
    if (version > version_) {
      waiting_.emplace(version, Waiting{std::move(keys), std::move(done)});
      return;
    }
  }
  pool_->Run([this, version, keys = std::move(keys), done = std::move(done)] {
    ReadNow(version, keys, done);
  });
}

void TableEngine::ReadNow(int64_t version, const TableKeys& keys,
                          const ReadCallback& done) const {
  absl::StatusOr<Buffer> values = ReadRows(tables_, version, keys);
  if (!values.ok() && !absl::IsFailedPrecondition(values.status())) {
    return options_.on_failure(values.status());
  }
  done(std::move(values));
}

void TableEngine::ConfirmChanges(int64_t version) {
  for (const auto& table : tables_) table->ConfirmChanges(version);
}

void TableEngine::ChangeAll() {
  for (const auto& table : tables_) table->ChangeAll();
}

bool TableEngine::TakeChanges(int64_t version, ChangesCallback done) {
  std::vector<SparseTable::Changes> tables;
  {
    absl::MutexLock lock(&mu_);
    if (version < version_ ||
        (version == version_ &&
         (state_ == State::kUpdating || state_ == State::kReplicating))) {
      return false;
    }
    if (version > version_) {
      taken_version_ = version;
      taken_ = std::move(done);
      return true;
    }
    tables = ChangesOf(tables_, options_.job.sparse().fixed_lag());
  }
  done(std::move(tables));
  return true;
}

}  // namespace tributary
