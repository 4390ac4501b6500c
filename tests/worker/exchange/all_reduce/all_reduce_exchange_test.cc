#include "worker/exchange/all_reduce/all_reduce_exchange.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/numerics/vector_ops.h"
#include "common/optimizer/optimizer.h"
#include "common/optimizer/schedule.h"
#include "common/optimizer/update_recipe.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/exchange/mesh/gloo_meshes.h"
#include "tests/worker/exchange/mesh/local_mesh.h"
#include "worker/exchange/subtree_reducer.h"
#include "worker/state/synchronous_work.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;
using Meshes = std::vector<std::unique_ptr<PeerMesh>>;

constexpr int kMicroBatches = 8;
constexpr int64_t kSteps = 7;

// Eleven chunks, the last one short, with gaps.
ArenaLayout Layout() {
  ParameterTable table;
  table.set_chunk_elements(64);
  for (const int64_t size : {100, 5, 300, 250}) {
    auto* const parameter = table.add_parameter();
    parameter->set_name(absl::StrCat("p", size));
    parameter->add_shape(size);
    parameter->set_group(size > 50 ? DECAY : NO_DECAY);
  }
  return *ArenaLayout::Create(table);
}

JobSpec Job(const std::string& kind) {
  JobSpec job;
  job.mutable_batch()->set_global(32);
  job.mutable_batch()->set_micro_batches(kMicroBatches);
  job.mutable_schedule()->set_warmup_steps(3);
  if (kind == "adamw") {
    job.mutable_optimizer()->mutable_adamw()->set_learning_rate(0.01);
    job.mutable_optimizer()->mutable_adamw()->set_weight_decay(0.1);
  } else {
    job.mutable_optimizer()->mutable_sgd()->set_learning_rate(0.1);
    job.mutable_optimizer()->mutable_sgd()->set_momentum(0.9);
    job.mutable_optimizer()->mutable_sgd()->set_weight_decay(0.01);
  }
  if (kind == "clip") job.set_clip_norm(0.5);
  if (kind == "skip") job.set_on_nonfinite(JobSpec::SKIP);
  return job;
}

// Anything that depends on all there is, and is quick.
float Noise(int64_t i, int64_t step, int micro_batch) {
  uint32_t x = static_cast<uint32_t>(i * 2654435761u + step * 40503u +
                                     micro_batch * 2246822519u + 12345u);
  x ^= x >> 15;
  x *= 2246822519u;
  x ^= x >> 13;
  return static_cast<float>(x) / 4294967296.f - 0.5f;
}

int64_t SampleCountOf(int micro_batch) { return 1 + micro_batch % 3; }
double LossOf(int64_t step, int micro_batch) {
  return 0.1 * static_cast<double>(micro_batch) + static_cast<double>(step);
}

// Of the sum of a leaf's losses. In a job that skips steps, the fourth one's is
// not finite.
void Gradient(const ArenaLayout& layout, const JobSpec& job, int64_t step,
              int micro_batch, const float* weights, float* gradient) {
  std::memset(gradient, 0, layout.arena_elements() * sizeof(float));
  for (const Parameter& parameter : layout.parameters()) {
    for (int64_t i = parameter.offset; i < parameter.offset + parameter.size;
         ++i) {
      gradient[i] = 0.3f * weights[i] + Noise(i, step, micro_batch);
    }
  }
  if (job.on_nonfinite() == JobSpec::SKIP && step == 3 && micro_batch == 5) {
    gradient[70] = std::numeric_limits<float>::infinity();
  }
}

void Initialize(const ArenaLayout& layout, float* weights) {
  std::memset(weights, 0, layout.arena_elements() * sizeof(float));
  for (const Parameter& parameter : layout.parameters()) {
    for (int64_t i = 0; i < parameter.size; ++i) {
      weights[parameter.offset + i] = Noise(i, 0, 77);
    }
  }
}

// What one process computes, in plain steps.
struct Reference {
  std::vector<float> weights;
  std::vector<std::vector<double>> squares;  // By step, by chunk.
};

std::vector<float> TreeSum(int node, const std::vector<std::vector<float>>& g) {
  if (node >= kMicroBatches) return g[node - kMicroBatches];
  std::vector<float> left = TreeSum(2 * node, g);
  const std::vector<float> right = TreeSum(2 * node + 1, g);
  for (size_t i = 0; i < left.size(); ++i) left[i] += right[i];
  return left;
}

Reference Compute(const JobSpec& job) {
  const ArenaLayout layout = Layout();
  const auto optimizer = *Optimizer::Create(job.optimizer());
  const size_t size = layout.arena_elements();
  Reference reference;
  reference.weights.resize(size);
  Initialize(layout, reference.weights.data());
  std::vector<std::vector<float>> slots(optimizer->slots(),
                                        std::vector<float>(size));
  int64_t sample_count = 0;
  for (int micro_batch = 0; micro_batch < kMicroBatches; ++micro_batch) {
    sample_count += SampleCountOf(micro_batch);
  }
  for (int64_t step = 0; step < kSteps; ++step) {
    std::vector<std::vector<float>> gradients(kMicroBatches,
                                              std::vector<float>(size));
    for (int micro_batch = 0; micro_batch < kMicroBatches; ++micro_batch) {
      Gradient(layout, job, step, micro_batch, reference.weights.data(),
               gradients[micro_batch].data());
    }
    const std::vector<float> sum = TreeSum(1, gradients);
    std::vector<double> squares;
    double all = 0;
    for (int chunk = 0; chunk < layout.chunk_count(); ++chunk) {
      squares.push_back(SumOfSquares(&sum[layout.ChunkBegin(chunk)],
                                     layout.ChunkSize(chunk)));
      all += squares.back();
    }
    reference.squares.push_back(squares);
    if (!std::isfinite(all)) continue;
    std::vector<float> next = reference.weights;
    for (int chunk = 0; chunk < layout.chunk_count(); ++chunk) {
      const int64_t begin = layout.ChunkBegin(chunk);
      const std::vector<ChunkSegment> segments = layout.ChunkSegments(chunk);
      std::vector<float*> state;
      for (auto& slot : slots) state.push_back(&slot[begin]);
      UpdateStep numbers;
      UpdateArguments update;
      update.gradient_sum = &sum[begin];
      numbers.gradient_scale =
          GradientScale(sample_count, job.clip_norm(),
                        std::sqrt(all) / static_cast<double>(sample_count));
      update.weights = &reference.weights[begin];
      update.new_weights = &next[begin];
      update.slots = absl::MakeSpan(state);
      update.segments = segments;
      numbers.learning_rate = LearningRateAt(job, kSteps, step);
      numbers.number = step;
      optimizer->At(numbers).Update(update);
    }
    reference.weights = next;
  }
  return reference;
}

std::vector<LeafRange> AssignMicroBatches(int members) {
  std::vector<LeafRange> ranges;
  for (int i = 0; i < members; ++i) {
    ranges.push_back(
        {i * kMicroBatches / members, (i + 1) * kMicroBatches / members});
  }
  return ranges;
}

// A worker, without a model: a thread that does what its state says.
class Member {
 public:
  Member(const JobSpec& job, const ArenaLayout* layout, LeafRange micro_batches)
      : job_(job), layout_(layout), state_(StateOptions(), layout) {
    Deal assignment;
    assignment.set_generation(1);
    assignment.set_leaf_begin(micro_batches.begin);
    assignment.set_leaf_end(micro_batches.end);
    state_.SetAssignment(assignment);
    state_.RequestInitialize();
  }
  ~Member() { Join(); }

  SynchronousWork* state() { return &state_; }

  void Start(std::unique_ptr<AllReduceExchange> exchange) {
    exchange_ = std::move(exchange);
    thread_ = std::thread([this] { Run(); });
  }
  void Join() {
    if (thread_.joinable()) thread_.join();
  }
  // Dies in the middle of things.
  void Kill() {
    state_.Fail(absl::CancelledError("killed"));
    Join();
    exchange_.reset();
  }
  AllReduceExchange* exchange() { return exchange_.get(); }

 private:
  static WorkState::Options StateOptions() {
    WorkState::Options options;
    options.steps = kSteps;
    return options;
  }

  void Run() {
    while (true) {
      const Task task = state_.Next();
      switch (task.kind) {
        case Task::Kind::kInitialize: {
          const Buffer arena = exchange_->TakeArena();
          Initialize(*layout_, arena.get());
          exchange_->PushInitial(arena);
          break;
        }
        case Task::Kind::kTrain:
          Train(task);
          break;
        case Task::Kind::kFinish:
          exchange_->Finish();
          return;
        case Task::Kind::kFail:
          // As a worker that leaves: the others must not wait for it.
          exchange_.reset();
          return;
        default:
          break;
      }
    }
  }

  // Two lanes, from the last leaf to the first.
  void Train(const Task& task) {
    SubtreeReducer reducer(
        layout_, kMicroBatches, ExchangeSpec::FLOAT32, task.items,
        [&](NodeChunk sum) { exchange_->Push(task.version, std::move(sum)); });
    std::vector<std::thread> threads;
    for (size_t thread = 0; thread < 2; ++thread) {
      threads.emplace_back([&, thread] {
        for (size_t i = thread; i < task.items.size(); i += 2) {
          TrainMicroBatch(task, static_cast<int>(task.items[i]), &reducer);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    state_.MarkDone(task);
  }

  void TrainMicroBatch(const Task& task, int micro_batch,
                       SubtreeReducer* reducer) {
    if (!state_.AwaitWeights(task, 0, layout_->arena_elements())) return;
    const Buffer arena = exchange_->TakeArena();
    Gradient(*layout_, job_, task.version, micro_batch,
             state_.Weights(task.version), arena.get());
    for (int chunk = layout_->chunk_count() - 1; chunk >= 0; --chunk) {
      reducer->ChunkReady(micro_batch, chunk, arena, SampleCountOf(micro_batch),
                          chunk == 0 ? LossOf(task.version, micro_batch) : 0);
    }
  }

  const JobSpec job_;
  const ArenaLayout* const layout_;
  SynchronousWork state_;
  std::unique_ptr<AllReduceExchange> exchange_;
  std::thread thread_;
};

class Group {
 public:
  // `on_step` is told of each step.
  Group(const JobSpec& job, bool shard_optimizer, Meshes meshes,
        std::function<void(int64_t)> on_step = nullptr) {
    const int size = static_cast<int>(meshes.size());
    const std::vector<LeafRange> assignments = AssignMicroBatches(size);
    for (int rank = 0; rank < size; ++rank) {
      members_.push_back(
          std::make_unique<Member>(job, &layout_, assignments[rank]));
    }
    for (int rank = 0; rank < size; ++rank) {
      AllReduceExchange::Options options;
      options.job = job;
      options.steps = kSteps;
      options.shard_optimizer = shard_optimizer;
      options.assignments = assignments;
      options.on_sums = [this, rank, on_step](const StepSums& sums) {
        EXPECT_EQ(rank, 0);
        {
          absl::MutexLock lock(&mu_);
          sums_.push_back(sums);
        }
        if (on_step) on_step(sums.step());
        if (sums.step() < kSteps - 1) return;
        for (const auto& member : members_) member->state()->SetFinished();
      };
      auto exchange = AllReduceExchange::Create(
          options, &layout_, members_[rank]->state(), std::move(meshes[rank]));
      EXPECT_TRUE(exchange.ok()) << exchange.status();
      exchanges_.push_back(*std::move(exchange));
    }
    for (int rank = 0; rank < size; ++rank) {
      members_[rank]->Start(std::move(exchanges_[rank]));
    }
  }
  ~Group() {
    for (const auto& member : members_) {
      member->state()->Fail(absl::CancelledError("over"));
    }
  }

  void Join() {
    for (const auto& member : members_) member->Join();
  }
  Member* member(int rank) { return members_[rank].get(); }
  const ArenaLayout& layout() const { return layout_; }
  std::vector<StepSums> sums() {
    absl::MutexLock lock(&mu_);
    return sums_;
  }

 private:
  const ArenaLayout layout_ = Layout();
  absl::Mutex mu_;
  std::vector<StepSums> sums_ ABSL_GUARDED_BY(mu_);
  std::vector<std::unique_ptr<AllReduceExchange>> exchanges_;
  std::vector<std::unique_ptr<Member>> members_;
};

void ExpectSums(const std::vector<StepSums>& sums, const Reference& reference) {
  ASSERT_EQ(sums.size(), size_t{kSteps});
  for (int64_t step = 0; step < kSteps; ++step) {
    EXPECT_EQ(sums[step].step(), step);
    int64_t sample_count = 0;
    double loss = 0;
    for (int micro_batch = 0; micro_batch < kMicroBatches; ++micro_batch) {
      sample_count += SampleCountOf(micro_batch);
      loss += LossOf(step, micro_batch);
    }
    EXPECT_EQ(sums[step].weight(), sample_count);
    EXPECT_NEAR(sums[step].loss_sum(), loss, 1e-9);
    ASSERT_EQ(sums[step].sum_of_squares_size(),
              static_cast<int>(reference.squares[step].size()));
    for (int chunk = 0; chunk < sums[step].sum_of_squares_size(); ++chunk) {
      EXPECT_EQ(sums[step].sum_of_squares(chunk),
                reference.squares[step][chunk]);
    }
  }
}

void ExpectReference(const JobSpec& job, bool shard_optimizer, Meshes meshes) {
  ASSERT_FALSE(meshes.empty());
  const size_t size = meshes.size();
  const Reference reference = Compute(job);
  Group group(job, shard_optimizer, std::move(meshes));
  group.Join();
  for (size_t rank = 0; rank < size; ++rank) {
    Member* const member = group.member(static_cast<int>(rank));
    ASSERT_TRUE(member->state()->status().ok()) << member->state()->status();
    EXPECT_EQ(
        std::memcmp(member->state()->Weights(kSteps), reference.weights.data(),
                    reference.weights.size() * sizeof(float)),
        0)
        << "member " << rank;
    EXPECT_EQ(member->exchange()->bytes_sent() > 0, size > 1);
  }
  ExpectSums(group.sums(), reference);
}

// Kind of job, members, whether the optimizer's state is sharded.
class AllReduceTest
    : public testing::TestWithParam<std::tuple<std::string, int, bool>> {};

TEST_P(AllReduceTest, GivesTheBitsOfOneProcess) {
  const auto& [kind, members, shard] = GetParam();
  ExpectReference(Job(kind), shard, MakeLocalMeshes(members));
}

TEST_P(AllReduceTest, GivesTheBitsOfOneProcessWithGloo) {
  const auto& [kind, members, shard] = GetParam();
  if (members == 1) GTEST_SKIP() << "nobody to connect to";
  ExpectReference(Job(kind), shard, MakeGlooMeshes(members));
}

INSTANTIATE_TEST_SUITE_P(
    All, AllReduceTest,
    testing::Combine(testing::Values("sgd", "adamw", "clip", "skip"),
                     testing::Values(1, 2, 3, 5, 8), testing::Bool()),
    [](const auto& info) {
      return absl::StrCat(std::get<0>(info.param), "_", std::get<1>(info.param),
                          std::get<2>(info.param) ? "_sharded" : "");
    });

TEST(AllReduceExchangeTest, NamesWhatIsNotFinite) {
  Group group(Job("skip"), /*shard_optimizer=*/false, MakeLocalMeshes(2));
  group.Join();
  const std::vector<StepSums> sums = group.sums();
  ASSERT_EQ(sums.size(), size_t{kSteps});
  ASSERT_EQ(sums[3].nonfinite_size(), 1);
  EXPECT_EQ(sums[3].nonfinite(0).chunk(), 1);
  EXPECT_EQ(sums[3].nonfinite(0).element(), 70 - 64);
  EXPECT_EQ(sums[4].nonfinite_size(), 0);
}

TEST(AllReduceExchangeTest, EndsEverywhereWhenAMemberDies) {
  for (const bool gloo : {false, true}) {
    absl::Mutex mu;
    int64_t steps = 0;
    Meshes meshes = gloo ? MakeGlooMeshes(3) : MakeLocalMeshes(3);
    ASSERT_EQ(meshes.size(), 3u);
    Group group(Job("sgd"), /*shard_optimizer=*/false, std::move(meshes),
                [&](int64_t) {
                  absl::MutexLock lock(&mu);
                  ++steps;
                });
    {
      const auto some = [&] { return steps >= 2; };
      absl::MutexLock lock(&mu, absl::Condition(&some));
    }
    group.member(1)->Kill();
    group.Join();
    for (const int rank : {0, 2}) {
      const absl::Status status = group.member(rank)->state()->status();
      // Or it had all that it needed.
      if (status.ok()) continue;
      EXPECT_TRUE(absl::IsUnavailable(status)) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr("member "));
    }
  }
}

TEST(AllReduceExchangeTest, RefusesAssignmentsThatDoNotFit) {
  const ArenaLayout layout = Layout();
  WorkState::Options state_options;
  state_options.steps = kSteps;
  SynchronousWork state(state_options, &layout);
  AllReduceExchange::Options options;
  options.job = Job("sgd");
  options.steps = kSteps;
  for (const std::vector<LeafRange>& assignments :
       {std::vector<LeafRange>{{0, 8}},
        {{0, 4}, {4, 7}},
        {{0, 4}, {5, 8}},
        {{0, 8}, {8, 8}}}) {
    options.assignments = assignments;
    Meshes meshes = MakeLocalMeshes(2);
    EXPECT_TRUE(absl::IsInvalidArgument(
        AllReduceExchange::Create(options, &layout, &state,
                                  std::move(meshes[0]))
            .status()));
  }
}

}  // namespace
}  // namespace tributary
