// A worker that fetches weights chunk by chunk, and frees gradients chunk by
// chunk, trains to the same versions as one that receives all of them.
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "proto/rendezvous.pb.h"
#include "tests/worker/exchange/conformance/exchange_servers.h"
#include "tests/worker/exchange/conformance/exchange_workload.h"
#include "worker/exchange/chunk_memory.h"
#include "worker/state/synchronous_work.h"

namespace tributary {
namespace {

class FetchServers final : public ExchangeServers {
 public:
  using ExchangeServers::ExchangeServers;

 private:
  void SetOptions(int /*rank*/,
                  ParameterServerExchange::Options* options) override {
    options->fetches = true;
  }
};

class FetchTest : public ::testing::TestWithParam<int> {};

TEST_P(FetchTest, EachFetchBringsTheVersionOfTheTask) {
  const ExchangeWorkload workload{"clip"};
  const ExchangeReference reference{workload};
  ExchangeServers::Options server_options;
  server_options.transport = ExchangeSpec::AUTO;
  server_options.servers = GetParam();
  FetchServers servers(workload, server_options);
  const ArenaLayout& layout = workload.layout;
  WorkState::Options options;
  options.steps = ExchangeWorkload::kSteps;
  options.fetches = true;
  SynchronousWork state(options, &layout);
  auto connected = servers.Connect(/*rank=*/0, &state);
  ASSERT_TRUE(connected.ok()) << connected.status();
  const std::unique_ptr<Exchange> exchange = *std::move(connected);
  ChunkMemory* const memory = exchange->chunk_memory();
  ASSERT_NE(memory, nullptr);
  std::vector<float> initial(layout.arena_elements());
  workload.Initialize(initial.data());
  const Buffer arena = exchange->TakeArena();
  for (int chunk = 0; chunk < layout.chunk_count(); ++chunk) {
    Buffer part = memory->ChunkOf(arena, chunk);
    std::copy_n(initial.begin() + layout.ChunkBegin(chunk),
                layout.ChunkSize(chunk), part.get() + layout.ChunkBegin(chunk));
    memory->PushInitialChunk(chunk, std::move(part));
  }
  EXPECT_EQ(state.Next().kind, Task::Kind::kReportSynced);
  Deal deal;
  deal.set_generation(1);
  deal.set_leaf_end(ExchangeWorkload::kMicroBatches);
  state.SetAssignment(deal);
  std::vector<int64_t> micro_batches(ExchangeWorkload::kMicroBatches);
  std::iota(micro_batches.begin(), micro_batches.end(), 0);
  for (int64_t step = 0; step < ExchangeWorkload::kSteps; ++step) {
    const Task task = state.Next();
    ASSERT_EQ(task.kind, Task::Kind::kTrain) << state.status();
    ASSERT_EQ(task.version, step);
    // One chunk at a time, as forward and backward do.
    std::vector<float> weights(layout.arena_elements());
    for (int turn = 0; turn < 2; ++turn) {
      for (int chunk = 0; chunk < layout.chunk_count(); ++chunk) {
        const int64_t begin = layout.ChunkBegin(chunk);
        EXPECT_TRUE(state.Want(chunk, step));
        memory->Fetch(chunk, step);
        ASSERT_TRUE(
            state.AwaitWeights(task, begin, begin + layout.ChunkSize(chunk)));
        std::copy_n(state.Weights(step) + begin, layout.ChunkSize(chunk),
                    weights.begin() + begin);
        state.Release(chunk);
      }
      EXPECT_EQ(std::memcmp(weights.data(), reference.versions[step].data(),
                            static_cast<size_t>(
                                layout.ChunkBegin(layout.chunk_count() - 1) +
                                layout.ChunkSize(layout.chunk_count() - 1)) *
                                sizeof(float)),
                0)
          << "version " << step;
    }
    const std::unique_ptr<StepGradients> gradients =
        exchange->Begin(step, micro_batches);
    const Buffer whole = exchange->TakeArena();
    workload.NodeSum(step, /*node=*/1, weights.data(), whole.get());
    for (int chunk = layout.chunk_count() - 1; chunk >= 0; --chunk) {
      gradients->Ready({1, chunk, memory->ChunkOf(whole, chunk),
                        ExchangeWorkload::SampleCount()});
    }
    state.MarkDone(task);
    EXPECT_TRUE(memory->AwaitReleased(0, absl::Minutes(1)));
  }
  ProcessStatistics statistics;
  exchange->FillStatistics(&statistics);
  int64_t bytes = 0;
  for (int chunk = 0; chunk < layout.chunk_count(); ++chunk) {
    bytes += layout.ChunkSize(chunk) * int64_t{sizeof(float)};
  }
  EXPECT_EQ(statistics.bytes_received(), 2 * bytes * ExchangeWorkload::kSteps);
  EXPECT_EQ(statistics.bytes_sent(), bytes * (ExchangeWorkload::kSteps + 1));
  EXPECT_EQ(statistics.shared_bytes_received(), 0);
  state.SetFinished();
  EXPECT_EQ(state.Next().kind, Task::Kind::kFinish);
  exchange->Finish();
}

INSTANTIATE_TEST_SUITE_P(Servers, FetchTest, ::testing::Values(1, 3),
                         [](const ::testing::TestParamInfo<int>& info) {
                           return absl::StrCat(info.param, "_servers");
                         });

}  // namespace
}  // namespace tributary
