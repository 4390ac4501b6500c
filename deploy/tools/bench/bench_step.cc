#include "deploy/tools/bench/bench_step.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/time/clock.h"
#include "common/base/buffer_pool.h"
#include "common/base/status_macros.h"
#include "common/base/thread_pool.h"
#include "common/job/job.h"
#include "common/numerics/vector_ops.h"
#include "common/optimizer/optimizer.h"
#include "common/os/process.h"
#include "deploy/tools/bench/bench_processes.h"
#include "deploy/tools/bench/bench_run.h"
#include "nlohmann/json.hpp"
#include "worker/device/cuda/cuda_reduction_stream.h"
#include "worker/device/factory/device_factory.h"
#include "worker/sparse/initial_vectors.h"
#include "worker/training/training_setup.h"

namespace tributary {
namespace {

constexpr int64_t kUntimedSteps = 3;
constexpr int64_t kMinTimedSteps = 5;

DeviceMaker MakerOf(const DeviceName& device) {
  return
      [device](Precision precision) { return CreateDevice(device, precision); };
}

double Median(std::vector<double> values) {
  const auto middle = values.begin() + values.size() / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Trains without an exchange: the optimizer runs in this process.
class SingleTrainer {
 public:
  SingleTrainer(const TrainingSetup* setup,
                std::unique_ptr<Optimizer> optimizer)
      : setup_(*setup),
        optimizer_(std::move(optimizer)),
        arenas_(setup->layout().arena_elements()),
        threads_(setup->threads()) {
    const int64_t bytes =
        setup_.layout().arena_elements() * int64_t{sizeof(float)};
    for (Buffer& weights : weights_) {
      weights = arenas_.Take();
      std::memset(weights.get(), 0, bytes);
    }
    for (int i = 0; i < optimizer_->slots(); ++i) {
      slots_.push_back(arenas_.Take());
      std::memset(slots_.back().get(), 0, bytes);
    }
    for (int thread = 0; thread < setup_.threads(); ++thread) {
      gradients_.push_back(arenas_.Take());
      batches_.emplace_back();
      setup_.data().ReadTrain(
          /*epoch=*/0,
          setup_.sampler().MicroBatchOf(/*step=*/0, thread).indexes,
          &batches_.back());
      // Step returns its error.
      SetInitialVectors(setup_.job(), &batches_.back()).IgnoreError();
    }
    for (int chunk = 0; chunk < setup_.layout().chunk_count(); ++chunk) {
      segments_.push_back(setup_.layout().ChunkSegments(chunk));
    }
    setup_.model(0)->Initialize(/*seed=*/1, setup_.layout(), weights_[0].get());
    for (int thread = 0; thread < setup_.threads() && on_device(); ++thread) {
      setup_.arenas(thread)->LoadAll(weights_[0].get());
      // Step returns its error.
      setup_.arenas(thread)->Synchronize().IgnoreError();
    }
  }

  // Lets the GPU of the setup, which has all its arenas, run the optimizer.
  absl::Status UpdateOnGpu() {
    ReductionStream::Plan plan;
    plan.layout = &setup_.layout();
    plan.chunks.resize(setup_.layout().chunk_count());
    std::iota(plan.chunks.begin(), plan.chunks.end(), 0);
    plan.slots = optimizer_->slots();
    TRIBUTARY_ASSIGN_OR_RETURN(
        stream_,
        CreateCudaReductionStream(setup_.device(/*thread=*/0)->bus_id(), plan));
    return absl::OkStatus();
  }

  absl::Status Step() {
    for (const Batch& batch : batches_) TRIBUTARY_RETURN_IF_ERROR(batch.error);
    setup_.RenewWeightCopies();
    TRIBUTARY_RETURN_IF_ERROR(setup_.threads() == 1 && !on_device()
                                  ? StepInOneThread()
                                  : StepInThreads());
    ++step_;
    return absl::OkStatus();
  }

 private:
  // Updates every chunk as soon as its gradient is final.
  class Updater final : public GradientSink {
   public:
    explicit Updater(SingleTrainer* trainer)
        : GradientSink(trainer->gradients_[0].get()),
          trainer_(trainer),
          next_(trainer->setup_.layout().chunk_count() - 1) {}
    void Ready(int64_t begin) override {
      while (next_ >= 0 &&
             trainer_->setup_.layout().ChunkBegin(next_) >= begin) {
        trainer_->Update(next_--);
      }
    }

   private:
    SingleTrainer* const trainer_;
    int next_;
  };

  absl::Status StepInOneThread() {
    Updater updater(this);
    return setup_.model(0)
        ->ForwardBackward(batches_[0], /*seed=*/1, step_, /*micro_batch=*/0,
                          weights_[step_ % 2].get(), &updater,
                          /*observer=*/nullptr)
        .status();
  }

  absl::Status StepInThreads() {
    std::vector<absl::Status> statuses(setup_.threads());
    absl::BlockingCounter running(setup_.threads());
    for (int thread = 0; thread < setup_.threads(); ++thread) {
      threads_.Run([&, thread] {
        DeviceArenas* const device = setup_.arenas(thread);
        GradientSink gradients(on_device() ? device->gradients()
                                           : gradients_[thread].get());
        statuses[thread] =
            setup_.model(thread)
                ->ForwardBackward(
                    batches_[thread], /*seed=*/1, step_, thread,
                    on_device() ? device->weights() : weights_[step_ % 2].get(),
                    &gradients, /*observer=*/nullptr)
                .status();
        if (on_device()) statuses[thread].Update(device->Synchronize());
        running.DecrementCount();
      });
    }
    running.Wait();
    for (const absl::Status& status : statuses) {
      TRIBUTARY_RETURN_IF_ERROR(status);
    }
    if (on_device()) return UpdateOnDevice();
    const int chunks = setup_.layout().chunk_count();
    absl::BlockingCounter updating(chunks);
    for (int chunk = 0; chunk < chunks; ++chunk) {
      threads_.Run([&, chunk] {
        for (int thread = 1; thread < setup_.threads(); ++thread) {
          AddInto(At(gradients_[thread], chunk), At(gradients_[0], chunk),
                  setup_.layout().ChunkSize(chunk));
        }
        Update(chunk);
        updating.DecrementCount();
      });
    }
    updating.Wait();
    return absl::OkStatus();
  }

  float* At(const Buffer& arena, int chunk) const {
    return arena.get() + setup_.layout().ChunkBegin(chunk);
  }

  UpdateStep NumbersOfStep() const {
    UpdateStep step;
    step.gradient_scale = 1.f / static_cast<float>(sample_count());
    step.statistics_scale =
        static_cast<float>(kStatisticsRate) * step.gradient_scale;
    step.learning_rate = 1e-3;
    step.number = step_;
    return step;
  }

  // Updates the first thread's weights with the sum of all gradients, and
  // copies them to the other threads.
  absl::Status UpdateOnDevice() {
    const ArenaLayout& layout = setup_.layout();
    float* const sum = setup_.arenas(/*thread=*/0)->gradients();
    float* const weights = setup_.arenas(/*thread=*/0)->weights();
    for (int thread = 1; thread < setup_.threads(); ++thread) {
      stream_->Add(setup_.arenas(thread)->gradients(), layout.arena_elements(),
                   sum);
    }
    std::vector<ReductionStream::UpdateArrays> updates;
    for (int chunk = 0; chunk < layout.chunk_count(); ++chunk) {
      const int64_t begin = layout.ChunkBegin(chunk);
      updates.push_back({chunk, sum + begin, weights + begin, weights + begin});
    }
    stream_->Update(optimizer_->At(NumbersOfStep()), updates);
    for (int thread = 1; thread < setup_.threads(); ++thread) {
      stream_->Copy(weights, layout.arena_elements(),
                    setup_.arenas(thread)->weights());
    }
    return stream_->Synchronize();
  }

  void Update(int chunk) {
    std::vector<float*> slots;
    for (const Buffer& slot : slots_) slots.push_back(At(slot, chunk));
    UpdateArguments update;
    update.gradient_sum = At(gradients_[0], chunk);
    update.weights = At(weights_[step_ % 2], chunk);
    update.new_weights = At(weights_[(step_ + 1) % 2], chunk);
    update.slots = slots;
    update.segments = segments_[chunk];
    optimizer_->At(NumbersOfStep()).Update(update);
  }

  bool on_device() const { return setup_.arenas(/*thread=*/0) != nullptr; }

  int64_t sample_count() const {
    return setup_.threads() * static_cast<int64_t>(batches_[0].labels.size());
  }

  const TrainingSetup& setup_;
  const std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<ReductionStream> stream_;  // Null on the CPU.
  BufferPool arenas_;
  ThreadPool threads_;
  Buffer weights_[2];
  std::vector<Buffer> slots_;
  std::vector<Buffer> gradients_;  // Indexed by compute thread.
  std::vector<Batch> batches_;     // Indexed by compute thread.
  std::vector<std::vector<ChunkSegment>> segments_;
  int64_t step_ = 0;
};

}  // namespace

absl::StatusOr<StepTiming> TimeSingleStep(BenchLoad load, double seconds,
                                          const TrainingSources& sources) {
  load.workers = 1;
  TRIBUTARY_ASSIGN_OR_RETURN(const JobSpec job, BenchJob(load));
  TRIBUTARY_ASSIGN_OR_RETURN(
      const std::unique_ptr<TrainingSetup> setup,
      TrainingSetup::Create(job, load.threads, MakerOf(load.device), sources));
  TRIBUTARY_ASSIGN_OR_RETURN(std::unique_ptr<Optimizer> optimizer,
                             Optimizer::Create(job.optimizer()));
  SingleTrainer trainer(setup.get(), std::move(optimizer));
  if (load.device.kind == DeviceName::Kind::kCuda) {
    TRIBUTARY_RETURN_IF_ERROR(trainer.UpdateOnGpu());
  }
  for (int64_t i = 0; i < kUntimedSteps; ++i) {
    TRIBUTARY_RETURN_IF_ERROR(trainer.Step());
  }
  std::vector<double> milliseconds;
  const double cpu_before = CpuSeconds();
  const absl::Time end = absl::Now() + absl::Seconds(seconds);
  while (static_cast<int64_t>(milliseconds.size()) < kMinTimedSteps ||
         absl::Now() < end) {
    const absl::Time start = absl::Now();
    TRIBUTARY_RETURN_IF_ERROR(trainer.Step());
    milliseconds.push_back(absl::ToDoubleMilliseconds(absl::Now() - start));
  }
  StepTiming timing;
  timing.parameters = setup->layout().parameter_count();
  timing.batch_per_worker = job.batch().global();
  timing.steps = static_cast<int64_t>(milliseconds.size());
  timing.median_ms = Median(milliseconds);
  timing.min_ms = *std::min_element(milliseconds.begin(), milliseconds.end());
  timing.cpu_ms_per_step_per_worker =
      1e3 * (CpuSeconds() - cpu_before) / static_cast<double>(timing.steps);
  return timing;
}

absl::StatusOr<StepTiming> TimeIndependentSteps(const BenchLoad& load,
                                                double seconds,
                                                SignalQueue* signals) {
  std::vector<std::string> arguments = {
      "bench",     "step",
      load.model,  "--mode",
      "single",    "--json",
      "--seconds", absl::StrCat(seconds),
      "--threads", absl::StrCat(load.threads),
      "--batch",   absl::StrCat(load.batch_per_worker),
      "--device",  FormatDeviceName(load.device)};
  for (const std::string& set : load.sets) {
    arguments.insert(arguments.end(), {"--set", set});
  }
  TRIBUTARY_ASSIGN_OR_RETURN(
      const std::vector<nlohmann::json> printed,
      RunBenchPrograms({static_cast<size_t>(load.workers), arguments},
                       signals));
  const nlohmann::json& first = printed[0];
  StepTiming timing;
  timing.parameters = first.value("parameters", int64_t{0});
  timing.batch_per_worker = first.value("batch_per_worker", int64_t{0});
  timing.steps = first.value("steps", int64_t{0});
  timing.median_ms = first.value("median_ms", 0.0);
  timing.min_ms = first.value("min_ms", 0.0);
  timing.cpu_ms_per_step_per_worker =
      first.value("cpu_ms_per_step_per_worker", 0.0);
  return timing;
}

absl::StatusOr<StepTiming> TimeExchangeSteps(const BenchLoad& load,
                                             SignalQueue* signals,
                                             bool in_process) {
  TRIBUTARY_ASSIGN_OR_RETURN(const JobSpec job, BenchJob(load));
  JobLaunch launch;
  launch.job = job;
  launch.workers = {load.workers, load.workers};
  launch.threads = load.threads;
  launch.server_device = load.server_device;
  launch.worker_device = FormatDeviceName(load.device);
  TRIBUTARY_ASSIGN_OR_RETURN(
      const BenchRun run, RunBenchJob(std::move(launch), signals, in_process));
  const nlohmann::json step =
      run.summary.value("step_milliseconds", nlohmann::json::object());
  StepTiming timing;
  timing.parameters = run.summary.value("parameters", int64_t{0});
  timing.batch_per_worker = job.batch().global() / load.workers;
  timing.steps = step.value("count", int64_t{0});
  timing.median_ms = step.value("median", 0.0);
  timing.min_ms = step.value("min", 0.0);
  for (const nlohmann::json& process :
       run.summary.value("processes", nlohmann::json::array())) {
    if (process.value("role", "") != "worker") continue;
    timing.cpu_ms_per_step_per_worker +=
        1e3 * process.value("cpu_seconds", 0.0) /
        static_cast<double>(load.steps * load.workers);
  }
  return timing;
}

}  // namespace tributary
