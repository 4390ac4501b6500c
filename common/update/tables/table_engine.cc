#include "common/update/tables/table_engine.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include "absl/base/call_once.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/codec/row_codec.h"
#include "common/numerics/sum_of_squares.h"
#include "common/sparse/key_hash.h"
#include "common/text/counted.h"
#include "common/update/consistency/ordered_policy.h"
#include "common/update/tables/row_source.h"

namespace tributary {
namespace {

// Adds up the rows of a step in the order of the reduction tree.
TableGradients Total(const TreeSum& sum, Encoding encoding,
                     const std::vector<std::unique_ptr<SparseTable>>& tables) {
  std::vector<TableGradients> stack;
  for (const auto& source : sum.steps()) {
    if (source != nullptr) {
      stack.push_back(static_cast<const RowSource&>(*source).tables());
      continue;
    }
    const TableGradients right = std::move(stack.back());
    stack.pop_back();
    TableGradients& left = stack.back();
    for (size_t table = 0; table < tables.size(); ++table) {
      left[table] =
          AddRows(left[table], right[table], tables[table]->dim(), encoding);
    }
  }
  return std::move(stack.back());
}

// A worker may contribute to step s as soon as each server has version s -
// fixed_lag.
ConsistencyPolicy::Options PolicyOptions(const TableEngine::Options& options) {
  ConsistencyPolicy::Options policy;
  policy.leaves = static_cast<int>(options.job.batch().micro_batches());
  policy.steps = options.steps;
  policy.first_step = options.first_version;
  return policy;
}

// Returns what the job's schedule makes of a learning rate of 1.
double RateFactor(const JobSpec& job, double learning_rate) {
  const double peak = PeakLearningRate(job.optimizer());
  return peak > 0 ? learning_rate / peak : 1;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TableEngine>> TableEngine::Create(
    Options options, Executor* pool) {
  const JobSpec& job = options.job;
  std::vector<std::unique_ptr<SparseTable>> tables;
  for (const SparseTableSpec& spec : job.sparse().table()) {
    SparseTable::Options table;
    table.spec = spec;
    table.seed = job.seed();
    table.shard = options.shard;
    table.servers = options.servers;
    table.version = options.first_version;
    table.versions = 2 * job.sparse().fixed_lag() + 2;
    TRIBUTARY_ASSIGN_OR_RETURN(tables.emplace_back(),
                               SparseTable::Create(table));
  }
  options.on_failure = [on_failure = std::move(options.on_failure),
                        failed = std::make_shared<absl::once_flag>()](
                           const absl::Status& status) {
    absl::call_once(*failed, on_failure, status);
  };
  return std::unique_ptr<TableEngine>(
      new TableEngine(std::move(options), pool, std::move(tables)));
}

TableEngine::TableEngine(Options options, Executor* pool,
                         std::vector<std::unique_ptr<SparseTable>> tables)
    : options_(std::move(options)),
      pool_(pool),
      encoding_(RowEncoding(options_.job)),
      recipe_(options_.job, options_.steps, /*statistics_rate=*/0),
      tables_(std::move(tables)),
      queue_(OrderedPolicy(PolicyOptions(options_),
                           options_.job.sparse().fixed_lag())
                 .NewQueue()),
      version_(options_.first_version) {}

absl::Status TableEngine::CheckKeys(const TableKeys& keys) const {
  if (keys.size() != tables_.size()) {
    return absl::InvalidArgumentError(absl::StrCat("keys of ", keys.size(),
                                                   " tables, expected keys of ",
                                                   Counted(tables(), "table")));
  }
  for (size_t table = 0; table < keys.size(); ++table) {
    TRIBUTARY_RETURN_IF_ERROR(tables_[table]->CheckKeys(keys[table]));
  }
  return absl::OkStatus();
}

absl::Status TableEngine::AddContribution(NodeSum sum) {
  if (options_.check != nullptr) {
    TRIBUTARY_RETURN_IF_ERROR(options_.check(sum));
  }
  TRIBUTARY_RETURN_IF_ERROR(options_.rates->Add(sum.step, sum.learning_rate));
  absl::MutexLock lock(&mu_);
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
  listener(state_ == State::kCollecting ? version_ : version_ + 1);
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

void TableEngine::Advance() {
  if (state_ != State::kCollecting) return;
  ContributionQueue::Decision decision = queue_->Next(version_);
  auto* const update = std::get_if<ChunkUpdate>(&decision);
  if (update == nullptr) return;
  step_ = std::move(*update);
  state_ = State::kSumming;
  for (const auto& [id, listener] : listeners_) listener(version_ + 1);
  pool_->Run([this] { Sum(); });
}

void TableEngine::Sum() {
  total_ = Total(step_.sum, encoding_, tables_);
  const StepSums sums = SumsOf(total_);
  {
    absl::MutexLock lock(&mu_);
    state_ = options_.awaits_norm ? State::kAwaitingNorm : State::kUpdating;
  }
  options_.on_sums(sums);
  if (!options_.awaits_norm) Update(/*norm=*/0);
}

StepSums TableEngine::SumsOf(const TableGradients& total) const {
  StepSums sums;
  sums.set_step(step_.step);
  sums.set_weight(step_.sum.sample_count());
  for (size_t number = 0; number < tables_.size(); ++number) {
    const SparseTable& table = *tables_[number];
    const RowGradients& rows = *total[number];
    std::vector<double> squares(table.spec().buckets());
    for (int64_t row = 0; row < rows.rows(); ++row) {
      const uint64_t key = rows.keys[row];
      const double square =
          SumOfSquares(rows.values.get() + row * table.dim(), table.dim());
      squares[BucketOfHash(KeyHash(key), table.spec().buckets())] += square;
      if (!std::isfinite(square) && !sums.has_nonfinite_row()) {
        *sums.mutable_nonfinite_row() =
            FindNonfinite(static_cast<int>(number), key);
      }
    }
    for (const int bucket : table.buckets()) {
      sums.add_row_sum_of_squares(squares[bucket]);
    }
  }
  return sums;
}

StepSums::NonfiniteRow TableEngine::FindNonfinite(int table,
                                                  uint64_t key) const {
  StepSums::NonfiniteRow found;
  found.set_table(table);
  found.set_key(key);
  found.set_contributor(
      step_.sum.FindContributor([&](const GradientSource& source) {
        const RowGradients& rows =
            *static_cast<const RowSource&>(source).tables()[table];
        const auto place =
            std::lower_bound(rows.keys.begin(), rows.keys.end(), key);
        if (place == rows.keys.end() || *place != key) return false;
        const int dim = tables_[table]->dim();
        const double square = SumOfSquares(
            rows.values.get() + (place - rows.keys.begin()) * dim, dim);
        return !std::isfinite(square);
      }));
  return found;
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
  total_.clear();
  step_ = ChunkUpdate();
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
                    TakeChangesNow())] { done(std::move(*tables)); });
    taken_version_ = -1;
  }
  state_ = State::kCollecting;
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
  int64_t elements = 0;
  for (size_t table = 0; table < keys.size(); ++table) {
    elements +=
        static_cast<int64_t>(keys[table].size()) * tables_[table]->dim();
  }
  Buffer values = AllocateBuffer(elements);
  float* to = values.get();
  for (size_t table = 0; table < keys.size(); ++table) {
    const absl::Status status = tables_[table]->Read(version, keys[table], to);
    if (absl::IsFailedPrecondition(status)) return done(status);
    if (!status.ok()) return options_.on_failure(status);
    to += static_cast<int64_t>(keys[table].size()) * tables_[table]->dim();
  }
  done(std::move(values));
}

void TableEngine::AddSizes(ProcessStatistics* statistics) const {
  for (const auto& table : tables_) {
    const SparseTable::Size size = table->size();
    TableSize* const added = statistics->add_table();
    added->set_name(table->spec().name());
    added->set_rows(size.rows);
    added->set_bytes(size.bytes);
  }
}

void TableEngine::AddMetrics(MetricsPage* page) const {
  page->BeginGauge("tributary_table_rows", "Rows of the table on this server.");
  for (const auto& table : tables_) {
    page->Add(static_cast<double>(table->size().rows),
              {{"table", table->spec().name()}});
  }
  page->BeginGauge("tributary_table_disk_rows",
                   "Those of the rows that are in a file on this server's "
                   "disk.");
  for (const auto& table : tables_) {
    page->Add(static_cast<double>(table->size().rows_on_disk),
              {{"table", table->spec().name()}});
  }
  page->BeginGauge("tributary_table_disk_bytes",
                   "The size of this file, in bytes.");
  for (const auto& table : tables_) {
    page->Add(static_cast<double>(table->size().disk_bytes),
              {{"table", table->spec().name()}});
  }
  page->BeginGauge("tributary_table_bytes",
                   "Memory for the rows of the table on this server, and their "
                   "index, in bytes.");
  for (const auto& table : tables_) {
    page->Add(static_cast<double>(table->size().bytes),
              {{"table", table->spec().name()}});
  }
}

std::vector<SparseTable::Changes> TableEngine::TakeChangesNow() const {
  std::vector<SparseTable::Changes> tables;
  for (const auto& table : tables_) {
    tables.push_back(table->TakeChanges(options_.job.sparse().fixed_lag()));
  }
  return tables;
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
        (version == version_ && state_ == State::kUpdating)) {
      return false;
    }
    if (version > version_) {
      taken_version_ = version;
      taken_ = std::move(done);
      return true;
    }
    tables = TakeChangesNow();
  }
  done(std::move(tables));
  return true;
}

}  // namespace tributary
