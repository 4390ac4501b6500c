// Workers that each receive the weights of some chunks, and contribute to them,
// as the stages of a pipeline do.
#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/rendezvous.pb.h"
#include "tests/worker/exchange/conformance/exchange_servers.h"
#include "tests/worker/exchange/conformance/exchange_workload.h"
#include "worker/state/synchronous_work.h"

namespace tributary {
namespace {

constexpr int kStages = 2;

// Returns the first of the chunks of this stage, or their end for the stage
// after the last one.
int FirstChunk(int stage, int chunk_count) {
  return stage * chunk_count / kStages;
}

class StageServers final : public ExchangeServers {
 public:
  StageServers(const ExchangeWorkload& workload, const Options& options)
      : ExchangeServers(workload, options),
        chunk_count_(workload.layout.chunk_count()) {}

  ChunkRanges ChunksOf(int stage) const {
    ChunkRanges::Message ranges;
    ChunkRange* const range = ranges.Add();
    range->set_begin(FirstChunk(stage, chunk_count_));
    range->set_end(FirstChunk(stage + 1, chunk_count_));
    return *ChunkRanges::Create(ranges, chunk_count_);
  }

 private:
  void SetOptions(int rank,
                  ParameterServerExchange::Options* options) override {
    options->chunks = ChunksOf(rank);
    options->chunk_begin = FirstChunk(rank, chunk_count_);
    options->chunk_end = FirstChunk(rank + 1, chunk_count_);
  }

  const int chunk_count_;
};

struct SubsetCase {
  std::string name;
  ExchangeSpec::Transport transport = ExchangeSpec::WIRE;
  int servers = 1;
};

class ChunkSubsetTest : public ::testing::TestWithParam<SubsetCase> {
 protected:
  ChunkSubsetTest() : servers_(workload_, ServersOptions()) {}

  static ExchangeServers::Options ServersOptions() {
    ExchangeServers::Options options;
    options.transport = GetParam().transport;
    options.servers = GetParam().servers;
    return options;
  }

  // Trains all micro-batches of a stage from the first version to the last one,
  // and compares each version of its chunks with the reference.
  void Train(int stage) {
    const ArenaLayout& layout = workload_.layout;
    const int begin = FirstChunk(stage, layout.chunk_count());
    const int end = FirstChunk(stage + 1, layout.chunk_count());
    const int64_t first = layout.ChunkBegin(begin);
    const int64_t last = layout.ChunkBegin(end - 1) + layout.ChunkSize(end - 1);
    WorkState::Options options;
    options.steps = ExchangeWorkload::kSteps;
    options.chunks = servers_.ChunksOf(stage);
    SynchronousWork state(options, &layout);
    auto connected = servers_.Connect(stage, &state);
    ASSERT_TRUE(connected.ok()) << connected.status();
    const std::unique_ptr<Exchange> exchange = *std::move(connected);
    Buffer initial = exchange->TakeArena();
    workload_.Initialize(initial.get());
    exchange->PushInitial(std::move(initial));

    int64_t bytes = 0;
    for (int chunk = begin; chunk < end; ++chunk) {
      bytes += layout.ChunkSize(chunk) * int64_t{sizeof(float)};
    }
    Task task = state.Next();
    EXPECT_EQ(task.kind, Task::Kind::kReportSynced);
    EXPECT_EQ(task.version, 0);
    Deal deal;
    deal.set_generation(1);
    deal.set_leaf_end(ExchangeWorkload::kMicroBatches);
    state.SetAssignment(deal);
    for (int64_t step = 0; step <= ExchangeWorkload::kSteps; ++step) {
      if (step == ExchangeWorkload::kSteps) state.SetFinished();
      task = state.Next();
      ASSERT_EQ(task.kind == Task::Kind::kTrain,
                step < ExchangeWorkload::kSteps)
          << state.status();
      if (task.kind == Task::Kind::kTrain) {
        ASSERT_EQ(task.version, step);
        ASSERT_TRUE(state.AwaitWeights(task, first, last));
      }
      const float* const weights = state.Weights(step);
      EXPECT_EQ(
          std::memcmp(weights + first, reference_.versions[step].data() + first,
                      (last - first) * sizeof(float)),
          0)
          << "stage " << stage << ", version " << step;
      if (task.kind != Task::Kind::kTrain) break;
      NodeChunk sum;
      sum.node = 1;
      sum.sample_count = ExchangeWorkload::SampleCount();
      sum.arena = exchange->TakeArena();
      workload_.NodeSum(step, sum.node, weights, sum.arena.get());
      std::vector<int64_t> micro_batches(ExchangeWorkload::kMicroBatches);
      std::iota(micro_batches.begin(), micro_batches.end(), 0);
      const std::unique_ptr<StepGradients> gradients =
          exchange->Begin(step, micro_batches);
      for (sum.chunk = end - 1; sum.chunk >= begin; --sum.chunk) {
        gradients->Ready(sum);
      }
      state.MarkDone(task);
    }
    ProcessStatistics statistics;
    exchange->FillStatistics(&statistics);
    EXPECT_EQ(statistics.bytes_received() + statistics.shared_bytes_received(),
              bytes * (ExchangeWorkload::kSteps + 1));
    if (GetParam().transport == ExchangeSpec::MEMORY) {
      EXPECT_EQ(statistics.bytes_received(), 0);
    }
    exchange->Finish();
  }

  const ExchangeWorkload workload_{"clip"};
  const ExchangeReference reference_{workload_};
  StageServers servers_;
};

TEST_P(ChunkSubsetTest, EachStageReceivesItsChunksOnly) {
  std::vector<std::thread> stages;
  for (int stage = 0; stage < kStages; ++stage) {
    stages.emplace_back([this, stage] { Train(stage); });
  }
  for (std::thread& stage : stages) stage.join();
}

std::vector<SubsetCase> SubsetCases() {
  std::vector<SubsetCase> cases;
  for (const int servers : {1, 3}) {
    cases.push_back({"tcp", ExchangeSpec::WIRE, servers});
    cases.push_back({"unix_socket", ExchangeSpec::UNIX_SOCKET, servers});
    cases.push_back({"shared_memory", ExchangeSpec::MEMORY, servers});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Transports, ChunkSubsetTest,
                         ::testing::ValuesIn(SubsetCases()),
                         [](const ::testing::TestParamInfo<SubsetCase>& info) {
                           return absl::StrCat(info.param.name, "_",
                                               info.param.servers, "_servers");
                         });

}  // namespace
}  // namespace tributary
