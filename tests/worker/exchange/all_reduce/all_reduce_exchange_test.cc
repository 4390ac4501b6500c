// What the conformance suite of exchanges does not cover: reports of steps,
// assignments, and the use of the mesh.
#include "worker/exchange/all_reduce/all_reduce_exchange.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/parameters/arena_layout.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/exchange/conformance/exchange_worker.h"
#include "tests/worker/exchange/conformance/exchange_workload.h"
#include "tests/worker/exchange/mesh/local_meshes.h"

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

// Forwards to another mesh. Expects that a transfer is destroyed only after
// Wait has returned or Abort has been called.
class CheckingMesh final : public PeerMesh {
 public:
  explicit CheckingMesh(std::unique_ptr<PeerMesh> mesh)
      : mesh_(std::move(mesh)) {}

  // Makes the numbers that this member sends from now on fail: counts of
  // samples, and losses.
  void LoseNumbers() { loses_numbers_ = true; }
  // Returns whether a message has been received into the memory at `data`.
  bool HasReceived(const void* data) const {
    absl::MutexLock lock(&mu_);
    return received_.count(data) > 0;
  }

  int rank() const override { return mesh_->rank(); }
  int size() const override { return mesh_->size(); }
  std::unique_ptr<Transfer> Send(int to, uint64_t tag, const void* data,
                                 size_t bytes) override {
    return std::make_unique<CheckingTransfer>(
        this, mesh_->Send(to, tag, data, bytes),
        loses_numbers_ && bytes <= sizeof(MemberShare));
  }
  std::unique_ptr<Transfer> Receive(int from, uint64_t tag, void* data,
                                    size_t bytes) override {
    absl::MutexLock lock(&mu_);
    received_.insert(data);
    return std::make_unique<CheckingTransfer>(
        this, mesh_->Receive(from, tag, data, bytes), /*fails=*/false);
  }
  void Abort() override {
    aborted_ = true;
    mesh_->Abort();
  }

 private:
  class CheckingTransfer final : public Transfer {
   public:
    CheckingTransfer(const CheckingMesh* mesh,
                     std::unique_ptr<Transfer> transfer, bool fails)
        : mesh_(mesh), transfer_(std::move(transfer)), fails_(fails) {}
    ~CheckingTransfer() override {
      EXPECT_TRUE(waited_ || mesh_->aborted_) << "destroyed in flight";
    }
    absl::Status Wait() override {
      const absl::Status status = transfer_->Wait();
      waited_ = true;
      return fails_ ? absl::UnavailableError("the number was lost") : status;
    }

   private:
    const CheckingMesh* const mesh_;
    const std::unique_ptr<Transfer> transfer_;
    const bool fails_;
    bool waited_ = false;
  };

  const std::unique_ptr<PeerMesh> mesh_;
  std::atomic<bool> loses_numbers_{false};
  std::atomic<bool> aborted_{false};
  mutable absl::Mutex mu_;
  std::set<const void*> received_ ABSL_GUARDED_BY(mu_);
};

// The members of an all-reduce. Not thread-safe.
class Members {
 public:
  // `workload` must outlive this object.
  Members(const ExchangeWorkload& workload, int count, bool shard_optimizer) {
    Meshes meshes = MakeLocalMeshes(count);
    AllReduceExchange::Options options = OptionsFor(workload, count);
    options.job.mutable_exchange()->mutable_all_reduce()->set_shard_optimizer(
        shard_optimizer);
    for (int rank = 0; rank < count; ++rank) {
      workers_.push_back(std::make_unique<ExchangeWorker>(
          &workload, options.assignments[rank]));
      options.on_sums = nullptr;
      if (rank == 0) {
        options.on_sums = [this](const StepSums& sums) {
          absl::MutexLock lock(&mu_);
          reported_.push_back(sums);
        };
      }
      auto mesh = std::make_unique<CheckingMesh>(std::move(meshes[rank]));
      meshes_.push_back(mesh.get());
      auto exchange = AllReduceExchange::Create(
          options, &workload.layout, workers_[rank]->sink(), std::move(mesh));
      EXPECT_TRUE(exchange.ok()) << exchange.status();
      workers_[rank]->SetExchange(*std::move(exchange));
      workers_[rank]->PushInitial();
    }
  }

  ExchangeWorker* worker(int rank) { return workers_[rank].get(); }
  CheckingMesh* mesh(int rank) { return meshes_[rank]; }

  // Trains the workload. Returns what member 0 reports.
  std::vector<StepSums> Train(const ExchangeReference& reference) {
    std::vector<std::thread> threads;
    for (const auto& worker : workers_) {
      threads.emplace_back([&reference, w = worker.get()] {
        w->Train(0, kSteps, reference);
        w->exchange()->Finish();
        ProcessStatistics statistics;
        w->exchange()->FillStatistics(&statistics);
        EXPECT_EQ(statistics.bytes_sent() > 0,
                  w->nodes() != std::vector<int>{1});
      });
    }
    for (std::thread& thread : threads) thread.join();
    absl::MutexLock lock(&mu_);
    return reported_;
  }

 private:
  absl::Mutex mu_;
  std::vector<StepSums> reported_ ABSL_GUARDED_BY(mu_);
  std::vector<CheckingMesh*> meshes_;
  std::vector<std::unique_ptr<ExchangeWorker>> workers_;
};

class StepSumsTest
    : public testing::TestWithParam<std::tuple<std::string, int, bool>> {};

TEST_P(StepSumsTest, AreThoseOfOneProcess) {
  const auto& [optimizer, members, shard_optimizer] = GetParam();
  const ExchangeWorkload workload(optimizer);
  const ExchangeReference reference(workload);
  const std::vector<StepSums> reported =
      Members(workload, members, shard_optimizer).Train(reference);
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
       {std::vector<LeafRange>{{0, 8}}, {{0, 4}, {4, 7}}, {{0, 8}, {8, 8}}}) {
    options.assignments = assignments;
    Meshes meshes = MakeLocalMeshes(2);
    EXPECT_THAT(AllReduceExchange::Create(options, &workload.layout, &sink,
                                          std::move(meshes[0]))
                    .status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("the assignments of ")));
  }
}

TEST(AllReduceExchangeTest, ShardedOptimizersSendWeights) {
  for (const bool shard_optimizer : {false, true}) {
    const ExchangeWorkload workload("sgd");
    Members members(workload, /*count=*/2, shard_optimizer);
    members.Train(ExchangeReference(workload));
    const float* const weights =
        members.worker(0)->sink()->Weights(kSteps) +
        workload.layout.ChunkBegin(1);  // Reduced by member 1.
    EXPECT_EQ(members.mesh(0)->HasReceived(weights), shard_optimizer);
  }
}

// Such a member updates nothing if the optimizer is sharded.
TEST(AllReduceExchangeTest, AMemberWithoutChunksAwaitsAllMessages) {
  for (const bool shard_optimizer : {false, true}) {
    ExchangeWorkload workload("sgd");
    ParameterTable table;
    table.set_chunk_elements(1024);
    ParameterTable::Parameter* const parameter = table.add_parameter();
    parameter->set_name("p");
    parameter->add_shape(1500);
    parameter->set_group(DECAY);
    workload.layout = *ArenaLayout::Create(table);
    ASSERT_EQ(workload.layout.chunk_count(), 2);
    Members members(workload, /*count=*/3, shard_optimizer);
    EXPECT_EQ(members.Train(ExchangeReference(workload)).size(),
              size_t{kSteps});
  }
}

// A simulated history has found that the messages after the first one that was
// lost were destroyed before the mesh was aborted.
TEST(AllReduceExchangeTest, AbortsBeforeItDestroysMessagesInFlight) {
  const ExchangeWorkload workload("sgd");
  Members members(workload, /*count=*/2, /*shard_optimizer=*/false);
  members.mesh(1)->LoseNumbers();
  members.worker(0)->PushStep(0);
  members.worker(1)->PushStep(0);
  EXPECT_THAT(members.worker(1)->sink()->AwaitFailure(),
              StatusIs(absl::StatusCode::kUnavailable));
}

}  // namespace
}  // namespace tributary
