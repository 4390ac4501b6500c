#include "worker/training/training_setup.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/limits.h"
#include "common/base/status_macros.h"
#include "common/job/job.h"
#include "common/os/process.h"
#include "worker/models/gpt2_config.h"
#include "worker/models/initial_weights.h"
#include "worker/nn/initial_values.h"

namespace tributary {
namespace {

std::string UnitOf(const JobSpec& job, DataInfo::Kind kind) {
  if (job.data().has_external()) return job.data().external().unit();
  switch (kind) {
    case DataInfo::Kind::kImages:
      return "images";
    case DataInfo::Kind::kTokens:
      return "tokens";
    case DataInfo::Kind::kSequences:
      return job.model().bert().head() == BertSpec::SEQUENCE_CLASSIFICATION
                 ? "texts"
                 : "tokens";
    case DataInfo::Kind::kIndexes:  // Only with data.external.
    case DataInfo::Kind::kRows:
      break;
  }
  return "rows";
}

// Returns how much of the device's memory sums of gradients must leave free. A
// program allocates the memory for its activations after them, and it is not
// known how much.
int64_t SpareBytes(const Device& device, bool program_computes) {
  constexpr int64_t kForLibraries = int64_t{1} << 30;
  if (!program_computes) return kForLibraries;
  return std::max(kForLibraries, device.AvailableMemoryBytes().value_or(0) / 2);
}

int64_t TotalSteps(const JobSpec& job, int64_t steps_per_epoch) {
  if (job.has_steps()) return job.steps();
  return std::max<int64_t>(
      1, static_cast<int64_t>(
             std::ceil(job.epochs() * static_cast<double>(steps_per_epoch))));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> MakeCpuDevice(Precision precision) {
  return CreateCpuDevice(precision);
}

absl::StatusOr<std::unique_ptr<TrainingSetup>> TrainingSetup::Create(
    const JobSpec& job, int threads, const DeviceMaker& make_device,
    const TrainingSources& sources) {
  auto setup = std::unique_ptr<TrainingSetup>(new TrainingSetup());
  setup->job_ = job;
  setup->traits_ = ResolveExchange(job);
  setup->plan_model_ = sources.plan_model;
  setup->build_graph_ = sources.build_graph;
  setup->pin_for_models_ = sources.pin;
  setup->on_last_weights_ = sources.on_last_weights;
  setup->announced_rows_ = sources.announced_rows;
  if (sources.queues_micro_batches &&
      (job.model().has_initial_weights() || job.optimizer().group_size() > 0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        job.model().has_initial_weights() ? "model.initial_weights"
                                          : "optimizer.group",
        " does not apply to a model that the worker's program computes; leave "
        "it out, and set initial values and parameter groups in the program"));
  }
  if (sources.queues_micro_batches && job.parallel().recompute()) {
    return absl::InvalidArgumentError(
        "parallel.recompute does not apply to a model that the worker's "
        "program computes; leave it out, and recompute activations in the "
        "program, for example with torch.utils.checkpoint");
  }
  if (sources.queues_micro_batches && ComputesInParts(job)) {
    return absl::InvalidArgumentError(absl::StrCat(
        job.parallel().has_pipeline() ? "parallel.pipeline"
                                      : "parallel.sharded_weights",
        " does not apply to a model that the worker's program computes; leave "
        "it out"));
  }
  TRIBUTARY_RETURN_IF_ERROR(setup->Open(sources));
  // The synthetic model computes nothing, so it uses the host.
  const DeviceMaker& make =
      job.model().has_synthetic() ? &MakeCpuDevice : make_device;
  const std::optional<int64_t> host_bytes = AvailableMemoryBytes();
  if (ComputesInParts(job)) threads = 1;
  for (int thread = 0; thread < threads; ++thread) {
    const absl::Status added = setup->AddThread(make, sources, host_bytes);
    if (thread > 0 && absl::IsResourceExhausted(added)) break;
    TRIBUTARY_RETURN_IF_ERROR(added);
    setup->queues_micro_batches_ = sources.queues_micro_batches &&
                                   !setup->traits_.local_sgd &&
                                   !setup->device(0)->has_own_memory();
    if (sources.queues_micro_batches && !setup->queues_micro_batches_) break;
  }
  return setup;
}

absl::StatusOr<Graph> TrainingSetup::BuildGraph() const {
  if (build_graph_ == nullptr) {
    return absl::FailedPreconditionError(
        "the worker's program computes the model, so it has no layers here");
  }
  return build_graph_(job_.model(), data_->info());
}

PinMemory TrainingSetup::pin() const {
  Device* const device = this->device(/*thread=*/0);
  if (pin_for_models_ != nullptr || !device->has_own_memory()) {
    return pin_for_models_;
  }
  return [device](void* memory, size_t bytes) {
    return device->copies()->PinHostMemory(memory, bytes);
  };
}

ComputeThreadItems TrainingSetup::Distribute(std::vector<int64_t> items) const {
  using Schedule = ComputeThreadItems::Schedule;
  // Contiguous ranges let neighbours be added in device memory.
  const Schedule schedule = queues_micro_batches_ ? Schedule::kInOrder
                            : sums(/*thread=*/0) != nullptr
                                ? Schedule::kStatic
                                : Schedule::kDynamic;
  return ComputeThreadItems(std::move(items), threads(), schedule);
}

absl::Status TrainingSetup::Open(const TrainingSources& sources) {
  const int64_t before = MemoryBytes();
  absl::StatusOr<std::unique_ptr<DataSet>> data = sources.open_data(job_);
  data_bytes_ = std::max<int64_t>(0, MemoryBytes() - before);
  if (absl::IsNotFound(data.status())) {
    return absl::NotFoundError(absl::StrCat(
        data.status().message(),
        "; every worker reads the data itself: copy them to this machine, or "
        "correct the path in the job"));
  }
  TRIBUTARY_RETURN_IF_ERROR(data.status());
  data_ = *std::move(data);
  const int micro_batches = static_cast<int>(job_.batch().micro_batches());
  sampler_ = std::make_unique<Sampler>(job_.seed(), data_->train_samples(),
                                       job_.batch().global(), micro_batches);
  const int64_t held_out =
      job_.evaluation().disabled() ? 0 : data_->evaluation_samples();
  max_samples_ = MostSamples(MemoryInputs(), micro_batches);
  piece_samples_ =
      job_.evaluation().batch() > 0 ? job_.evaluation().batch() : max_samples_;
  facts_.set_train_samples(data_->train_samples());
  facts_.set_steps_per_epoch(sampler_->steps_per_epoch());
  facts_.set_steps(TotalSteps(job_, facts_.steps_per_epoch()));
  facts_.set_evaluation_pieces((held_out + piece_samples_ - 1) /
                               piece_samples_);
  if (facts_.evaluation_pieces() == 0 && KeepsEvaluatedVersions(job_)) {
    return absl::InvalidArgumentError(absl::StrCat(
        job_.has_stop_when() ? "stop_when" : "checkpoint.best",
        " needs held-out data, and the job's data have none; set the held-out "
        "part of `data`, or leave the field out"));
  }
  facts_.set_fingerprint(data_->fingerprint());
  facts_.set_unit(UnitOf(job_, data_->info().kind));
  facts_.set_sampler(kSamplerName);
  const std::string encoding = data_->encoding();
  if (encoding.size() > kMaxEncodingBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data: what prediction needs to know about the inputs has ",
        encoding.size(), " bytes, at most ", kMaxEncodingBytes,
        " can be stored with the model; use columns with fewer or shorter "
        "categories, or a tokenizer with a smaller vocabulary"));
  }
  const auto part = static_cast<size_t>(kDefaultLimits.text_bytes);
  for (size_t begin = 0; begin < encoding.size(); begin += part) {
    facts_.add_encoding(encoding.substr(begin, part));
  }
  rounds_ = std::make_unique<Rounds>(job_, facts_.steps());
  return absl::OkStatus();
}

MicroBatchMemoryInputs TrainingSetup::MemoryInputs() const {
  return {job_, data_->info(),
          !job_.evaluation().disabled() && data_->evaluation_samples() > 0,
          plan_model_};
}

absl::Status TrainingSetup::CheckMemory(int thread, const Device& device,
                                        std::optional<int64_t> host_bytes) {
  // The worker does not know its parts yet.
  if (ComputesInParts(job_)) return absl::OkStatus();
  TRIBUTARY_ASSIGN_OR_RETURN(
      micro_batch_memory_,
      PlanMicroBatchMemory(MemoryInputs(), job_.batch().micro_batches(),
                           device));
  // The system commits host memory on first use. Memory of earlier threads may
  // therefore still seem free, and running out later cannot be reported as an
  // error.
  const std::optional<int64_t> available =
      device.has_own_memory() ? device.AvailableMemoryBytes() : host_bytes;
  const int64_t needed = device.has_own_memory()
                             ? thread_memory().total()
                             : (thread + 1) * thread_memory().total();
  if (!available.has_value() || needed <= *available) return absl::OkStatus();
  return absl::ResourceExhaustedError(ExplainMicroBatchMemory(
      MemoryInputs(), micro_batch_memory_, *available, device));
}

absl::Status TrainingSetup::AddThread(const DeviceMaker& make_device,
                                      const TrainingSources& sources,
                                      std::optional<int64_t> host_bytes) {
  ComputeThread thread;
  TRIBUTARY_ASSIGN_OR_RETURN(thread.device, make_device(PrecisionOf(job_)));
  TRIBUTARY_RETURN_IF_ERROR(CheckMemory(threads(), *thread.device, host_bytes));
  WeightCopies* copies = nullptr;
  if (!traits_.local_sgd) {
    if (threads_.empty() || thread.device->has_own_memory()) {
      thread.weight_copies = std::make_unique<WeightCopies>();
    }
    copies = (thread.weight_copies != nullptr ? thread : threads_[0])
                 .weight_copies.get();
  }
  TRIBUTARY_ASSIGN_OR_RETURN(
      thread.model,
      sources.create_model(job_.model(), data_->info(), max_samples_,
                           thread.device.get(), copies, PartOf(job_)));
  if (threads_.empty()) TRIBUTARY_RETURN_IF_ERROR(LayOut(*thread.model));
  if (thread.device->has_own_memory()) {
    TRIBUTARY_ASSIGN_OR_RETURN(
        thread.arenas,
        DeviceArenas::Create(thread.device.get(), layout_.get()));
  }
  if (traits_.local_sgd && !ComputesInParts(job_)) {
    TRIBUTARY_ASSIGN_OR_RETURN(
        thread.local_sgd,
        LocalSgd::Create(job_, facts_.steps(), layout_.get(), pin_for_models_));
  } else if (thread.arenas != nullptr) {
    thread.sums = std::make_unique<DeviceSums>(
        thread.device.get(), layout_.get(),
        static_cast<int>(job_.batch().micro_batches()),
        job_.exchange().wire_dtype(),
        SpareBytes(*thread.device, sources.queues_micro_batches));
  }
  threads_.push_back(std::move(thread));
  return absl::OkStatus();
}

absl::Status TrainingSetup::LayOut(const Model& model) {
  table_ = model.table();
  TRIBUTARY_RETURN_IF_ERROR(ApplyParameterGroups());
  // Delayed updates accumulate: running statistics would overshoot the values
  // that they average, and a variance could become negative.
  if (job_.exchange().has_compression()) {
    for (const ParameterTable::Parameter& parameter : table_.parameter()) {
      if (parameter.group() != STATISTICS) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("exchange.compression: does not work with parameter ",
                       parameter.name(),
                       ", whose statistics must not come late; leave it out"));
    }
  }
  table_.set_chunk_elements(ChunkBytes(job_.exchange()) /
                            static_cast<int64_t>(sizeof(float)));
  TRIBUTARY_ASSIGN_OR_RETURN(ArenaLayout layout, ArenaLayout::Create(table_));
  layout_ = std::make_unique<ArenaLayout>(std::move(layout));
  return absl::OkStatus();
}

absl::Status TrainingSetup::ApplyParameterGroups() {
  // No group applies to frozen parameters: weight decay would change them.
  const auto& frozen = job_.model().initial_weights().freeze();
  std::vector<bool> grouped(table_.parameter_size(), false);
  TRIBUTARY_ASSIGN_OR_RETURN(
      const std::vector<int> parameters,
      MatchParameters("model.initial_weights.freeze",
                      {frozen.begin(), frozen.end()}, table_));
  for (const int index : parameters) grouped[index] = true;
  for (int i = 0; i < job_.optimizer().group_size(); ++i) {
    const ParameterGroupSpec& group = job_.optimizer().group(i);
    TRIBUTARY_ASSIGN_OR_RETURN(
        const std::vector<int> parameters,
        MatchParameters(absl::StrCat("optimizer.group[", i, "].parameters"),
                        {group.parameters().begin(), group.parameters().end()},
                        table_));
    for (const int index : parameters) {
      ParameterTable::Parameter* const parameter =
          table_.mutable_parameter(index);
      if (grouped[index] || parameter->group() == STATISTICS) continue;
      grouped[index] = true;
      if (group.learning_rate_factor() != 1) {
        parameter->set_learning_rate_factor(
            static_cast<float>(group.learning_rate_factor()));
      }
      if (group.has_weight_decay()) {
        parameter->set_group(group.weight_decay() ? DECAY : NO_DECAY);
      }
    }
  }
  return absl::OkStatus();
}

absl::Status TrainingSetup::MakeInitialWeights(float* arena) const {
  model(0)->Initialize(job_.seed(), layout(), arena);
  if (!job_.model().has_initial_weights()) return absl::OkStatus();
  TRIBUTARY_RETURN_IF_ERROR(CheckGpt2Config(job_.model()));
  return LoadInitialWeights(job_.model().initial_weights(), layout(), arena);
}

absl::Status TrainingSetup::MakeInitialElements(int64_t begin, int64_t end,
                                                float* arena) const {
  if (job_.model().has_initial_weights()) return MakeInitialWeights(arena);
  TRIBUTARY_ASSIGN_OR_RETURN(const Graph graph, BuildGraph());
  WriteInitialValues(graph, job_.seed(), layout(), begin, end, arena);
  return absl::OkStatus();
}

void TrainingSetup::KeepThreads(int count) { PopThreads(std::max(count, 1)); }

TrainingSetup::~TrainingSetup() { PopThreads(0); }

void TrainingSetup::PopThreads(size_t kept) {
  while (threads_.size() > kept) threads_.pop_back();
}

void TrainingSetup::RenewWeightCopies() const {
  for (const ComputeThread& thread : threads_) {
    if (thread.weight_copies != nullptr) thread.weight_copies->Renew();
  }
}

}  // namespace tributary
