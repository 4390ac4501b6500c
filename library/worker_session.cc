#include "library/worker_session.h"

#include <google/protobuf/util/json_util.h>
#include <sys/mman.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/os/shared_memory.h"
#include "library/program_model.h"
#include "worker/data/data_set.h"
#include "worker/data/index_data_set.h"
#include "worker/data/open_data_set.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/sparse/feature_rows.h"
#include "worker/training/training_setup.h"

namespace tributary {
namespace {

// Compute threads of RunWorker, which only wait for the program. While the
// program computes the item of one thread, the other thread queues the next.
constexpr int kComputeThreads = 2;

// Hides pinned memory from child processes, such as those that read data for
// PyTorch's DataLoader, until the returned handle is released. The kernel would
// copy pinned private pages when the process forks. `memory` must be aligned to
// a page; a last page that `bytes` does not fill is not hidden.
std::shared_ptr<void> HiddenFromChildren(void* memory, size_t bytes,
                                         std::shared_ptr<void> pinned) {
  const size_t pages = bytes / kPageBytes * kPageBytes;
  madvise(memory, pages, MADV_DONTFORK);
  return std::shared_ptr<void>(
      memory, [pages, pinned = std::move(pinned)](void* hidden) mutable {
        madvise(hidden, pages, MADV_DOFORK);
        pinned.reset();
      });
}

FeatureInfo::Pooling PoolingOf(SparseFeatureSpec::Pooling pooling) {
  switch (pooling) {
    case SparseFeatureSpec::MEAN:
      return FeatureInfo::Pooling::kMean;
    case SparseFeatureSpec::NONE:
      return FeatureInfo::Pooling::kNone;
    default:
      return FeatureInfo::Pooling::kSum;
  }
}

std::vector<FeatureInfo> FeaturesOf(const JobSpec& job) {
  std::vector<FeatureInfo> features;
  const FeatureRows rows(job.sparse());
  for (const FeatureRows::Feature& feature : rows.features()) {
    features.push_back({feature.name, job.sparse().table(feature.table).name(),
                        feature.dim, PoolingOf(feature.pooling)});
  }
  return features;
}

JobInfo InfoOf(const JobSpec& job, const DataSet& data) {
  JobInfo info;
  info.name = job.name();
  if (job.model().has_external()) {
    info.model = job.model().external().name();
    info.config = job.model().external().config();
  }
  info.seed = job.seed();
  info.train_samples = data.train_samples();
  info.evaluation_samples = data.evaluation_samples();
  info.fingerprint = data.fingerprint();
  info.batch = job.batch().global();
  info.micro_batches = static_cast<int>(job.batch().micro_batches());
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  info.features = FeaturesOf(job);
  // It can fail only for messages of types that a job does not contain.
  (void)google::protobuf::util::MessageToJsonString(job, &info.spec, options);
  return info;
}

// Blocks until there is an item of work, and returns it. Returns null when
// there is no more. Meanwhile calls `collect` if the trainer asks for the
// untrained tensors.
Work* AwaitItem(
    Handover* handover,
    const std::function<std::vector<UntrainedTensor>(int64_t)>& collect) {
  while (Work* const work = handover->Await()) {
    if (work->untrained == nullptr) return work;
    *work->untrained = collect(work->step);
    handover->Done(absl::OkStatus());
  }
  return nullptr;
}

// Creates the device in whose memory the program computes: the GPU with this
// number, or the CPU.
absl::StatusOr<std::unique_ptr<Device>> MakeProgramDevice(
    std::optional<int> gpu, const ArenaLayout& layout, Precision precision) {
  if (!gpu.has_value()) return MakeCpuDevice(precision);
  TRIBUTARY_ASSIGN_OR_RETURN(std::unique_ptr<Device> device,
                             CreateCudaDevice(*gpu, precision));
  const int64_t needed = 2 * layout.arena_elements() * int64_t{sizeof(float)};
  const std::optional<int64_t> available = device->AvailableMemoryBytes();
  if (available.has_value() && *available < needed) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "weights and gradients need ", needed,
        " bytes of the memory of cuda:", *gpu, ", which has ", *available,
        " bytes free; do not call UseGpu (in Python: pass gpu_memory=False)"));
  }
  return device;
}

}  // namespace

WorkerSession::WorkerSession(WorkerOptions process, std::unique_ptr<Logger> log)
    : log_(std::move(log)), step_(this) {
  process.threads = kComputeThreads;
  process.make_device =
      [this](Precision precision) -> absl::StatusOr<std::unique_ptr<Device>> {
    // The program chooses the device before it declares its parameters.
    TRIBUTARY_ASSIGN_OR_RETURN(const auto declared,
                               handover_.Offer(offered_job_, offered_));
    return MakeProgramDevice(gpu_, declared->layout(), precision);
  };
  process.sources = Sources();
  // A wait of NCCL's operations for other workers must not delay the program's
  // own operations; see CheckHardwareQueues.
  process.load_nccl = nullptr;
  process.on_admitted = [this](int rank, int workers) {
    rank_ = rank;
    workers_ = workers;
  };
  process.rule = [this] { return rule_.get(); };
  process.has_untrained = [this] { return collect_untrained_ != nullptr; };
  process.untrained = [this](int64_t steps) {
    std::vector<UntrainedTensor> tensors;
    Work work;
    work.step = steps;
    work.untrained = &tensors;
    // The program may have left the job.
    if (!handover_.Do(&work).ok()) tensors.clear();
    return tensors;
  };
  process.log = log_.get();
  thread_ = Thread([this, process = std::move(process)] {
    const absl::Status end = RunWorker(process, &shutdown_);
    // The program may now end the process without destroying this object.
    log_->Flush();
    handover_.End(end);
  });
}

WorkerSession::~WorkerSession() {
  // In this order, so that a micro-batch that ends early is not reported as the
  // job's failure.
  shutdown_.Request();
  handover_.Close();
  thread_.Join();
}

TrainingSources WorkerSession::Sources() {
  TrainingSources sources;
  sources.open_data =
      [this](const JobSpec& job) -> absl::StatusOr<std::unique_ptr<DataSet>> {
    TRIBUTARY_ASSIGN_OR_RETURN(std::unique_ptr<DataSet> data, OpenDataSet(job));
    offered_job_ = job;
    offered_ = InfoOf(job, *data);
    if (job.data().has_external()) return data;
    return std::make_unique<IndexDataSet>(*data);
  };
  sources.create_model =
      [this](const ModelSpec&, const DataInfo&, int64_t, Device* device,
             WeightCopies*,
             const NetworkPart&) -> absl::StatusOr<std::unique_ptr<Model>> {
    TRIBUTARY_ASSIGN_OR_RETURN(auto declared,
                               handover_.Offer(offered_job_, offered_));
    return std::make_unique<ProgramModel>(std::move(declared), device,
                                          &handover_);
  };
  sources.build_graph = nullptr;
  sources.queues_micro_batches = true;
  sources.announced_rows = announced_rows_;
  sources.pin = [this](void* memory, size_t bytes) {
    return Pin(memory, bytes);
  };
  sources.on_last_weights = [this](absl::Span<const float> weights) {
    if (!keeps_last_weights_) return;
    last_weights_.assign(weights.begin(), weights.end());
  };
  // The program's memory is not known.
  sources.plan_model = [](const ModelSpec&, const DataInfo&, int64_t,
                          const Device&,
                          const NetworkPart&) { return ModelMemory(); };
  return sources;
}

absl::Status WorkerSession::AwaitJob() {
  const std::optional<JobInfo> job = handover_.AwaitJob();
  if (!job.has_value()) {
    const absl::Status end = status();
    if (end.ok()) return absl::OutOfRangeError("the job is done");
    // Callers take the code for the end of the job.
    return absl::IsOutOfRange(end)
               ? absl::FailedPreconditionError(end.message())
               : end;
  }
  job_ = *job;
  return absl::OkStatus();
}

absl::Status WorkerSession::UseGpu(int gpu) {
  if (declared_ != nullptr) {
    return absl::FailedPreconditionError(
        "UseGpu was called after Declare; call it before");
  }
  gpu_.reset();
  // Also finds out whether a library is missing.
  const absl::Status usable = CreateCudaDevice(gpu).status();
  if (!usable.ok()) {
    log_->Warning(
        "weights and gradients are in host memory, so steps on the GPU take "
        "longer: %s",
        std::string(usable.message()));
    return usable;
  }
  TRIBUTARY_RETURN_IF_ERROR(PinForGpu(gpu));
  gpu_ = gpu;
  return absl::OkStatus();
}

absl::Status WorkerSession::PinForGpu(int gpu) {
  if (declared_ != nullptr) {
    return absl::FailedPreconditionError(
        "PinForGpu was called after Declare; call it before");
  }
  absl::StatusOr<PinMemory> pin = PinForCuda(gpu);
  if (pin.ok()) {
    pin_for_gpu_ = *std::move(pin);
  } else {
    log_->Warning(
        "memory cannot be pinned, so copies between the host and the GPU are "
        "slower: %s",
        std::string(pin.status().message()));
  }
  return pin.status();
}

std::shared_ptr<void> WorkerSession::Pin(void* memory, size_t bytes) {
  // Smaller buffers share pages, which CUDA does not pin twice.
  if (pin_for_gpu_ == nullptr || bytes < kPageBytes) return nullptr;
  std::shared_ptr<void> pinned = pin_for_gpu_(memory, bytes);
  if (pinned != nullptr) return HiddenFromChildren(memory, bytes, pinned);
  if (!warned_of_pinning_.exchange(true)) {
    log_->Warning(
        "CUDA cannot pin %d bytes of memory, so copies between the host and "
        "the GPU are slower",
        bytes);
  }
  return nullptr;
}

absl::Status WorkerSession::SetRule(std::shared_ptr<ProgramRule> rule) {
  if (declared_ != nullptr) {
    return absl::FailedPreconditionError(
        "SetRule was called after Declare; call it before");
  }
  rule_ = std::move(rule);
  return absl::OkStatus();
}

absl::Status WorkerSession::Declare(
    const std::vector<ParameterDeclaration>& parameters) {
  if (declared_ != nullptr) {
    return absl::FailedPreconditionError(
        "Declare was called twice; declare all parameters at once");
  }
  TRIBUTARY_ASSIGN_OR_RETURN(ParameterDeclarations declared,
                             ParameterDeclarations::Create(parameters));
  declared_ =
      std::make_shared<const ParameterDeclarations>(std::move(declared));
  handover_.Answer(declared_);
  return absl::OkStatus();
}

void WorkerSession::LeaveItem() {
  const auto leave = [this](auto* state) {
    if (!state->has_value()) return;
    (*state)->Leave();
    if (error_.ok()) error_ = (*state)->status();
    state->reset();
  };
  leave(&micro_batch_state_);
  leave(&piece_state_);
}

Work* WorkerSession::AwaitWork() {
  while (Work* const work = AwaitItem(&handover_, collect_untrained_)) {
    if (error_.ok()) return work;
    handover_.Done(error_);
  }
  return nullptr;
}

Work* WorkerSession::AwaitWorkOfStep(bool evaluates) {
  LeaveItem();
  if (evaluates != step_evaluates_) return nullptr;
  Work* const work = AwaitWork();
  if (work == nullptr || work->evaluates != evaluates ||
      work->step != step_number_) {
    return nullptr;
  }
  item_taken_ = true;
  return work;
}

absl::Status WorkerSession::EndJob() {
  if (handover_.ended()) return status();
  if (!micro_batch_state_.has_value()) {
    return absl::FailedPreconditionError(
        "EndJob was called outside of a loop over Step::micro_batches");
  }
  const int64_t step = step_number_;
  // Not finished: its item is answered below.
  micro_batch_state_.reset();
  while (const Work* const work = AwaitItem(&handover_, collect_untrained_)) {
    if (!work->evaluates && work->step == step) {
      handover_.Done(JobEndRequested());
      continue;
    }
    // The attempt has ended, and another one computes earlier steps.
    shutdown_.Request();
    handover_.Done(absl::CancelledError("the program has ended the job"));
  }
  if (shutdown_.requested()) {
    return absl::CancelledError(
        "a server was lost while the program ended the job: start it again");
  }
  return status();
}

absl::Span<const float> WorkerSession::LastWeights(int parameter) const {
  const auto& places = declared_->layout().parameters();
  if (!handover_.ended() || last_weights_.empty() || parameter < 0 ||
      parameter >= static_cast<int>(places.size())) {
    return {};
  }
  return absl::MakeConstSpan(last_weights_)
      .subspan(places[parameter].offset, places[parameter].size);
}

absl::Status WorkerSession::status() const {
  const absl::Status end = handover_.end();
  return end.ok() ? error_ : end;
}

void WorkerSession::Announce(
    int64_t step, int micro_batch,
    const std::vector<std::pair<int, absl::Span<const uint64_t>>>&
        feature_keys) {
  std::vector<AnnouncedKeys> keys;
  for (const auto& [feature, of_feature] : feature_keys) {
    keys.push_back({feature, of_feature});
  }
  announced_rows_->Announce(step, micro_batch, keys);
}

Step* WorkerSession::NextStep() {
  LeaveItem();
  if (declared_ == nullptr && error_.ok()) {
    error_ = absl::FailedPreconditionError(
        "NextStep was called before Declare, which declares the parameters");
    handover_.Answer(error_);
  }
  if (has_step_ && !item_taken_ && error_.ok()) {
    error_ = absl::FailedPreconditionError(
        step_evaluates_
            ? "the program has not evaluated: iterate over "
              "step->evaluation_pieces(), or set evaluation { disabled: true } "
              "in the job"
            : absl::StrCat("the program has skipped step ", step_number_,
                           ": iterate over step->micro_batches()"));
  }
  const Work* const work = AwaitWork();
  has_step_ = work != nullptr;
  if (work == nullptr) return nullptr;
  step_evaluates_ = work->evaluates;
  step_number_ = work->step;
  item_taken_ = false;
  return &step_;
}

MicroBatch* WorkerSession::NextMicroBatch() {
  Work* const work = AwaitWorkOfStep(/*evaluates=*/false);
  if (work == nullptr) return nullptr;
  micro_batch_state_.emplace(
      work, &declared_->layout(),
      [this](const absl::Status& status) { handover_.Done(status); });
  micro_batch_.emplace(&*micro_batch_state_);
  return &*micro_batch_;
}

EvaluationPiece* WorkerSession::NextPiece() {
  Work* const work = AwaitWorkOfStep(/*evaluates=*/true);
  if (work == nullptr) return nullptr;
  piece_state_.emplace(
      work, &declared_->layout(),
      [this](const absl::Status& status) { handover_.Done(status); });
  piece_.emplace(&*piece_state_);
  return &*piece_;
}

}  // namespace tributary
