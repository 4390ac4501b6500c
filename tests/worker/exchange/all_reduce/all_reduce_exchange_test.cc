// What the conformance suite of exchanges does not cover: reports of steps, and
// assignments.
#include "worker/exchange/all_reduce/all_reduce_exchange.h"

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/exchange/conformance/exchange_worker.h"
#include "tests/worker/exchange/conformance/exchange_workload.h"
#include "tests/worker/exchange/mesh/local_mesh.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;
using Meshes = std::vector<std::unique_ptr<PeerMesh>>;

constexpr int64_t kSteps = ExchangeWorkload::kSteps;

AllReduceExchange::Options OptionsFor(const ExchangeWorkload& workload,
                                      int members) {
  AllReduceExchange::Options options;
  options.job = workload.job;
  options.job.mutable_exchange()->mutable_all_reduce();
  options.steps = kSteps;
  options.assignments = ExchangeWorkload::Assign(members);
  return options;
}

// Trains the workload with `members` members. Returns what member 0 reports.
std::vector<StepSums> Report(const ExchangeWorkload& workload, int members,
                             bool shard_optimizer) {
  const ExchangeReference reference(workload);
  absl::Mutex mu;
  std::vector<StepSums> reported;
  Meshes meshes = MakeLocalMeshes(members);
  AllReduceExchange::Options options = OptionsFor(workload, members);
  options.shard_optimizer = shard_optimizer;
  std::vector<std::unique_ptr<ExchangeWorker>> workers;
  for (int rank = 0; rank < members; ++rank) {
    workers.push_back(
        std::make_unique<ExchangeWorker>(&workload, options.assignments[rank]));
    options.on_sums = nullptr;
    if (rank == 0) {
      options.on_sums = [&](const StepSums& sums) {
        absl::MutexLock lock(&mu);
        reported.push_back(sums);
      };
    }
    auto exchange = AllReduceExchange::Create(options, &workload.layout,
                                              workers[rank]->sink(),
                                              std::move(meshes[rank]));
    EXPECT_TRUE(exchange.ok()) << exchange.status();
    workers[rank]->SetExchange(*std::move(exchange));
  }
  std::vector<std::thread> threads;
  for (const auto& worker : workers) {
    threads.emplace_back([&reference, w = worker.get()] {
      w->PushInitial();
      w->Train(0, kSteps, reference);
      w->exchange()->Finish();
      EXPECT_EQ(w->exchange()->bytes_sent() > 0,
                w->nodes() != std::vector<int>{1});
    });
  }
  for (std::thread& thread : threads) thread.join();
  workers.clear();
  return reported;
}

class StepSumsTest
    : public testing::TestWithParam<std::tuple<std::string, int, bool>> {};

TEST_P(StepSumsTest, AreThoseOfOneProcess) {
  const auto& [optimizer, members, shard_optimizer] = GetParam();
  const ExchangeWorkload workload(optimizer);
  const ExchangeReference reference(workload);
  const std::vector<StepSums> reported =
      Report(workload, members, shard_optimizer);
  ASSERT_EQ(reported.size(), size_t{kSteps});
  for (int64_t step = 0; step < kSteps; ++step) {
    const StepSums& sums = reported[step];
    EXPECT_EQ(sums.step(), step);
    EXPECT_EQ(sums.weight(), ExchangeWorkload::SampleCount());
    double loss = 0;
    for (int i = 0; i < ExchangeWorkload::kMicroBatches; ++i) {
      loss += ExchangeWorkload::LossOf(step, i);
    }
    EXPECT_NEAR(sums.loss_sum(), loss, 1e-9);
    if (optimizer == "skip" && step == ExchangeWorkload::kSkippedStep) {
      ASSERT_EQ(sums.nonfinite_size(), 1);
      EXPECT_EQ(sums.nonfinite(0).chunk(), 1);
      EXPECT_EQ(sums.nonfinite(0).element(),
                ExchangeWorkload::kNonfinite - workload.layout.ChunkBegin(1));
      continue;
    }
    EXPECT_EQ(sums.nonfinite_size(), 0);
    EXPECT_EQ(std::vector<double>(sums.sum_of_squares().begin(),
                                  sums.sum_of_squares().end()),
              reference.squares[step]);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, StepSumsTest,
    testing::Combine(testing::Values("sgd", "clip", "skip"),
                     testing::Values(1, 2, 3), testing::Bool()),
    [](const auto& info) {
      return absl::StrCat(std::get<0>(info.param), "_", std::get<1>(info.param),
                          std::get<2>(info.param) ? "_sharded" : "");
    });

TEST(AllReduceExchangeTest, RefusesAssignmentsThatDoNotFit) {
  const ExchangeWorkload workload("sgd");
  CheckingSink sink(&workload.layout);
  AllReduceExchange::Options options = OptionsFor(workload, /*members=*/2);
  for (const std::vector<LeafRange>& assignments :
       {std::vector<LeafRange>{{0, 8}},
        {{0, 4}, {4, 7}},
        {{0, 4}, {5, 8}},
        {{0, 8}, {8, 8}}}) {
    options.assignments = assignments;
    Meshes meshes = MakeLocalMeshes(2);
    EXPECT_THAT(AllReduceExchange::Create(options, &workload.layout, &sink,
                                          std::move(meshes[0]))
                    .status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("do not cover 8 micro-batches")));
  }
}

}  // namespace
}  // namespace tributary
