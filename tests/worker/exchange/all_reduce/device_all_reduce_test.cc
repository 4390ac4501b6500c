// An all-reduce in the memory of emulated GPUs: saving, resuming, reports and
// failures. The conformance suite of exchanges covers the steps themselves.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/parameters/arena_layout.h"
#include "common/parameters/reduction_tree.h"
#include "common/parameters/snapshot.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/device/cuda/emulation/emulated_failures.h"
#include "tests/worker/exchange/conformance/exchange_worker.h"
#include "tests/worker/exchange/conformance/exchange_workload.h"
#include "tests/worker/exchange/function_sender.h"
#include "tests/worker/exchange/mesh/fake_nccl.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/device/cuda/cuda_reduction_stream.h"
#include "worker/exchange/all_reduce/all_reduce_exchange.h"
#include "worker/exchange/step_gradients.h"

namespace tributary {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kSteps = ExchangeWorkload::kSteps;

// More than a worker has in use.
constexpr int kArenas = 4 * ExchangeWorkload::kMicroBatches;

absl::StatusOr<std::unique_ptr<ReductionStream>> MakeStream(
    const JobSpec& job, const ArenaLayout& layout, int rank, int size) {
  const absl::StatusOr<ReductionStream::Plan> plan =
      AllReduceExchange::PlanFor(job, &layout, rank, size);
  if (!plan.ok()) return plan.status();
  return CreateCudaReductionStream(*CudaBusId(EmulatedGpuOf(rank)), *plan);
}

// The members of an all-reduce. Not thread-safe.
class Members {
 public:
  // `workload` must outlive this object. The members begin with `first`.
  Members(const ExchangeWorkload& workload, int count, bool shard_optimizer,
          const Snapshot& first = {})
      : workload_(workload), meshes_(MakeNcclMeshes(count, &nccl_)) {
    options_.job = workload.job;
    options_.job.mutable_exchange()->mutable_all_reduce()->set_shard_optimizer(
        shard_optimizer);
    options_.steps = kSteps;
    options_.assignments = ExchangeWorkload::Assign(count);
    options_.arenas = kArenas;
    options_.first_step = first.version;
    options_.first = first;
    options_.save = [this](int64_t version, const Snapshot::Chunk& chunk) {
      absl::MutexLock lock(&mu_);
      saved_[version][chunk.number] = chunk;
    };
    for (int rank = 0; rank < count; ++rank) {
      workers_.push_back(std::make_unique<ExchangeWorker>(
          &workload, options_.assignments[rank]));
    }
  }

  // Creates the exchange of a member.
  absl::Status Connect(int rank) {
    ExchangeWorker* const worker = workers_[rank].get();
    for (const Snapshot::Chunk& chunk : options_.first.chunks) {
      float* to = nullptr;
      EXPECT_EQ(
          worker->sink()->BeginWrite(chunk.number, options_.first_step, &to),
          WeightsSink::Arrival::kWrite);
      std::copy_n(chunk.values.get(), chunk.elements, to);
      worker->sink()->EndWrite(chunk.number, options_.first_step);
    }
    options_.on_sums = nullptr;
    if (rank == 0) {
      options_.on_sums = [this](const StepSums& sums) {
        absl::MutexLock lock(&mu_);
        reported_.push_back(sums);
      };
    }
    absl::StatusOr<std::unique_ptr<ReductionStream>> stream =
        MakeStream(options_.job, workload_.layout, rank,
                   static_cast<int>(workers_.size()));
    EXPECT_TRUE(stream.ok()) << stream.status();
    auto exchange = AllReduceExchange::CreateOnDevice(
        options_, &workload_.layout, worker->sink(), std::move(meshes_[rank]),
        *std::move(stream));
    if (!exchange.ok()) return exchange.status();
    exchanges_.push_back(exchange->get());
    worker->SetExchange(*std::move(exchange));
    if (options_.first_step == 0) worker->PushInitial();
    return absl::OkStatus();
  }
  void ConnectAll() {
    for (size_t rank = 0; rank < workers_.size(); ++rank) {
      ASSERT_EQ(Connect(static_cast<int>(rank)), absl::OkStatus());
    }
  }

  ExchangeWorker* worker(int rank) { return workers_[rank].get(); }
  void SaveAt(int64_t version) {
    for (AllReduceExchange* const exchange : exchanges_) {
      EXPECT_TRUE(exchange->SaveAt(version));
    }
  }
  void Train(const ExchangeReference& reference) {
    std::vector<std::thread> threads;
    for (const auto& worker : workers_) {
      threads.emplace_back([this, &reference, w = worker.get()] {
        w->Train(options_.first_step, kSteps, reference);
        w->exchange()->Finish();
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  std::vector<StepSums> reported() const {
    absl::MutexLock lock(&mu_);
    return reported_;
  }
  Snapshot SavedAt(int64_t version) const {
    absl::MutexLock lock(&mu_);
    Snapshot snapshot;
    snapshot.version = version;
    for (const auto& [number, chunk] : saved_.at(version)) {
      snapshot.chunks.push_back(chunk);
    }
    return snapshot;
  }

 private:
  const ExchangeWorkload& workload_;
  FakeNccl nccl_;
  std::vector<std::unique_ptr<DeviceMesh>> meshes_;  // Null once connected.
  AllReduceExchange::Options options_;
  mutable absl::Mutex mu_;
  std::vector<StepSums> reported_ ABSL_GUARDED_BY(mu_);
  // By version and chunk.
  std::map<int64_t, std::map<int, Snapshot::Chunk>> saved_ ABSL_GUARDED_BY(mu_);
  std::vector<AllReduceExchange*> exchanges_;
  std::vector<std::unique_ptr<ExchangeWorker>> workers_;
};

class DeviceAllReduceTest : public testing::TestWithParam<bool> {
 protected:
  ~DeviceAllReduceTest() override { emulated_gpu::StopFailing(); }
};

INSTANTIATE_TEST_SUITE_P(All, DeviceAllReduceTest, testing::Bool(),
                         [](const auto& info) {
                           return info.param ? "sharded" : "replicated";
                         });

// Two members save their chunks; three members go on.
TEST_P(DeviceAllReduceTest, ResumesFromWhatItSavedWithTheSameBits) {
  const ExchangeWorkload workload("adamw");
  const ExchangeReference reference(workload);
  Snapshot saved;
  {
    Members members(workload, /*count=*/2, GetParam());
    ASSERT_NO_FATAL_FAILURE(members.ConnectAll());
    members.SaveAt(2);
    members.Train(reference);
    saved = members.SavedAt(2);
    // The last version is saved without a request.
    EXPECT_EQ(members.SavedAt(kSteps).chunks.size(), saved.chunks.size());
  }
  ASSERT_EQ(static_cast<int>(saved.chunks.size()),
            workload.layout.chunk_count());
  for (const Snapshot::Chunk& chunk : saved.chunks) {
    EXPECT_EQ(
        std::memcmp(
            chunk.values.get(),
            &reference.versions[2][workload.layout.ChunkBegin(chunk.number)],
            chunk.elements * sizeof(float)),
        0);
  }
  Members members(workload, /*count=*/3, GetParam(), saved);
  ASSERT_NO_FATAL_FAILURE(members.ConnectAll());
  members.Train(reference);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(members.worker(rank)->sink()->status(), absl::OkStatus());
  }
}

TEST_P(DeviceAllReduceTest, ReportsTheSumsOfOneProcess) {
  const ExchangeWorkload workload("skip");
  const ExchangeReference reference(workload);
  Members members(workload, /*count=*/2, GetParam());
  ASSERT_NO_FATAL_FAILURE(members.ConnectAll());
  members.Train(reference);
  ASSERT_EQ(members.reported().size(), size_t{kSteps});
  for (const StepSums& sums : members.reported()) {
    if (sums.step() == ExchangeWorkload::kSkippedStep) {
      ASSERT_EQ(sums.nonfinite_size(), 1);
      EXPECT_EQ(sums.nonfinite(0).chunk(), 1);
      EXPECT_EQ(sums.nonfinite(0).element(),
                ExchangeWorkload::kNonfinite - workload.layout.ChunkBegin(1));
      continue;
    }
    EXPECT_EQ(sums.nonfinite_size(), 0);
    EXPECT_EQ(std::vector<double>(sums.sum_of_squares().begin(),
                                  sums.sum_of_squares().end()),
              reference.squares[sums.step()]);
  }
}

TEST_P(DeviceAllReduceTest, AFailureOfTheGpuEndsTheExchangeAndNamesTheGpu) {
  const ExchangeWorkload workload("sgd");
  const ExchangeReference reference(workload);
  Members members(workload, /*count=*/1, GetParam());
  ASSERT_NO_FATAL_FAILURE(members.ConnectAll());
  ExchangeWorker* const worker = members.worker(0);
  worker->Train(0, 1, reference);
  const int node = worker->nodes()[0];
  const Buffer sum = worker->Compute(1, node);
  emulated_gpu::FailNext(emulated_gpu::Failing::kLaunch, 0);
  for (int chunk = workload.layout.chunk_count() - 1; chunk >= 0; --chunk) {
    worker->Push(1, node, chunk, sum);
  }
  const auto names_the_gpu =
      StatusIs(absl::StatusCode::kInternal,
               AllOf(HasSubstr(" on cuda:0"),
                     HasSubstr("cudaErrorLaunchOutOfResources")));
  EXPECT_THAT(worker->sink()->AwaitFailure(), names_the_gpu);
  // The worker thus knows that its GPU has failed.
  EXPECT_THAT(worker->exchange()->device()->Synchronize(), names_the_gpu);
}

// Between members, an allocation could wait for all work of the GPU, including
// the transfers that wait for other members.
TEST_P(DeviceAllReduceTest, StepsAllocateNoMemory) {
  const ExchangeWorkload workload("adamw");
  const ExchangeReference reference(workload);
  Members members(workload, /*count=*/3, GetParam());
  ASSERT_NO_FATAL_FAILURE(members.ConnectAll());
  emulated_gpu::FailNext(emulated_gpu::Failing::kAllocation);
  members.Train(reference);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(members.worker(rank)->sink()->status(), absl::OkStatus());
  }
}

TEST_P(DeviceAllReduceTest, SaysThatTheWeightsDoNotFit) {
  const ExchangeWorkload workload("sgd");
  Members members(workload, /*count=*/1, GetParam());
  // The three first allocations are those of the stream.
  emulated_gpu::FailNext(emulated_gpu::Failing::kAllocation, 3);
  EXPECT_THAT(members.Connect(0),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("memory for the weights"),
                             HasSubstr("set exchange.all_reduce.backend"))));
}

// As when several compute threads of a worker compute the leaves of a node.
TEST(DeviceStepGradientsTest, AddsUpNodesWithTheBitsOfOneProcess) {
  const ExchangeWorkload workload("sgd");
  const ArenaLayout& layout = workload.layout;
  const std::unique_ptr<ReductionStream> stream =
      *MakeStream(workload.job, layout, /*rank=*/0, /*size=*/1);
  std::vector<float> weights(layout.arena_elements());
  workload.Initialize(weights.data());
  std::vector<NodeChunk> sent;
  constexpr int kLeaves = ExchangeWorkload::kMicroBatches;
  StepGradients::Plan plan;
  plan.layout = &layout;
  plan.tree_leaves = kLeaves;
  plan.device = stream.get();
  StepGradients gradients(
      plan, /*step=*/0, {0, 1, 2, 3},
      SendTo([&](NodeChunk sum) { sent.push_back(std::move(sum)); }));
  for (const int leaf : {2, 0, 3, 1}) {
    std::vector<float> gradient(layout.arena_elements());
    workload.NodeSum(/*step=*/0, kLeaves + leaf, weights.data(),
                     gradient.data());
    const Buffer arena = stream->Allocate(layout.arena_elements());
    stream->CopyIn(gradient.data(), layout.arena_elements(), arena.get());
    for (int chunk = layout.chunk_count() - 1; chunk >= 0; --chunk) {
      gradients.Ready({kLeaves + leaf, chunk, arena, /*sample_count=*/1});
    }
  }
  ASSERT_EQ(static_cast<int>(sent.size()), layout.chunk_count());
  std::vector<float> expected(layout.arena_elements());
  workload.NodeSum(/*step=*/0, /*node=*/2, weights.data(), expected.data());
  for (const NodeChunk& sum : sent) {
    EXPECT_EQ(sum.node, 2);
    EXPECT_EQ(sum.sample_count, 4);
    ASSERT_NE(sum.ready, nullptr);
    EXPECT_EQ(sum.ready->Wait(), absl::OkStatus());
    // The stream reads three arenas of other leaves.
    EXPECT_EQ(sum.summands.size(), 3u);
    const int64_t begin = layout.ChunkBegin(sum.chunk);
    std::vector<float> values(layout.ChunkSize(sum.chunk));
    ASSERT_TRUE(stream
                    ->CopyOut(sum.arena.get() + begin,
                              static_cast<int64_t>(values.size()),
                              values.data())
                    .ok());
    EXPECT_EQ(std::memcmp(values.data(), &expected[begin],
                          values.size() * sizeof(float)),
              0);
  }
}

}  // namespace
}  // namespace tributary
