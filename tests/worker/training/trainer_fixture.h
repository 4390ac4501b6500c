// A trainer with a small model. The fixture plays the servers and the
// coordinator: it reacts to what the trainer sends.
#ifndef TRIBUTARY_TESTS_WORKER_TRAINING_TRAINER_FIXTURE_H_
#define TRIBUTARY_TESTS_WORKER_TRAINING_TRAINER_FIXTURE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/base/buffer_pool.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "proto/rendezvous.pb.h"
#include "worker/exchange/exchange.h"
#include "worker/state/work_state.h"
#include "worker/training/training_setup.h"

namespace tributary {

// A sum that the trainer has pushed, without its arena.
struct Pushed {
  int64_t step = 0;
  int node = 0;
  int chunk = 0;
  int64_t sample_count = 0;
  double loss_sum = 0;
  int64_t base_version = 0;
  double gradient_norm = 0;
  std::vector<float> gradient;

  bool operator==(const Pushed& other) const;
};

// Passes what the trainer sends to the functions below, on the threads of the
// trainer. Only `on_take` may be null; the other two must be set before the
// trainer calls PushInitial and Push.
class FakeExchange final : public Exchange, private GradientSender {
 public:
  FakeExchange(const JobSpec& job, const ArenaLayout* layout,
               const WeightsSink* sink)
      : Exchange(job, layout), sink_(*sink), pool_(layout->arena_elements()) {}

  std::function<void()> on_take;
  std::function<void(const float* arena)> on_initial;
  // Called for one push at a time.
  std::function<void(const Pushed&)> on_push;

  Buffer TakeArena() override;
  void PushInitial(Buffer arena) override { on_initial(arena.get()); }
  GradientSender* SenderOf(int) override { return this; }
  void Push(int64_t step, NodeChunk sum) override;
  void Finish() override {}
  void FillStatistics(ProcessStatistics*) const override {}

 private:
  const WeightsSink& sink_;
  BufferPool pool_;
  absl::Mutex pushing_;
};

// By default the job is synchronous and this worker computes all micro-batches.
// When the sums of a step cover the batch for a chunk, the chunk's next version
// arrives: the previous one times kDecay. The data are 100 rows, so that the
// seventh batch of 16 has only four.
class TrainerFixture : public ::testing::Test {
 protected:
  static constexpr int kMicroBatches = 8;
  static constexpr float kDecay = 0.75f;

  // Creates a worker of a job of `steps` steps. `fields` are changes of the job
  // in the form path=value.
  void Make(int64_t steps, const std::vector<std::string>& fields = {},
            int threads = 1);
  // Runs the trainer until the job is finished or fails, and returns its
  // status.
  absl::Status Run();

  // Assigns micro-batches [begin, end) and all evaluation pieces.
  void Assign(int begin, int end);
  // Deliver one chunk, or all chunks, of a version to the worker.
  void Deliver(int64_t version, int chunk);
  void DeliverAll(int64_t version);
  // Returns the given version of the weights.
  std::vector<float> WeightsOf(int64_t version) const;
  // Returns the number of samples of a step. The last step of an epoch has
  // fewer samples.
  static int64_t SamplesOf(int64_t step) { return step % 7 == 6 ? 4 : 16; }

  // Returns the sums of one step, by (chunk, node). Expects that each was
  // pushed once.
  std::map<std::pair<int, int>, Pushed> SumsOf(int64_t step) const;
  // Expects that the trainer has pushed the sums of exactly `nodes` for each
  // chunk of the step, with the gradients and losses that the model computes
  // from `version`.
  void ExpectSums(int64_t step, const std::set<int>& nodes,
                  int64_t version) const;

  int chunks() const { return setup_->layout().chunk_count(); }

  // Called for each report and for each push, before the fixture reacts to it.
  // May be null. Returns false to suppress the reaction.
  std::function<bool(const WorkerReport&)> on_report_;
  std::function<bool(const Pushed&)> on_push_;

  std::unique_ptr<TrainingSetup> setup_;
  std::unique_ptr<WorkState> state_;
  std::unique_ptr<FakeExchange> exchange_;
  std::vector<float> initial_;

  std::vector<WorkerReport> reports_;
  std::vector<Pushed> pushed_;
  std::vector<std::string> warnings_;
  int steps_done_ = 0;
  Heartbeat progress_;  // Result of Trainer::Progress after Run.

 private:
  void OnReport(const WorkerReport& report);
  void OnPush(const Pushed& pushed);

  int64_t generation_ = 0;
  int64_t pieces_reported_ = 0;
  std::atomic<int64_t> now_{0};
  // Number of micro-batches whose gradients have been pushed, by step and
  // chunk.
  std::map<std::pair<int64_t, int>, int> covered_;
  absl::Mutex reporting_;
};

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_WORKER_TRAINING_TRAINER_FIXTURE_H_
