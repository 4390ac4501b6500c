#include "worker/training/trainer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/failpoint.h"
#include "common/base/monotonic_clock.h"
#include "common/base/status_macros.h"
#include "common/os/process.h"
#include "common/text/counted.h"
#include "worker/exchange/leaf_gradients.h"
#include "worker/exchange/task_weights.h"
#include "worker/training/layer_runner.h"
#include "worker/training/threads/compute_thread.h"

namespace tributary {
namespace {

LossSum LossSumOf(const LossSums& sums) {
  return sums.has_loss ? LossSum(sums.loss) : LossSum::Unknown();
}

WorkerReport JobEndAfter(const Task& task) {
  WorkerReport report;
  report.mutable_end_job()->set_version(task.version);
  return report;
}

}  // namespace

Trainer::Trainer(TrainingSetup* setup, WorkState* state, Exchange* exchange,
                 Hooks hooks, const ComputedParts& parts)
    : setup_(setup),
      state_(state),
      exchange_(exchange),
      hooks_(std::move(hooks)),
      batches_(setup),
      rows_(exchange->rows() == nullptr
                ? nullptr
                : std::make_unique<TrainingRows>(setup, &batches_, state,
                                                 exchange->rows())),
      threads_(*setup, hooks_.trace, hooks_.clock),
      evaluator_(setup, rows_.get(), state, exchange, &threads_,
                 hooks_.report) {
  TaskRunner::Tools tools;
  tools.setup = setup;
  tools.batches = &batches_;
  tools.state = state;
  tools.exchange = exchange;
  tools.compute = threads_.thread(0);
  tools.report = hooks_.report;
  if (parts.stages != nullptr) {
    runner_ = std::make_unique<StageRunner>(
        StageRunner::Options{std::move(tools), *parts.stages});
  } else if (parts.layers != nullptr) {
    runner_ = std::make_unique<LayerRunner>(tools, parts.layers);
  }
  for (int thread = 0; thread < setup->threads(); ++thread) {
    if (exchange->device() != nullptr) setup->arenas(thread)->UseDeviceArenas();
  }
}

absl::Status Trainer::Run() {
  while (true) {
    const absl::Time start = hooks_.clock();
    TRIBUTARY_RETURN_IF_ERROR(Failpoint("W11"));
    const absl::Time asked =
        hooks_.trace == nullptr ? absl::Time() : MonotonicNow();
    const Task task = state_->Next();
    switch (task.kind) {
      case Task::Kind::kInitialize:
        TRIBUTARY_RETURN_IF_ERROR(Initialize());
        break;
      case Task::Kind::kReportSynced: {
        PinWeights();
        TRIBUTARY_RETURN_IF_ERROR(Failpoint("W5"));
        WorkerReport report;
        report.mutable_synced()->set_version(task.version);
        if (runner_ != nullptr) {
          report.mutable_synced()->set_stage_generation(runner_->generation());
        }
        hooks_.report(report);
        break;
      }
      case Task::Kind::kRequestStepLease: {
        WorkerReport report;
        report.mutable_claim();
        hooks_.report(report);
        break;
      }
      case Task::Kind::kEvaluate:
      case Task::Kind::kTrain:
        threads_.thread(0)->Waited(task.version, asked);
        threads_.times()->BeginTask(task, hooks_.clock() - start);
        TRIBUTARY_RETURN_IF_ERROR(Compute(task));
        break;
      case Task::Kind::kFinish:
        return GiveLastWeights(task.version);
      case Task::Kind::kFail:
        return state_->status();
    }
  }
}

absl::Status Trainer::GiveLastWeights(int64_t version) {
  const auto& give = setup_->on_last_weights();
  if (give == nullptr) return absl::OkStatus();
  const auto elements = static_cast<size_t>(setup_->layout().arena_elements());
  const MemoryView shared = exchange_->DeviceWeights(version);
  const float* const weights =
      shared.empty() ? state_->Weights(version) : shared.values;
  if (shared.empty() && exchange_->device() == nullptr) {
    give({weights, elements});
    return absl::OkStatus();
  }
  std::vector<float> copy(elements);
  TRIBUTARY_RETURN_IF_ERROR(
      setup_->device(/*thread=*/0)
          ->CopyToHost(copy.data(), weights, elements * sizeof(float)));
  give(copy);
  return absl::OkStatus();
}

void Trainer::PinWeights() {
  const PinMemory pin = setup_->pin();
  if (pin == nullptr) return;
  for (const absl::Span<char> memory : state_->WeightMemory()) {
    pinned_.push_back(pin(memory.data(), memory.size()));
  }
}

absl::Status Trainer::Initialize() {
  if (runner_ != nullptr) return runner_->Initialize();
  const Buffer arena = exchange_->TakeArena();
  TRIBUTARY_RETURN_IF_ERROR(setup_->MakeInitialWeights(arena.get()));
  exchange_->PushInitial(arena);
  return absl::OkStatus();
}

absl::Status Trainer::Compute(const Task& task) {
  setup_->RenewWeightCopies();
  const absl::Status status = runner_ != nullptr ? ComputeParts(task)
                              : task.kind == Task::Kind::kEvaluate
                                  ? evaluator_.Run(task)
                                  : Train(task);
  if (absl::IsResourceExhausted(status) && runner_ == nullptr) {
    return ComputeFewer(status);
  }
  if (IsJobEndRequest(status)) {
    hooks_.report(JobEndAfter(task));
    state_->AwaitEnd();
  }
  // Aborted means given up for a newer assignment or version. Next decides what
  // follows.
  return absl::IsAborted(status) ? absl::OkStatus() : status;
}

absl::Status Trainer::ComputeFewer(const absl::Status& reason) {
  const int threads = setup_->threads();
  // A device that has failed computes nothing more.
  for (int thread = 0; thread < std::max(threads / 2, 1); ++thread) {
    if (setup_->device(thread)->Synchronize().ok()) continue;
    return absl::ResourceExhaustedError(absl::StrCat(
        reason.message(), "; increase batch.micro_batches, which is ",
        setup_->job().batch().micro_batches(),
        threads > 1 ? ", or set --threads 1" : ", or use another GPU"));
  }
  if (threads == 1) {
    return absl::ResourceExhaustedError(absl::StrCat(
        reason.message(), ": too little memory for a single micro-batch of ",
        Counted(setup_->job().batch().global() /
                    setup_->job().batch().micro_batches(),
                "sample"),
        "; increase batch.micro_batches, which is ",
        setup_->job().batch().micro_batches(),
        ", or give this worker more memory"));
  }
  setup_->KeepThreads(threads / 2);
  batches_.Reset();
  if (hooks_.warn) {
    hooks_.warn(
        absl::StrCat(reason.message(), ": computes ",
                     Counted(setup_->threads(), "micro-batch", "micro-batches"),
                     " at a time from now on instead of ", threads,
                     "; the result stays the same"));
  }
  return absl::OkStatus();
}

absl::Status Trainer::Train(const Task& task) {
  const std::unique_ptr<StepGradients> step =
      exchange_->Begin(task.version, task.items, task.rate_factor);
  ComputeThreadItems items = setup_->Distribute(task.items);
  for (int thread = 0; thread < items.threads(); ++thread) {
    DeviceSums* const sums = setup_->sums(thread);
    if (sums != nullptr) sums->Begin(items.AssignedTo(thread));
  }
  batches_.Expect(task, items);
  if (rows_ != nullptr) rows_->Begin(task);
  const auto train = setup_->traits().local_sgd ? &Trainer::TrainLocalSteps
                     : rows_ != nullptr         ? &Trainer::TrainWithRows
                                                : &Trainer::TrainMicroBatch;
  const auto work = [&](int thread, int64_t item) -> absl::Status {
    ComputeThread* const compute = threads_.thread(thread);
    const absl::Duration before = compute->MicroBatchTime();
    const double cpu = ThreadCpuSeconds();
    TRIBUTARY_RETURN_IF_ERROR((this->*train)(
        task, thread, static_cast<int>(item), &items, step.get()));
    compute->Switch(Activity::kIdle);
    threads_.times()->CountMicroBatch(compute->MicroBatchTime() - before,
                                      ThreadCpuSeconds() - cpu);
    return absl::OkStatus();
  };
  TRIBUTARY_RETURN_IF_ERROR(threads_.Run(task.version, &items, work));
  WarnOfCaptures();
  return MarkTrained(task);
}

absl::Status Trainer::MarkTrained(const Task& task) {
  TRIBUTARY_RETURN_IF_ERROR(Failpoint("W9"));
  state_->MarkDone(task);
  if (hooks_.step_done) hooks_.step_done();
  return absl::OkStatus();
}

absl::Status Trainer::ComputeParts(const Task& task) {
  // One item stands for the whole task: the runner orders it.
  ComputeThreadItems items = setup_->Distribute({task.items.front()});
  if (task.kind == Task::Kind::kEvaluate) {
    TRIBUTARY_RETURN_IF_ERROR(
        threads_.Run(task.version, &items,
                     [&](int, int64_t) { return runner_->Evaluate(task); }));
    state_->MarkDone(task);
    return absl::OkStatus();
  }
  const std::unique_ptr<StepGradients> step =
      exchange_->Begin(task.version, task.items, task.rate_factor);
  if (runner_->reads_batches()) {
    batches_.Expect(task, setup_->Distribute(task.items));
  }
  TRIBUTARY_RETURN_IF_ERROR(threads_.Run(
      task.version, &items,
      [&](int, int64_t) { return runner_->Train(task, step.get()); }));
  return MarkTrained(task);
}

absl::Status Trainer::TrainMicroBatch(const Task& task, int thread,
                                      int micro_batch,
                                      ComputeThreadItems* items,
                                      StepGradients* step) {
  ComputeThread* const compute = threads_.thread(thread);
  compute->Switch(Activity::kData);
  const std::shared_ptr<const Batch> batch =
      batches_.Take(thread, task.version, micro_batch);
  TRIBUTARY_RETURN_IF_ERROR(batch->error);
  return TrainBatch(task, thread, micro_batch, *batch,
                    /*vector_gradients=*/nullptr, items, step)
      .status();
}

absl::Status Trainer::TrainWithRows(const Task& task, int thread,
                                    int micro_batch, ComputeThreadItems* items,
                                    StepGradients* step) {
  ComputeThread* const compute = threads_.thread(thread);
  compute->Switch(Activity::kExchange);
  TRIBUTARY_ASSIGN_OR_RETURN(const std::unique_ptr<TrainingRows::Leaf> leaf,
                             rows_->Take(task, thread, micro_batch));
  std::vector<float> gradients(leaf->input.vectors.size());
  TRIBUTARY_ASSIGN_OR_RETURN(const int64_t sample_count,
                             TrainBatch(task, thread, micro_batch, leaf->input,
                                        gradients.data(), items, step));
  TRIBUTARY_RETURN_IF_ERROR(
      rows_->Ready(micro_batch, sample_count, *leaf, gradients.data()));
  rows_->RequestAhead(task);
  return absl::OkStatus();
}

absl::StatusOr<int64_t> Trainer::TrainBatch(const Task& task, int thread,
                                            int micro_batch, const Batch& batch,
                                            float* vector_gradients,
                                            ComputeThreadItems* items,
                                            StepGradients* step) {
  ComputeThread* const compute = threads_.thread(thread);
  compute->Switch(Activity::kForward);
  compute->SetDeviceBusy([&] {
    items->Started(thread);
    if (!setup_->queues_micro_batches() && rows_ == nullptr) {
      batches_.PrefetchNext(task, thread, items);
    }
  });
  DeviceArenas* const device = setup_->arenas(thread);
  const TaskWeights weights(task, state_, *exchange_, device, compute);
  LeafGradients gradients(micro_batch, SampleCountOf(batch), exchange_, step,
                          device, setup_->sums(thread));
  gradients.SetVectorGradients(vector_gradients);
  absl::Status status = [&]() -> absl::Status {
    TRIBUTARY_ASSIGN_OR_RETURN(const LossSums loss,
                               setup_->model(thread)->ForwardBackward(
                                   batch, setup_->job().seed(), task.version,
                                   micro_batch, weights, &gradients, compute));
    TRIBUTARY_RETURN_IF_ERROR(Failpoint("W6"));
    return gradients.Finish(LossSumOf(loss));
  }();
  // From here on other owners may use these arenas, so all copies must be
  // complete.
  if (device != nullptr) status.Update(device->Synchronize());
  TRIBUTARY_RETURN_IF_ERROR(status);
  return gradients.sample_count();
}

absl::Status Trainer::TrainLocalSteps(const Task& task, int thread,
                                      int micro_batch,
                                      ComputeThreadItems* items,
                                      StepGradients* round) {
  ComputeThread* const compute = threads_.thread(thread);
  compute->Switch(Activity::kExchange);
  // Waits once for the whole round: starting early with the first layers gains
  // little.
  if (!state_->AwaitWeights(task, 0, setup_->layout().arena_elements())) {
    return absl::AbortedError("the task was given up");
  }
  LocalSgd* const local_sgd = setup_->local_sgd(thread);
  local_sgd->Begin(state_->Weights(task.version),
                   setup_->rounds().StepsAfter(task.version));
  const int64_t end = setup_->rounds().StepsAfter(task.version + 1);
  const Buffer arena = exchange_->TakeArena();
  compute->SetDeviceBusy([&] {
    const int64_t next = local_sgd->step() + 1;
    if (next < end) {
      batches_.Prefetch(thread, next, micro_batch);
    } else {
      batches_.PrefetchNext(task, thread, items);
    }
  });
  LossSum loss_sum;
  while (local_sgd->step() < end) {
    const int64_t step = local_sgd->step();
    compute->Switch(Activity::kData);
    if (step + 1 < end) batches_.Expect(step + 1, micro_batch);
    const std::shared_ptr<const Batch> batch =
        batches_.Take(thread, step, micro_batch);
    TRIBUTARY_RETURN_IF_ERROR(batch->error);
    compute->Switch(Activity::kForward);
    TRIBUTARY_ASSIGN_OR_RETURN(
        const LossSum loss,
        LocalStep(task, *batch, thread, micro_batch, arena.get(), compute));
    loss_sum += loss;
  }
  local_sgd->OuterGradient(arena.get());
  // The exchange relies on the order of backward.
  for (int chunk = setup_->layout().chunk_count() - 1; chunk >= 0; --chunk) {
    round->Ready({round->NodeOf(micro_batch), chunk, arena,
                  local_sgd->total_sample_count(),
                  chunk == 0 ? loss_sum : LossSum()});
  }
  return absl::OkStatus();
}

absl::StatusOr<LossSum> Trainer::LocalStep(const Task& task, const Batch& batch,
                                           int thread, int micro_batch,
                                           float* arena,
                                           StepObserver* observer) {
  LocalSgd* const local_sgd = setup_->local_sgd(thread);
  // Local SGD keeps its weights on the host.
  DeviceArenas* const device = setup_->arenas(thread);
  if (device != nullptr) device->LoadAll(local_sgd->weights());
  const LocalWeights weights(
      device == nullptr ? local_sgd->weights() : device->weights(), task,
      *state_);
  GradientSink gradients(device == nullptr ? arena : device->gradients(),
                         SampleCountOf(batch));
  const absl::StatusOr<LossSums> loss = setup_->model(thread)->ForwardBackward(
      batch, setup_->job().seed(), local_sgd->step(), micro_batch, weights,
      &gradients, observer);
  if (device != nullptr) {
    device->Save(/*first=*/0, setup_->layout().chunk_count(), gradients.data(),
                 arena);
    TRIBUTARY_RETURN_IF_ERROR(device->Synchronize());
  }
  TRIBUTARY_RETURN_IF_ERROR(loss.status());
  local_sgd->Step(arena, gradients.sample_count());
  return LossSumOf(*loss);
}

void Trainer::WarnOfCaptures() {
  for (int thread = 0; thread < setup_->threads(); ++thread) {
    const absl::Status status = setup_->model(thread)->capture_status();
    if (status.ok() || warned_of_captures_) continue;
    warned_of_captures_ = true;
    if (!hooks_.warn) continue;
    hooks_.warn(
        absl::StrCat(status.message(),
                     ": queues operations one by one from now on instead "
                     "of launching CUDA graphs; the result stays the same"));
  }
}

Heartbeat Trainer::Progress() const {
  Heartbeat heartbeat = threads_.times().Progress();
  heartbeat.mutable_statistics()->set_threads(setup_->threads());
  return heartbeat;
}

}  // namespace tributary
