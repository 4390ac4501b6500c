#include "worker/training/trainer.h"

#include <algorithm>
#include <memory>
#include <new>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "common/base/failpoint.h"
#include "common/base/monotonic_clock.h"
#include "common/base/status_macros.h"
#include "common/text/counted.h"
#include "worker/exchange/norm_gate.h"
#include "worker/training/local_step_observer.h"
#include "worker/training/micro_batch_observer.h"

namespace tributary {
namespace {

// Returns the number of threads that read ahead. For most data one suffices:
// reading is far faster than computing, and more would take cores from the
// compute threads. Decoding pictures takes longer, so each compute thread gets
// a thread that decodes.
int ReadThreads(const TrainingSetup& setup) {
  return setup.job().data().has_images() ? setup.threads() : 1;
}

// Returns the number of samples (tokens): that of the targets, one kind of
// which is empty, without labels -1, or that of the indexes if the batch has no
// targets.
int64_t SampleCountOf(const Batch& batch) {
  if (!batch.labels.empty()) {
    return std::count_if(batch.labels.begin(), batch.labels.end(),
                         [](int32_t label) { return label >= 0; });
  }
  return static_cast<int64_t>(batch.values.empty() ? batch.indexes.size()
                                                   : batch.values.size());
}

// Returns the inputs, one kind of which is empty.
absl::string_view InputBytes(const Batch& batch) {
  if (batch.tokens.empty()) {
    return {reinterpret_cast<const char*>(batch.features.data()),
            batch.features.size() * sizeof(float)};
  }
  return {reinterpret_cast<const char*>(batch.tokens.data()),
          batch.tokens.size() * sizeof(int32_t)};
}

// Returns the time that determines how many micro-batches the worker can
// compute.
absl::Duration MicroBatchTime(const TimeSpent& spent) {
  return spent[Activity::kData] + spent[Activity::kForward] +
         spent[Activity::kBackward];
}

// Runs work() and converts std::bad_alloc to ResourceExhausted.
template <typename Work>
absl::Status Guarded(const Work& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("out of host memory");
  }
}

}  // namespace

Trainer::Trainer(TrainingSetup* setup, WorkState* state, Exchange* exchange,
                 Hooks hooks)
    : setup_(setup),
      state_(state),
      exchange_(exchange),
      hooks_(std::move(hooks)),
      read_ahead_(
          &setup->data(), &setup->sampler(), ReadThreads(*setup),
          /*depth=*/2 * static_cast<int>(setup->job().batch().micro_batches())),
      threads_(setup->threads() - 1),
      times_(&setup->rounds(), hooks_.clock, setup->threads()),
      prefetched_(setup->threads()) {
  for (int thread = 0; thread < setup->threads(); ++thread) {
    if (exchange->device() != nullptr) setup->arenas(thread)->UseDeviceArenas();
  }
  BeginTrace();
}

absl::Status Trainer::Run() {
  while (true) {
    const absl::Time start = hooks_.clock();
    TRIBUTARY_RETURN_IF_ERROR(Failpoint("W11"));
    const absl::Time asked = traces_.empty() ? absl::Time() : MonotonicNow();
    const Task task = state_->Next();
    const bool works =
        task.kind == Task::Kind::kTrain || task.kind == Task::Kind::kEvaluate;
    if (works && !traces_.empty()) traces_[0]->Waited(task.version, asked);
    switch (task.kind) {
      case Task::Kind::kInitialize:
        TRIBUTARY_RETURN_IF_ERROR(Initialize());
        break;
      case Task::Kind::kReportSynced: {
        PinWeights();
        TRIBUTARY_RETURN_IF_ERROR(Failpoint("W5"));
        WorkerReport report;
        report.mutable_synced()->set_version(task.version);
        hooks_.report(report);
        break;
      }
      case Task::Kind::kRequestStepLease: {
        WorkerReport report;
        report.mutable_claim();
        hooks_.report(report);
        break;
      }
      case Task::Kind::kEvaluate: {
        setup_->RenewWeightCopies();
        times_.BeginTask(task, hooks_.clock() - start);
        const absl::Status status = Evaluate(task);
        if (absl::IsResourceExhausted(status)) {
          TRIBUTARY_RETURN_IF_ERROR(ComputeFewer(status));
        } else if (!status.ok()) {
          return status;
        }
        break;
      }
      case Task::Kind::kTrain: {
        setup_->RenewWeightCopies();
        times_.BeginTask(task, hooks_.clock() - start);
        const absl::Status status = Train(task);
        if (absl::IsResourceExhausted(status)) {
          TRIBUTARY_RETURN_IF_ERROR(ComputeFewer(status));
          break;
        }
        // Aborted means given up for a newer assignment or version. Next
        // decides what follows.
        if (!status.ok() && !absl::IsAborted(status)) return status;
        break;
      }
      case Task::Kind::kFinish:
        return absl::OkStatus();
      case Task::Kind::kFail:
        return state_->status();
    }
  }
}

void Trainer::PinWeights() {
  const PinMemory pin = setup_->pin();
  if (pin == nullptr) return;
  for (const absl::Span<char> memory : state_->WeightMemory()) {
    pinned_.push_back(pin(memory.data(), memory.size()));
  }
}

absl::Status Trainer::Initialize() {
  const Buffer arena = exchange_->TakeArena();
  TRIBUTARY_RETURN_IF_ERROR(setup_->MakeInitialWeights(arena.get()));
  exchange_->PushInitial(arena);
  return absl::OkStatus();
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
  prefetched_.assign(setup_->threads(), Prefetched());
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
  const Rounds& rounds = setup_->rounds();
  const auto push = [this, &task](NodeChunk sum) {
    sum.base_version = state_->BaseVersion(sum.chunk);
    exchange_->Push(task.version, std::move(sum));
  };
  const bool hold_for_norm = setup_->traits().contributions_await_norm;
  const WireDtype dtype = setup_->job().exchange().wire_dtype();
  NormGate norm_gate(&setup_->layout(), dtype, push);
  SubtreeReducer reducer(
      &setup_->layout(),
      static_cast<int>(setup_->job().batch().micro_batches()), dtype,
      task.items,
      [&](NodeChunk sum) {
        if (hold_for_norm) {
          norm_gate.Add(std::move(sum));
        } else {
          push(std::move(sum));
        }
      },
      exchange_->device());
  ComputeThreadItems items = setup_->Distribute(task.items);
  for (int thread = 0; thread < items.threads(); ++thread) {
    DeviceSums* const sums = setup_->sums(thread);
    if (sums != nullptr) sums->Begin(items.AssignedTo(thread));
  }
  for (const int64_t round : {task.version, task.next_step}) {
    if (round < 0) break;
    for (const int64_t item : items.InOrder()) {
      const int micro_batch = static_cast<int>(item);
      const int64_t step = rounds.StepsAfter(round);
      if (!IsPrefetched(step, micro_batch)) {
        read_ahead_.Expect(step, micro_batch);
      }
    }
  }
  TRIBUTARY_RETURN_IF_ERROR(RunOnThreads(
      &items, [&](int thread, int64_t micro_batch) -> absl::Status {
        return setup_->local_sgd(thread) == nullptr
                   ? TrainMicroBatch(task, thread,
                                     static_cast<int>(micro_batch), &items,
                                     &reducer)
                   : TrainLocalSteps(task, thread,
                                     static_cast<int>(micro_batch), &items,
                                     &reducer);
      }));
  WarnOfCaptures();
  TRIBUTARY_RETURN_IF_ERROR(Failpoint("W9"));
  state_->MarkDone(task);
  if (hooks_.step_done) hooks_.step_done();
  return absl::OkStatus();
}

std::shared_ptr<const Batch> Trainer::TakeBatch(int thread, int64_t step,
                                                int micro_batch) {
  const Prefetched there = std::exchange(prefetched_[thread], Prefetched());
  const bool is_there = there.batch != nullptr && there.step == step &&
                        there.micro_batch == micro_batch;
  std::shared_ptr<const Batch> batch =
      is_there ? there.batch : read_ahead_.Take(step, micro_batch);
  SampleLedgerEntry(step, micro_batch, batch->samples, InputBytes(*batch));
  return batch;
}

void Trainer::Prefetch(int thread, int64_t step, int micro_batch) {
  std::shared_ptr<const Batch> batch = read_ahead_.TryTake(step, micro_batch);
  if (batch == nullptr) return;
  setup_->model(thread)->Prefetch(batch);
  prefetched_[thread] = {step, micro_batch, std::move(batch)};
}

void Trainer::PrefetchNext(const Task& task, int thread,
                           ComputeThreadItems* items) {
  const Rounds& rounds = setup_->rounds();
  if (const std::optional<int64_t> next = items->Peek(thread)) {
    Prefetch(thread, rounds.StepsAfter(task.version), static_cast<int>(*next));
  } else if (task.next_step >= 0) {
    // Assignments seldom change.
    Prefetch(thread, rounds.StepsAfter(task.next_step),
             static_cast<int>(items->First(thread)));
  }
}

bool Trainer::IsPrefetched(int64_t step, int micro_batch) const {
  return std::any_of(prefetched_.begin(), prefetched_.end(),
                     [&](const Prefetched& there) {
                       return there.batch != nullptr && there.step == step &&
                              there.micro_batch == micro_batch;
                     });
}

absl::Status Trainer::TrainMicroBatch(const Task& task, int thread,
                                      int micro_batch,
                                      ComputeThreadItems* items,
                                      SubtreeReducer* reducer) {
  ComputeThreadTimer* const timer = times_.timer(thread);
  ComputeTrace* const trace = TraceOf(thread);
  if (trace != nullptr) trace->Begin(task.version, micro_batch);
  const absl::Duration before = MicroBatchTime(timer->spent());
  timer->Switch(Activity::kData);
  const std::shared_ptr<const Batch> batch =
      TakeBatch(thread, task.version, micro_batch);
  TRIBUTARY_RETURN_IF_ERROR(batch->error);
  timer->Switch(Activity::kForward);
  DeviceArenas* const device = setup_->arenas(thread);
  DeviceSums* const sums = setup_->sums(thread);
  if (sums != nullptr) {
    sums->BeginMicroBatch(micro_batch, SampleCountOf(*batch),
                          device->gradients());
  }
  MicroBatchObserver::MicroBatch work;
  work.task = &task;
  work.number = micro_batch;
  work.sample_count = SampleCountOf(*batch);
  work.device = device;
  work.sums = sums;
  if (trace != nullptr) work.layers = trace->layers();
  work.device_busy = [&] {
    items->Started(thread);
    if (!setup_->queues_micro_batches()) PrefetchNext(task, thread, items);
  };
  TakeArena(task, &work);
  const Buffer gradients = work.arena;
  MicroBatchObserver observer(work, &setup_->layout(), state_, reducer, timer);
  absl::Status status = [&]() -> absl::Status {
    TRIBUTARY_ASSIGN_OR_RETURN(
        const LossSums loss,
        setup_->model(thread)->ForwardBackward(
            *batch, setup_->job().seed(), task.version, micro_batch,
            observer.weights(),
            device == nullptr ? gradients.get() : device->gradients(),
            &observer));
    TRIBUTARY_RETURN_IF_ERROR(Failpoint("W6"));
    return observer.Finish(loss.loss);
  }();
  // From here on other owners may use these arenas, so all copies must be
  // complete.
  if (device != nullptr) status.Update(device->Synchronize());
  TRIBUTARY_RETURN_IF_ERROR(status);
  timer->Switch(Activity::kIdle);
  times_.CountMicroBatch(MicroBatchTime(timer->spent()) - before);
  return absl::OkStatus();
}

void Trainer::TakeArena(const Task& task,
                        MicroBatchObserver::MicroBatch* work) {
  if (work->sums == nullptr) {
    work->arena = exchange_->TakeArena();
    return;
  }
  work->on_device = exchange_->on_device();
  work->device_weights = exchange_->DeviceWeights(task.version);
  work->reads_in_place =
      work->device_weights != nullptr && exchange_->DeviceWeightsAreLocal();
  if (!work->sums->complete()) return;
  work->arena = exchange_->TakeDeviceArena();
  if (work->arena != nullptr) work->memory = DeviceArenas::Memory::kDevice;
  if (work->arena == nullptr) work->arena = exchange_->TakeArena();
}

absl::Status Trainer::TrainLocalSteps(const Task& task, int thread,
                                      int micro_batch,
                                      ComputeThreadItems* items,
                                      SubtreeReducer* reducer) {
  ComputeThreadTimer* const timer = times_.timer(thread);
  ComputeTrace* const trace = TraceOf(thread);
  if (trace != nullptr) trace->Begin(task.version, micro_batch);
  const absl::Duration before = MicroBatchTime(timer->spent());
  timer->Switch(Activity::kExchange);
  // Waits once for the whole round: starting early with the first layers gains
  // little.
  if (!state_->AwaitWeights(task, 0, setup_->layout().arena_elements())) {
    return absl::AbortedError("the task was given up");
  }
  LocalSgd* const local_sgd = setup_->local_sgd(thread);
  local_sgd->Begin(state_->Weights(task.version),
                   setup_->rounds().StepsAfter(task.version));
  const int64_t end = setup_->rounds().StepsAfter(task.version + 1);
  const Buffer gradients = exchange_->TakeArena();
  LayerObserver* const layers = trace == nullptr ? nullptr : trace->layers();
  LocalStepObserver observer(state_, &task, timer, layers, [&] {
    const int64_t next = local_sgd->step() + 1;
    if (next < end) {
      Prefetch(thread, next, micro_batch);
    } else {
      PrefetchNext(task, thread, items);
    }
  });
  double loss_sum = 0;
  while (local_sgd->step() < end) {
    const int64_t step = local_sgd->step();
    timer->Switch(Activity::kData);
    if (step + 1 < end) read_ahead_.Expect(step + 1, micro_batch);
    const std::shared_ptr<const Batch> batch =
        TakeBatch(thread, step, micro_batch);
    TRIBUTARY_RETURN_IF_ERROR(batch->error);
    timer->Switch(Activity::kForward);
    observer.SetSampleCount(SampleCountOf(*batch));
    TRIBUTARY_ASSIGN_OR_RETURN(
        const LossSums loss,
        LocalStep(*batch, thread, micro_batch, gradients.get(), &observer));
    loss_sum += loss.loss;
    local_sgd->Step(gradients.get(), observer.sample_count());
  }
  local_sgd->OuterGradient(gradients.get());
  // The exchange relies on the order of backward.
  for (int chunk = setup_->layout().chunk_count() - 1; chunk >= 0; --chunk) {
    reducer->ChunkReady(micro_batch, chunk, gradients,
                        local_sgd->total_sample_count(),
                        chunk == 0 ? loss_sum : 0);
  }
  timer->Switch(Activity::kIdle);
  times_.CountMicroBatch(MicroBatchTime(timer->spent()) - before);
  return absl::OkStatus();
}

absl::StatusOr<LossSums> Trainer::LocalStep(const Batch& batch, int thread,
                                            int micro_batch, float* gradients,
                                            StepObserver* observer) {
  const LocalSgd& local_sgd = *setup_->local_sgd(thread);
  Model* const model = setup_->model(thread);
  const uint64_t seed = setup_->job().seed();
  DeviceArenas* const device = setup_->arenas(thread);
  if (device == nullptr) {
    return model->ForwardBackward(batch, seed, local_sgd.step(), micro_batch,
                                  local_sgd.weights(), gradients, observer);
  }
  // Local SGD keeps its weights on the host.
  device->LoadAll(local_sgd.weights());
  absl::StatusOr<LossSums> loss =
      model->ForwardBackward(batch, seed, local_sgd.step(), micro_batch,
                             device->weights(), device->gradients(), observer);
  device->Save(/*first=*/0, setup_->layout().chunk_count(), device->gradients(),
               gradients);
  TRIBUTARY_RETURN_IF_ERROR(device->Synchronize());
  return loss;
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

absl::Status Trainer::RunOnThreads(
    ComputeThreadItems* items,
    const std::function<absl::Status(int thread, int64_t item)>& work) {
  absl::Mutex mu;
  absl::Status first;
  const int threads = items->threads();
  const absl::Time start = hooks_.clock();
  const auto run = [&](int thread) {
    while (const std::optional<int64_t> item = items->Take(thread)) {
      const absl::Status status = Guarded([&] { return work(thread, *item); });
      if (status.ok()) continue;
      absl::MutexLock lock(&mu);
      if (first.ok()) first = status;
      break;
    }
    items->Started(thread);
    times_.timer(thread)->Switch(Activity::kIdle);
    if (ComputeTrace* const trace = TraceOf(thread)) trace->End();
  };
  int running = std::max(threads - 1, 0);  // On other threads.
  for (int thread = 1; thread < threads; ++thread) {
    threads_.Run([&, thread] {
      run(thread);
      absl::MutexLock lock(&mu);
      --running;
    });
  }
  // This thread is compute thread 0, which saves waking another one.
  if (threads > 0) run(0);
  const auto done = [&running] { return running == 0; };
  {
    absl::MutexLock lock(&mu);
    Await(&mu, absl::Condition(&done));
  }
  times_.EndTask(hooks_.clock() - start);
  return first;
}

Heartbeat Trainer::Progress() const {
  Heartbeat heartbeat = times_.Progress();
  heartbeat.mutable_statistics()->set_threads(setup_->threads());
  return heartbeat;
}

}  // namespace tributary
