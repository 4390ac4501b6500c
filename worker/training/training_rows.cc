#include "worker/training/training_rows.h"

#include <vector>

#include "common/base/status_macros.h"
#include "common/codec/row_codec.h"
#include "worker/sparse/row_version.h"

namespace tributary {

TrainingRows::TrainingRows(const TrainingSetup* setup, TrainingBatches* batches,
                           const WorkState* state, RowExchange* exchange)
    : setup_(*setup),
      batches_(batches),
      state_(state),
      exchange_(exchange),
      features_(setup->job().sparse()),
      announced_(setup->announced_rows()) {
  if (announced_ == nullptr) return;
  announced_->Attach(setup->job(), &features_, exchange);
}

TrainingRows::~TrainingRows() {
  if (announced_ != nullptr) announced_->Detach();
}

int64_t TrainingRows::VersionOf(int64_t step) const {
  return RowVersionOf(setup_.job(), step);
}

void TrainingRows::Begin(const Task& task) {
  const JobSpec& job = setup_.job();
  step_ =
      std::make_unique<StepRows>(RowDimsOf(job.sparse()), RowEncoding(job),
                                 static_cast<int>(job.batch().micro_batches()),
                                 task.version, task.items, exchange_);
  if (announced_ != nullptr) return announced_->Begin(task.version);
  {
    absl::MutexLock lock(&mu_);
    leaves_.erase(leaves_.begin(), leaves_.lower_bound({task.version, 0}));
  }
  RequestAhead(task);
}

void TrainingRows::RequestAhead(const Task& task) {
  if (announced_ != nullptr) return;
  for (const int64_t step : {task.version, task.next_step}) {
    // Rows without a version are read when they are needed.
    if (step < 0 || (step != task.version && VersionOf(step) == kNewestRows)) {
      break;
    }
    for (const int64_t item : task.items) {
      const int micro_batch = static_cast<int>(item);
      {
        absl::MutexLock lock(&mu_);
        if (leaves_.count({step, micro_batch}) > 0) continue;
      }
      std::shared_ptr<const Batch> batch = batches_->TryTake(step, micro_batch);
      if (batch == nullptr) continue;
      absl::StatusOr<std::unique_ptr<Leaf>> leaf =
          Request(VersionOf(step), batch);
      absl::MutexLock lock(&mu_);
      auto& place = leaves_[{step, micro_batch}];
      if (leaf.ok()) {
        place = *std::move(leaf);
      } else {
        // Take reports the error.
        place = std::make_unique<Leaf>();
        place->batch = std::move(batch);
      }
    }
  }
}

absl::StatusOr<std::unique_ptr<TrainingRows::Leaf>> TrainingRows::Request(
    int64_t version, std::shared_ptr<const Batch> batch) const {
  TRIBUTARY_RETURN_IF_ERROR(batch->error);
  auto leaf = std::make_unique<Leaf>();
  TRIBUTARY_ASSIGN_OR_RETURN(leaf->rows, features_.RowsOf(*batch));
  leaf->requested = exchange_->Request(version, leaf->rows.keys);
  leaf->batch = std::move(batch);
  return leaf;
}

absl::StatusOr<std::unique_ptr<TrainingRows::Leaf>> TrainingRows::Take(
    const Task& task, int thread, int micro_batch) {
  if (announced_ != nullptr) return TakeLookups(task, thread, micro_batch);
  std::unique_ptr<Leaf> leaf;
  {
    absl::MutexLock lock(&mu_);
    auto node = leaves_.extract({task.version, micro_batch});
    if (!node.empty()) leaf = std::move(node.mapped());
  }
  if (leaf == nullptr || leaf->requested == nullptr) {
    std::shared_ptr<const Batch> batch =
        leaf == nullptr ? batches_->Take(thread, task.version, micro_batch)
                        : leaf->batch;
    TRIBUTARY_ASSIGN_OR_RETURN(
        leaf, Request(VersionOf(task.version), std::move(batch)));
  }
  const Batch& batch = *leaf->batch;
  leaf->input.samples = batch.samples;
  leaf->input.features = batch.features;
  leaf->input.labels = batch.labels;
  leaf->input.values = batch.values;
  TRIBUTARY_RETURN_IF_ERROR(Pool(task, batch, leaf->rows, leaf->requested.get(),
                                 &leaf->input.vectors));
  return leaf;
}

absl::Status TrainingRows::Pool(const Task& task, const Batch& batch,
                                const BatchRows& rows, RequestedRows* requested,
                                std::vector<float>* vectors) const {
  TRIBUTARY_ASSIGN_OR_RETURN(const float* const values, requested->Await([&] {
    return state_->GivenUp(task);
  }));
  vectors->resize(batch.samples * features_.width());
  features_.Pool(batch, rows, values, vectors->data());
  return absl::OkStatus();
}

absl::Status TrainingRows::Ready(int micro_batch, int64_t sample_count,
                                 const Leaf& leaf,
                                 const float* vector_gradients) {
  if (leaf.lookups != nullptr) {
    // The micro-batch may have no samples, or the program may not look up rows.
    TRIBUTARY_RETURN_IF_ERROR(leaf.lookups->AwaitVersion());
    step_->Ready(micro_batch, sample_count, leaf.lookups->Gradients());
    return absl::OkStatus();
  }
  step_->Ready(micro_batch, sample_count,
               features_.GradientsOf(*leaf.batch, leaf.rows, vector_gradients));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<TrainingRows::Leaf>> TrainingRows::TakeLookups(
    const Task& task, int thread, int micro_batch) {
  auto leaf = std::make_unique<Leaf>();
  leaf->batch = batches_->Take(thread, task.version, micro_batch);
  TRIBUTARY_RETURN_IF_ERROR(leaf->batch->error);
  RowLookups::Options options;
  options.features = &features_;
  options.exchange = exchange_;
  options.version = VersionOf(task.version);
  options.announced = announced_;
  options.step = task.version;
  options.micro_batch = micro_batch;
  options.given_up = [this, &task] { return state_->GivenUp(task); };
  leaf->lookups = std::make_unique<RowLookups>(std::move(options));
  leaf->input = *leaf->batch;
  leaf->input.lookups = leaf->lookups.get();
  return leaf;
}

std::unique_ptr<RowLookups> TrainingRows::EvaluationLookups(
    const Task& task) const {
  RowLookups::Options options;
  options.features = &features_;
  options.exchange = exchange_;
  options.version = task.version;
  options.given_up = [this, &task] { return state_->GivenUp(task); };
  return std::make_unique<RowLookups>(std::move(options));
}

absl::Status TrainingRows::AddVectors(const Task& task, Batch* batch) const {
  TRIBUTARY_ASSIGN_OR_RETURN(const BatchRows rows, features_.RowsOf(*batch));
  const std::unique_ptr<RequestedRows> requested =
      exchange_->Request(task.version, rows.keys);
  return Pool(task, *batch, rows, requested.get(), &batch->vectors);
}

}  // namespace tributary
