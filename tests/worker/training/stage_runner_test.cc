// Stages of a pipeline, each on a thread of its own, against the same network
// in one piece.
#include "worker/training/stage_runner.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/job/job.h"
#include "common/pipeline/pipeline_schedule.h"
#include "common/trace/trace_recorder.h"
#include "gtest/gtest.h"
#include "tests/support/tiny_jobs.h"
#include "tests/worker/training/trainer_fixture.h"
#include "worker/models/model.h"
#include "worker/models/stages/stage_model.h"
#include "worker/models/stages/stage_split.h"
#include "worker/nn/network_cuts.h"
#include "worker/state/work_state.h"
#include "worker/training/trainer.h"

namespace tributary {
namespace {

constexpr int kLeaves = 8;

// Transfers between threads. Holds at most `bound` transfers of each kind at
// each boundary, and fails the test if a worker would have to wait forever.
// With `late_parts` above 0, queues of parts of gradients hold kParts, and
// parts arrive only when their queue is full, or holds the last one of so many.
class ThreadTransfers final : public StageTransfers {
 public:
  explicit ThreadTransfers(int bound, int late_parts)
      : bound_(bound), late_parts_(late_parts) {}

  absl::Status Send(int64_t, int, const TransferKey& key,
                    const TransferScalars& scalars,
                    absl::Span<const absl::string_view> parts) override {
    Held held;
    held.scalars = scalars;
    for (const absl::string_view part : parts) {
      held.bytes.append(part.data(), part.size());
    }
    absl::MutexLock lock(&mu_);
    int& count = counts_[{key.boundary, key.kind}];
    const auto room = [&] { return count < BoundOf(key); };
    if (!mu_.AwaitWithTimeout(absl::Condition(&room), absl::Minutes(1))) {
      return absl::DeadlineExceededError("nobody receives");
    }
    ++count;
    ++sent_[{key.boundary, key.kind}];
    EXPECT_TRUE(held_.emplace(key, std::move(held)).second)
        << DescribeTransfer(key);
    return absl::OkStatus();
  }

  void EndStep(int64_t, int64_t) override {}

  absl::StatusOr<ReceivedTransfer> Receive(int64_t, int,
                                           const TransferKey& key) override {
    absl::MutexLock lock(&mu_);
    const std::pair route(key.boundary, key.kind);
    const auto there = [&] {
      return held_.count(key) > 0 &&
             (late_parts_ == 0 || key.kind != StageTransfer::WEIGHT_GRADIENT ||
              counts_[route] == BoundOf(key) || sent_[route] == late_parts_);
    };
    if (!mu_.AwaitWithTimeout(absl::Condition(&there), absl::Minutes(1))) {
      return absl::DeadlineExceededError(DescribeTransfer(key));
    }
    const auto found = held_.find(key);
    const auto owner = std::make_shared<Held>(std::move(found->second));
    held_.erase(found);
    --counts_[route];
    return ReceivedTransfer{owner->scalars, owner->bytes.data(),
                            static_cast<int64_t>(owner->bytes.size()), owner};
  }

 private:
  struct Held {
    TransferScalars scalars;
    std::string bytes;
  };
  // As many as PipelinePart plans for three stages.
  static constexpr int kParts = 4;

  int BoundOf(const TransferKey& key) const {
    const bool part = key.kind == StageTransfer::WEIGHT_GRADIENT;
    return part && late_parts_ > 0 ? kParts : bound_;
  }

  const int bound_;
  const int late_parts_;
  absl::Mutex mu_;
  std::map<TransferKey, Held> held_;
  // By boundary and kind: those that are held, and all.
  std::map<std::pair<int32_t, StageTransfer::Kind>, int> counts_;
  std::map<std::pair<int32_t, StageTransfer::Kind>, int> sent_;
};

using Sums = std::map<std::pair<int, int>, Pushed>;  // By chunk and node.

// A worker with the weights of version 0, whose exchange records what it sends.
class RecordingWorker {
 public:
  RecordingWorker(const JobSpec& job, int64_t step) {
    setup_ = *TrainingSetup::Create(job, /*threads=*/1);
    const ArenaLayout& layout = setup_->layout();
    state_ =
        WorkState::Create(job, {setup_->rounds().count(), true, 0}, &layout);
    exchange_ = std::make_unique<FakeExchange>(job, &layout, state_.get());
    exchange_->on_push = [this](const Pushed& pushed) {
      EXPECT_TRUE(
          sums_.emplace(std::pair(pushed.chunk, pushed.node), pushed).second);
    };
    std::vector<float> weights(layout.arena_elements());
    setup_->model(0)->Initialize(job.seed(), layout, weights.data());
    for (int chunk = 0; chunk < layout.chunk_count(); ++chunk) {
      float* to = nullptr;
      EXPECT_EQ(state_->BeginWrite(chunk, step, &to),
                WorkState::Arrival::kWrite);
      std::copy_n(weights.begin() + layout.ChunkBegin(chunk),
                  layout.ChunkSize(chunk), to);
      state_->EndWrite(chunk, step);
    }
    task_.kind = Task::Kind::kTrain;
    task_.version = step;
  }

  const TrainingSetup& setup() const { return *setup_; }
  const Sums& sums() const { return sums_; }
  const std::vector<WorkerReport>& reports() const { return reports_; }
  TraceRecords TakeTrace() {
    return *recorder_.Take(ClockOffset::OfCoordinator(),
                           TraceRecorder::kCapacity, /*last=*/true);
  }

  // Computes leaves [begin, end), in stages unless `stages` is null. Then
  // evaluates all pieces.
  absl::Status Compute(int begin, int end, const StagePart* stages) {
    task_.items.clear();
    for (int leaf = begin; leaf < end; ++leaf) task_.items.push_back(leaf);
    TrainingBatches batches(setup_.get());
    ComputeThreadTimer timer(&absl::Now);
    ComputeThread compute(0, &timer, &recorder_, {});
    StageRunner::Options options;
    options.part = *stages;
    options.setup = setup_.get();
    options.batches = &batches;
    options.state = state_.get();
    options.exchange = exchange_.get();
    options.compute = &compute;
    options.report = [this](const WorkerReport& report) {
      reports_.push_back(report);
    };
    StageRunner runner(std::move(options));
    ComputeThreadItems items = setup_->Distribute(task_.items);
    if (runner.reads_batches()) batches.Expect(task_, items);
    const std::unique_ptr<StepGradients> step =
        exchange_->Begin(task_.version, task_.items);
    absl::Status status = runner.Train(task_, step.get());
    if (!status.ok()) return status;
    Task evaluation = task_;
    evaluation.kind = Task::Kind::kEvaluate;
    evaluation.items.clear();
    for (int i = 0; i < setup_->facts().evaluation_pieces(); ++i) {
      evaluation.items.push_back(i);
    }
    return runner.Evaluate(evaluation);
  }

 private:
  std::unique_ptr<TrainingSetup> setup_;
  std::unique_ptr<WorkState> state_;
  std::unique_ptr<FakeExchange> exchange_;
  Task task_;
  Sums sums_;
  std::vector<WorkerReport> reports_;
  TraceRecorder recorder_{TracedSteps{0, 100}};
};

// The micro-batches of a worker's training spans, by name and track.
using TracedItems =
    std::map<std::pair<std::string, std::string>, std::set<int>>;

TracedItems ItemsOf(const TraceRecords& trace) {
  TracedItems items;
  for (const TraceRecords::Record& record : trace.record()) {
    items[{trace.name(record.name()), trace.track(record.track())}].insert(
        record.micro_batch());
  }
  return items;
}

struct Case {
  const char* family;
  int stages;
  PipelineSchedule schedule;
  bool recompute;
  int64_t step;         // Step 6 is a short batch, with empty micro-batches.
  int inner_steps = 0;  // Above 0: mode local_steps, and `step` is a round.
};

class StageRunnerTest : public testing::TestWithParam<Case> {
 protected:
  static JobSpec Job(const Case& c) {
    JobSpec job = TinyJob(c.family, testing::TempDir());
    if (c.inner_steps > 0) {
      job.clear_clip_norm();
      job.mutable_exchange()
          ->mutable_parameter_server()
          ->mutable_consistency()
          ->mutable_local_steps()
          ->set_inner_steps(c.inner_steps);
    }
    return ResolveJob(job);
  }

  static Graph BuildOf(const TrainingSetup& setup) {
    return *BuildGraph(setup.job().model(), setup.data().info());
  }

  // Spreads the cuts over the layers at which the graph may be cut.
  static std::vector<int> CutsOf(const Graph& graph, int stages) {
    std::vector<int> allowed;
    const std::vector<bool> may = AllowedCuts(graph);
    for (size_t i = 1; i < may.size(); ++i) {
      if (may[i]) allowed.push_back(static_cast<int>(i));
    }
    std::vector<int> cuts;
    for (int s = 1; s < stages; ++s) {
      cuts.push_back(allowed[s * allowed.size() / stages]);
    }
    return cuts;
  }

  // Computes leaves [begin, end) with workers that compute `stages_of` stages
  // each. Returns all sums and reports, and the workers' traces in `traces`
  // unless it is null.
  static std::pair<Sums, std::vector<WorkerReport>> Compute(
      const Case& c, const std::vector<int>& stages_of, int begin, int end,
      std::vector<TraceRecords>* traces = nullptr, bool late_parts = false) {
    const JobSpec job = Job(c);
    std::vector<std::unique_ptr<RecordingWorker>> workers;
    for (size_t i = 0; i < stages_of.size(); ++i) {
      workers.push_back(std::make_unique<RecordingWorker>(job, c.step));
    }
    const TrainingSetup& setup = workers[0]->setup();
    int stages = 0;
    for (const int count : stages_of) stages += count;
    const Graph graph = BuildOf(setup);
    const StageSplit split =
        *SplitIntoStages(graph, setup.layout(), CutsOf(graph, stages));
    ThreadTransfers transfers(/*bound=*/2, late_parts ? end - begin : 0);
    std::vector<std::unique_ptr<StageModel>> models;
    std::vector<StagePart> parts;
    int stage = 0;
    for (size_t i = 0; i < stages_of.size(); ++i) {
      StagePart part;
      const PipelinePlace place = {static_cast<int>(stages_of.size()),
                                   static_cast<int>(i)};
      part.place = [place](int64_t) { return place; };
      part.begin_stage = stage;
      stage += stages_of[i];
      part.end_stage = stage;
      part.schedule = c.schedule;
      part.split = &split;
      NetworkPart network;
      network.begin = split.stages[part.begin_stage].begin;
      network.end = split.stages[part.end_stage - 1].end;
      network.recompute = c.recompute;
      network.separate_weights = TraitsOf(c.schedule).splits_backward;
      network.in_flight = SlotsOf(place, c.schedule, end - begin);
      auto model =
          StageModel::Create(BuildOf(setup), setup.data().info(),
                             std::max<int64_t>(job.batch().global() / kLeaves,
                                               setup.piece_samples()),
                             workers[i]->setup().device(0), network);
      EXPECT_TRUE(model.ok()) << model.status();
      models.push_back(*std::move(model));
      part.model = models.back().get();
      part.transfers = &transfers;
      parts.push_back(part);
    }
    std::vector<std::thread> threads;
    std::vector<absl::Status> results(stages_of.size());
    for (size_t i = 0; i < stages_of.size(); ++i) {
      threads.emplace_back(
          [&, i] { results[i] = workers[i]->Compute(begin, end, &parts[i]); });
    }
    for (std::thread& thread : threads) thread.join();
    std::pair<Sums, std::vector<WorkerReport>> all;
    for (size_t i = 0; i < stages_of.size(); ++i) {
      EXPECT_EQ(results[i], absl::OkStatus()) << i;
      for (const auto& [place, pushed] : workers[i]->sums()) {
        EXPECT_TRUE(all.first.emplace(place, pushed).second)
            << "chunk " << place.first << " comes from two workers";
      }
      for (const WorkerReport& report : workers[i]->reports()) {
        all.second.push_back(report);
      }
      if (traces != nullptr) traces->push_back(workers[i]->TakeTrace());
    }
    return all;
  }

  static void ExpectEqual(const Sums& sums, const Sums& wanted) {
    ASSERT_EQ(sums.size(), wanted.size());
    for (const auto& [place, pushed] : wanted) {
      const auto found = sums.find(place);
      ASSERT_NE(found, sums.end())
          << "chunk " << place.first << ", node " << place.second;
      EXPECT_TRUE(found->second == pushed)
          << "chunk " << place.first << ", node " << place.second;
    }
  }
};

TEST_P(StageRunnerTest, StagesSendTheSumsAndResultsOfTheWholeNetwork) {
  const Case& c = GetParam();
  Case whole = c;
  whole.recompute = false;
  whole.schedule = PipelineSchedule::kOneForwardOneBackward;
  for (const auto& [begin, end] : {std::pair(0, kLeaves), std::pair(3, 6)}) {
    const auto wanted = Compute(whole, {1}, begin, end);
    std::vector<std::vector<int>> placements = {std::vector<int>(c.stages, 1)};
    // A worker that computes two stages.
    if (c.stages > 2) {
      placements.emplace_back(c.stages - 1, 1);
      placements.back()[c.stages % 2] = 2;
    }
    for (const std::vector<int>& stages_of : placements) {
      const auto got = Compute(c, stages_of, begin, end);
      ExpectEqual(got.first, wanted.first);
      ASSERT_EQ(got.second.size(), wanted.second.size());
      for (size_t i = 0; i < got.second.size(); ++i) {
        EXPECT_EQ(got.second[i].SerializeAsString(),
                  wanted.second[i].SerializeAsString());
      }
    }
  }
}

// Round 6 ends with a short batch.
TEST_P(StageRunnerTest, StagesTakeTheLocalStepsOfTheWholeNetwork) {
  Case c = GetParam();
  c.inner_steps = 3;
  Case whole = c;
  whole.recompute = false;
  whole.schedule = PipelineSchedule::kOneForwardOneBackward;
  const auto wanted = Compute(whole, {1}, 0, kLeaves);
  const auto got = Compute(c, std::vector<int>(c.stages, 1), 0, kLeaves);
  ExpectEqual(got.first, wanted.first);
}

TEST_P(StageRunnerTest, TracesEveryPassAndTransfer) {
  const Case& c = GetParam();
  std::vector<TraceRecords> traces;
  Compute(c, std::vector<int>(c.stages, 1), 0, kLeaves, &traces);
  ASSERT_EQ(traces.size(), static_cast<size_t>(c.stages));
  std::set<int> all;
  for (int s = 0; s < c.stages; ++s) {
    const TracedItems items = ItemsOf(traces[s]);
    const std::string track = absl::StrCat("stage ", s);
    const auto of = [&](const char* name) {
      const auto found = items.find({name, track});
      return found == items.end() ? std::set<int>() : found->second;
    };
    if (s == 0) all = of("forward");
    EXPECT_FALSE(all.empty());
    EXPECT_EQ(of("forward"), all) << s;
    EXPECT_EQ(of("backward"), all) << s;
    const std::set<int> none;
    const bool splits = TraitsOf(c.schedule).splits_backward;
    EXPECT_EQ(of("backward for weights"), splits ? all : none) << s;
    const bool last = s + 1 == c.stages;
    EXPECT_EQ(of("wait for activations"), s == 0 ? none : all) << s;
    EXPECT_EQ(of("send gradients"), s == 0 ? none : all) << s;
    EXPECT_EQ(of("wait for gradients"), last ? none : all) << s;
    EXPECT_EQ(of("send activations"), last ? none : all) << s;
  }
}

// The whole network as one stage is what a worker without a pipeline computes.
TEST_P(StageRunnerTest, OneStageSendsWhatATrainerSends) {
  const Case& c = GetParam();
  const auto stages = Compute(c, {1}, 0, kLeaves);
  const JobSpec job = Job(c);
  RecordingWorker worker(job, c.step);
  const TrainingSetup& setup = worker.setup();
  std::vector<float> weights(setup.layout().arena_elements());
  setup.model(0)->Initialize(job.seed(), setup.layout(), weights.data());
  Sums sums;
  const std::unique_ptr<WorkState> state =
      WorkState::Create(job, {1, false, 0}, &setup.layout());
  FakeExchange exchange(job, &setup.layout(), state.get());
  exchange.on_push = [&](const Pushed& pushed) {
    sums.emplace(std::pair(pushed.chunk, pushed.node), pushed);
  };
  std::vector<int64_t> leaves;
  for (int leaf = 0; leaf < kLeaves; ++leaf) leaves.push_back(leaf);
  const std::unique_ptr<StepGradients> step = exchange.Begin(c.step, leaves);
  setup.RenewWeightCopies();
  for (int leaf = 0; leaf < kLeaves; ++leaf) {
    const Sampler::MicroBatch samples =
        setup.sampler().MicroBatchOf(c.step, leaf);
    Batch batch;
    setup.data().ReadTrain(samples.epoch, samples.indexes, &batch);
    LeafGradients gradients(leaf, SampleCountOf(batch), &exchange, step.get(),
                            /*device=*/nullptr, /*sums=*/nullptr);
    const auto loss = setup.model(0)->ForwardBackward(
        batch, job.seed(), c.step, leaf, weights.data(), &gradients,
        /*observer=*/nullptr);
    ASSERT_TRUE(loss.ok()) << loss.status();
    ASSERT_TRUE(gradients.Finish(loss->loss).ok());
  }
  Sums of_stages = stages.first;
  for (auto* list : {&of_stages, &sums}) {
    for (auto& [place, pushed] : *list) pushed.base_version = 0;
  }
  ExpectEqual(of_stages, sums);
}

// A stage that waits for another transfer must not leave the parts in their
// queues, whose senders would then wait for it.
TEST_F(StageRunnerTest, TakesPartsThatArriveLate) {
  const Case c{"mlp", 3, PipelineSchedule::kZeroBubble, false, 0};
  const std::vector<int> stages_of(3, 1);
  ExpectEqual(Compute(c, stages_of, 0, kLeaves, /*traces=*/nullptr,
                      /*late_parts=*/true)
                  .first,
              Compute(c, stages_of, 0, kLeaves).first);
}

constexpr PipelineSchedule kGPipe = PipelineSchedule::kGPipe;
constexpr PipelineSchedule k1F1B = PipelineSchedule::kOneForwardOneBackward;
constexpr PipelineSchedule kZero = PipelineSchedule::kZeroBubble;

INSTANTIATE_TEST_SUITE_P(
    Families, StageRunnerTest,
    testing::Values(
        Case{"mlp", 2, kZero, false, 6}, Case{"mlp", 3, kGPipe, true, 0},
        Case{"cnn", 3, kZero, false, 0}, Case{"cnn", 2, k1F1B, true, 6},
        Case{"resnet", 4, kZero, true, 0}, Case{"resnet", 3, k1F1B, false, 6},
        Case{"gpt", 2, kZero, false, 0}, Case{"gpt", 3, k1F1B, true, 0},
        Case{"gpt", 4, kZero, true, 6}, Case{"gpt", 4, kGPipe, false, 0},
        Case{"bert", 3, kZero, true, 0}, Case{"bert", 2, kGPipe, false, 0}));

}  // namespace
}  // namespace tributary
