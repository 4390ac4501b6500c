// The members of an all-reduce in a pipeline: each contributes to the chunks of
// its stages, and reads only these.
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/exchange/conformance/exchange_workload.h"
#include "tests/worker/exchange/mesh/local_meshes.h"
#include "worker/exchange/all_reduce/all_reduce_exchange.h"
#include "worker/state/synchronous_work.h"

namespace tributary {
namespace {

constexpr int64_t kTrainedSteps = ExchangeWorkload::kSteps;
constexpr int kWorkloadChunks = 9;  // Of the workload.

struct StageRanges {
  int begin;
  int end;
  std::vector<std::pair<int, int>> read;
};

// Stage 1 begins within chunk 2, and uses a parameter of stage 0 in chunk 0.
// All parameters of stage 2 are in the last chunk, to which stage 1
// contributes.
const std::vector<StageRanges>& Stages() {
  static const auto* const stages = new std::vector<StageRanges>{
      {0, 3, {{0, 3}}}, {3, 9, {{0, 1}, {2, 9}}}, {9, 9, {{8, 9}}}};
  return *stages;
}

WorkerChunks ChunksOf(int begin_stage, int end_stage) {
  std::vector<ChunkRange> read;
  for (int stage = begin_stage; stage < end_stage; ++stage) {
    for (const auto& [begin, end] : Stages()[stage].read) {
      read.emplace_back().set_begin(begin);
      read.back().set_end(end);
    }
  }
  WorkerChunks chunks;
  chunks.begin = Stages()[begin_stage].begin;
  chunks.end = Stages()[end_stage - 1].end;
  chunks.read = ChunkRanges::Union(read);
  return chunks;
}

// A member with the state of a real worker. Not thread-safe.
class Member {
 public:
  Member(const ExchangeWorkload* workload, LeafRange leaves,
         WorkerChunks chunks)
      : workload_(*workload),
        leaves_(leaves),
        chunks_(std::move(chunks)),
        state_(StateOptions(), &workload->layout) {
    Deal deal;
    deal.set_generation(1);
    deal.set_leaf_begin(leaves.begin);
    deal.set_leaf_end(leaves.end);
    deal.set_stage_end(1);
    state_.SetAssignment(deal);
  }
  ~Member() { exchange_.reset(); }

  SynchronousWork* state() { return &state_; }
  void SetExchange(std::unique_ptr<AllReduceExchange> exchange) {
    exchange_ = std::move(exchange);
    const Buffer arena = exchange_->TakeArena();
    workload_.Initialize(arena.get());
    exchange_->PushInitial(arena);
  }

  // Trains all steps, and compares the chunks that it reads.
  void Train(const ExchangeReference& reference) {
    for (int64_t trained = 0; trained < kTrainedSteps;) {
      const Task task = state_.Next();
      ASSERT_NE(task.kind, Task::Kind::kFail) << state_.status();
      if (task.kind != Task::Kind::kTrain) continue;
      ASSERT_EQ(task.version, trained);
      Push(task);
      state_.MarkDone(task);
      ++trained;
    }
    state_.SetFinished();
    ASSERT_EQ(state_.Next().kind, Task::Kind::kFinish) << state_.status();
    ExpectVersion(kTrainedSteps, reference);
    exchange_->Finish();
  }

 private:
  WorkState::Options StateOptions() const {
    WorkState::Options options;
    options.steps = kTrainedSteps;
    options.chunks = chunks_.read;
    return options;
  }

  void Push(const Task& task) {
    const ArenaLayout& layout = workload_.layout;
    for (int chunk = 0; chunk < kWorkloadChunks; ++chunk) {
      if (!chunks_.read.Contains(chunk)) continue;
      ASSERT_TRUE(state_.AwaitWeights(
          task, layout.ChunkBegin(chunk),
          layout.ChunkBegin(chunk) + layout.ChunkSize(chunk)))
          << state_.status();
    }
    const auto gradients = exchange_->Begin(task.version, task.items);
    for (int leaf = leaves_.begin; leaf < leaves_.end; ++leaf) {
      const Buffer arena = exchange_->TakeArena();
      workload_.Gradient(task.version, leaf, state_.Weights(task.version),
                         arena.get());
      for (int chunk = chunks_.end - 1; chunk >= chunks_.begin; --chunk) {
        NodeChunk part;
        part.node = gradients->NodeOf(leaf);
        part.chunk = chunk;
        part.arena = arena;
        part.sample_count = ExchangeWorkload::SampleCountOf(leaf);
        if (chunk == 0) {
          part.loss_sum = ExchangeWorkload::LossOf(task.version, leaf);
        }
        gradients->Ready(std::move(part));
      }
    }
  }

  void ExpectVersion(int64_t version, const ExchangeReference& reference) {
    const ArenaLayout& layout = workload_.layout;
    for (int chunk = 0; chunk < kWorkloadChunks; ++chunk) {
      if (!chunks_.read.Contains(chunk)) continue;
      const int64_t begin = layout.ChunkBegin(chunk);
      EXPECT_EQ(std::memcmp(state_.Weights(version) + begin,
                            &reference.versions[version][begin],
                            layout.ChunkSize(chunk) * sizeof(float)),
                0)
          << "chunk " << chunk;
    }
  }

  const ExchangeWorkload& workload_;
  const LeafRange leaves_;
  const WorkerChunks chunks_;
  SynchronousWork state_;
  std::unique_ptr<AllReduceExchange> exchange_;
};

// The first stages of the members of each replica.
using Replicas = std::vector<std::vector<int>>;

// Saved chunks, by version and number.
using Saved = std::map<std::pair<int64_t, int>, std::vector<float>>;

struct Trained {
  std::vector<StepSums> sums;
  Saved saved;
};

Trained Train(const ExchangeWorkload& workload, const Replicas& replicas,
              bool shard_optimizer, const ExchangeReference& reference) {
  AllReduceExchange::Options options;
  options.job = workload.job;
  options.job.mutable_exchange()->mutable_all_reduce()->set_shard_optimizer(
      shard_optimizer);
  options.steps = kTrainedSteps;
  const std::vector<LeafRange> leaves =
      ExchangeWorkload::Assign(static_cast<int>(replicas.size()));
  for (size_t replica = 0; replica < replicas.size(); ++replica) {
    const std::vector<int>& first = replicas[replica];
    for (size_t i = 0; i < first.size(); ++i) {
      options.assignments.push_back(leaves[replica]);
      options.chunks.push_back(ChunksOf(
          first[i], i + 1 < first.size() ? first[i + 1]
                                         : static_cast<int>(Stages().size())));
    }
  }
  Trained trained;
  absl::Mutex mu;
  options.save = [&](int64_t version, const Snapshot::Chunk& chunk) {
    absl::MutexLock lock(&mu);
    const float* const values = chunk.values.get();
    const bool first =
        trained.saved
            .emplace(std::make_pair(version, chunk.number),
                     std::vector<float>(values, values + chunk.elements))
            .second;
    EXPECT_TRUE(first) << "chunk " << chunk.number << " is saved twice";
  };
  const int count = static_cast<int>(options.assignments.size());
  auto meshes = MakeLocalMeshes(count);
  std::vector<std::unique_ptr<Member>> members;
  for (int member = 0; member < count; ++member) {
    members.push_back(std::make_unique<Member>(
        &workload, options.assignments[member], options.chunks[member]));
    options.on_sums = nullptr;
    if (member == 0) {
      options.on_sums = [&](const StepSums& sums) {
        absl::MutexLock lock(&mu);
        trained.sums.push_back(sums);
      };
    }
    auto exchange = AllReduceExchange::Create(options, &workload.layout,
                                              members.back()->state(),
                                              std::move(meshes[member]));
    EXPECT_TRUE(exchange.ok()) << exchange.status();
    if (!exchange.ok()) return trained;
    members.back()->SetExchange(*std::move(exchange));
  }
  std::vector<std::thread> threads;
  for (const auto& member : members) {
    threads.emplace_back([&, m = member.get()] { m->Train(reference); });
  }
  for (std::thread& thread : threads) thread.join();
  return trained;
}

class StagedAllReduceTest
    : public testing::TestWithParam<std::tuple<std::string, int, bool>> {};

TEST_P(StagedAllReduceTest, HasTheResultsOfOneProcess) {
  const Replicas kReplicas[] = {
      {{0, 1, 2}},                  // One replica.
      {{0, 1, 2}, {0, 1, 2}},       //
      {{0, 1, 2}, {0}, {0, 1, 2}},  // A worker with all stages.
      {{0, 2}, {0, 1}, {0, 1, 2}},  // Workers with two stages.
  };
  const auto& [optimizer, replicas, shard_optimizer] = GetParam();
  const ExchangeWorkload workload(optimizer);
  ASSERT_EQ(workload.layout.chunk_count(), kWorkloadChunks);
  const ExchangeReference reference(workload);
  const Trained trained =
      Train(workload, kReplicas[replicas], shard_optimizer, reference);
  ASSERT_EQ(trained.sums.size(), size_t{kTrainedSteps});
  for (int64_t step = 0; step < kTrainedSteps; ++step) {
    const StepSums& sums = trained.sums[step];
    EXPECT_EQ(sums.step(), step);
    EXPECT_EQ(sums.weight(), ExchangeWorkload::SampleCount());
    double loss = 0;
    for (int i = 0; i < ExchangeWorkload::kMicroBatches; ++i) {
      loss += ExchangeWorkload::LossOf(step, i);
    }
    EXPECT_NEAR(sums.loss_sum(), loss, 1e-9);
    if (optimizer == "skip" && step == ExchangeWorkload::kSkippedStep) continue;
    EXPECT_EQ(std::vector<double>(sums.sum_of_squares().begin(),
                                  sums.sum_of_squares().end()),
              reference.squares[step]);
  }
  // Each chunk of the last version is saved once, by its owner.
  ASSERT_EQ(trained.saved.size(), size_t{kWorkloadChunks});
  for (const auto& [key, values] : trained.saved) {
    EXPECT_EQ(key.first, kTrainedSteps);
    EXPECT_EQ(
        std::memcmp(values.data(),
                    &reference.versions[kTrainedSteps]
                                       [workload.layout.ChunkBegin(key.second)],
                    values.size() * sizeof(float)),
        0)
        << "chunk " << key.second;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, StagedAllReduceTest,
    testing::Combine(testing::Values("sgd", "adamw", "clip", "skip"),
                     testing::Values(0, 1, 2, 3), testing::Bool()),
    [](const auto& info) {
      return absl::StrCat(std::get<0>(info.param), "_", std::get<1>(info.param),
                          std::get<2>(info.param) ? "_sharded" : "");
    });

}  // namespace
}  // namespace tributary
