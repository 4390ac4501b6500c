// Counts a worker's calls of CUDA in a step of GPT-2 with 124 million
// parameters, on an emulated GPU that does none of the work:
//
//   bazel run //tests/bench/gpu:gpu_calls            # with CUDA graphs
//   bazel run //tests/bench/gpu:gpu_calls -- kernels # without: counts each
//   kernel bazel run //tests/bench/gpu:gpu_calls -- shared  # in the server's
//   GPU's memory
//
// The numbers do not depend on the batch size. Needs 5 GB of memory, or 6 GB
// with "shared".
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "common/base/buffer_pool.h"
#include "common/base/monotonic_clock.h"
#include "deploy/tools/bench/bench_jobs.h"
#include "proto/rendezvous.pb.h"
#include "tests/worker/device/cuda/emulation/emulated_streams.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/exchange/exchange.h"
#include "worker/state/work_state.h"
#include "worker/training/trainer.h"
#include "worker/training/training_setup.h"

namespace tributary {
namespace {

constexpr int kMicroBatches = 2;
constexpr int64_t kSteps = 5;

// Answers each sum with the chunk's next version, whose values are unspecified.
class CountingExchange final : public Exchange, private GradientSender {
 public:
  // If `device` is not null, gradients and weights are in its memory.
  CountingExchange(const JobSpec& job, const ArenaLayout* layout,
                   WorkState* state, Device* device)
      : Exchange(job, layout),
        chunks_(layout->chunk_count()),
        pool_(layout->arena_elements()),
        state_(state) {
    if (device == nullptr) return;
    memory_ = *device->Allocate(static_cast<size_t>(layout->arena_elements()) *
                                sizeof(float));
  }

  void DeliverAll() {
    for (int chunk = 0; chunk < chunks_; ++chunk) Deliver(/*version=*/0, chunk);
  }
  Buffer TakeArena() override { return pool_.Take(); }
  // No work is done, so all arenas may be the same.
  Buffer TakeDeviceArena() override {
    return Buffer(static_cast<float*>(memory_.get()), [](float*) {});
  }
  MemoryView DeviceWeights(int64_t) const override {
    if (memory_ == nullptr) return MemoryView();
    return {static_cast<float*>(memory_.get()), /*owner=*/nullptr,
            MemoryPlace::kDevice};
  }
  void PushInitial(Buffer) override {}
  GradientSender* SenderOf(int) override { return this; }
  void Push(int64_t step, NodeChunk sum) override {
    Deliver(step + 1, sum.chunk);
    if (step + 1 == kSteps && sum.chunk == 0) state_->SetFinished();
  }
  void Finish() override {}
  void FillStatistics(ProcessStatistics*) const override {}

 private:
  void Deliver(int64_t version, int chunk) {
    float* to = nullptr;
    if (state_->BeginWrite(chunk, version, &to) == WorkState::Arrival::kWrite) {
      state_->EndWrite(chunk, version);
    }
  }

  const int chunks_;
  BufferPool pool_;
  WorkState* const state_;
  Device::Memory memory_{nullptr, [](void*) {}};
};

BenchLoad Load() {
  BenchLoad load;
  load.model = "gpt2";
  load.batch_per_worker = kMicroBatches;
  load.steps = kSteps;
  load.sets = {"precision=BFLOAT16",
               "batch.micro_batches=" + std::to_string(kMicroBatches)};
  return load;
}

absl::Status Count(bool shared) {
  const JobSpec job = *BenchJob(Load());
  const auto make = [](Precision precision) {
    return CreateCudaDevice(/*ordinal=*/0, precision);
  };
  const std::unique_ptr<TrainingSetup> setup =
      *TrainingSetup::Create(job, /*threads=*/1, make);
  WorkState::Options options;
  options.steps = kSteps;
  const std::unique_ptr<WorkState> state =
      WorkState::Create(job, options, &setup->layout());
  state->SetUnparked([] {});
  CountingExchange exchange(job, &setup->layout(), state.get(),
                            shared ? setup->device(/*thread=*/0) : nullptr);
  emulated_gpu::Calls before;
  Trainer::Hooks hooks;
  hooks.clock = &MonotonicNow;
  hooks.report = [&](const WorkerReport& report) {
    if (!report.has_synced()) return;
    before = emulated_gpu::CountCalls();
    Deal deal;
    deal.set_generation(1);
    deal.set_leaf_end(kMicroBatches);
    state->SetAssignment(deal);
  };
  hooks.step_done = [&, step = 0]() mutable {
    const emulated_gpu::Calls now = emulated_gpu::CountCalls();
    const emulated_gpu::Calls calls = now - before;
    std::printf(
        "step %d: %d copies to the GPU, %d to the host, %d launches, %d events "
        "recorded, %d waits of the host\n",
        step++, static_cast<int>(calls.copies_to_device),
        static_cast<int>(calls.copies_to_host),
        static_cast<int>(calls.launches), static_cast<int>(calls.events),
        static_cast<int>(calls.waits));
    before = now;
  };
  std::printf("%d chunks, %d micro-batches in each step\n",
              setup->layout().chunk_count(), kMicroBatches);
  Trainer trainer(setup.get(), state.get(), &exchange, hooks);
  exchange.DeliverAll();
  return trainer.Run();
}

}  // namespace
}  // namespace tributary

int main(int argc, char** argv) {
  emulated_gpu::SkipWork();
  const auto asks_for = [&](const char* mode) {
    return argc > 1 && std::strcmp(argv[1], mode) == 0;
  };
  emulated_gpu::RefuseCaptures(asks_for("kernels"));
  const absl::Status status = tributary::Count(asks_for("shared"));
  if (!status.ok()) std::printf("%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
