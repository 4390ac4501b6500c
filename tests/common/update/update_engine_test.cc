#include "common/update/update_engine.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "common/base/thread_pool.h"
#include "common/numerics/streaming_copy.h"
#include "common/parameters/arena_layout.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/update/update_engine_fixture.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The payload of chunk 0 after two updates: 16384 elements, parameters, gaps
// and the begin of a parameter that takes the layout to `elements`.
std::string UpdatedChunk(int64_t elements, ExchangeSpec exchange) {
  constexpr int64_t kChunk = 16384;
  UpdateEngine::Options options;
  *options.job.mutable_exchange() = std::move(exchange);
  options.job.mutable_optimizer()->mutable_sgd()->set_learning_rate(0.1);
  options.job.mutable_batch()->set_micro_batches(2);
  options.steps = 2;
  ThreadPool pool(1);
  const ArenaLayout layout = LayoutOf(kChunk, {50, 3000, 1, elements});
  const std::unique_ptr<UpdateEngine> engine =
      *UpdateEngine::Create(options, layout, &pool, [](const StepSums&) {});
  std::mt19937 generator(1);
  const auto random = [&] {
    Buffer values = engine->memory().TakeBuffer();
    std::normal_distribution<float> normal;
    std::fill_n(values.get(), kChunk, 0.f);
    for (const ChunkSegment& segment : layout.ChunkSegments(0)) {
      for (int64_t i = segment.begin; i < segment.end; ++i) {
        values.get()[i] = normal(generator);
      }
    }
    return values;
  };
  {
    // What buffers held before must not be seen.
    std::vector<Buffer> used(8);
    for (Buffer& buffer : used) {
      buffer = engine->memory().TakeBuffer();
      std::fill_n(buffer.get(), kChunk, 7.f);
    }
  }
  EXPECT_TRUE(engine->AddInitial(0, random()).ok());
  Recorder recorder;
  engine->Subscribe(&recorder, MemoryPlace::kHost);
  for (int64_t step = 0; step < 2; ++step) {
    for (const int leaf : {2, 3}) {
      const Buffer gradient = random();
      NodeSum sum;
      sum.step = step;
      sum.node = leaf;
      sum.gradient = std::make_shared<GradientInMemory>(
          MemoryView{gradient.get(), gradient});
      sum.sample_count = 1;
      EXPECT_TRUE(engine->AddContribution(0, std::move(sum)).ok());
    }
    recorder.Await(step + 1, 1);
  }
  engine->Unsubscribe(&recorder);
  return recorder.Payload(0);
}

TEST(UpdateEngine, LargeModelsAreUpdatedToTheSameBits) {
  for (const WireDtype dtype :
       {ExchangeSpec::FLOAT32, ExchangeSpec::BFLOAT16}) {
    ExchangeSpec exchange;
    exchange.set_wire_dtype(dtype);
    const int64_t large = kStreamingBytes / int64_t{sizeof(float)};
    EXPECT_TRUE(UpdatedChunk(large, exchange) == UpdatedChunk(30000, exchange));
  }
}

TEST_F(UpdateEngineTest, AppliesTheRateThatWorkersState) {
  Make();
  for (int chunk = 0; chunk < 3; ++chunk) {
    for (int leaf = 0; leaf < kLeaves; ++leaf) {
      NodeSum sum = Sum(/*step=*/0, chunk, kLeaves + leaf, /*value=*/2);
      // A worker without an opinion has that of the others.
      if (leaf > 0) sum.learning_rate = 0.25;
      EXPECT_EQ(engine_->AddContribution(chunk, std::move(sum)),
                absl::OkStatus());
    }
  }
  recorder_.Await(1, 3);
  // The mean gradient is 1: two samples for each contribution.
  float first = 0;
  std::memcpy(&first, recorder_.Payload(0).data(), sizeof(first));
  EXPECT_EQ(first, 1 - 0.25f);
  ASSERT_THAT(sums(), ::testing::SizeIs(1));
  EXPECT_EQ(sums()[0].learning_rate(), 0.25);
  ContributeAll(/*step=*/1, /*value=*/0);
  recorder_.Await(2, 3);
  EXPECT_FALSE(sums()[1].has_learning_rate());
}

TEST_F(UpdateEngineTest, RefusesRatesThatDiffer) {
  Make();
  NodeSum sum = Sum(0, 0, kLeaves, 2);
  sum.learning_rate = 0.25;
  EXPECT_EQ(engine_->AddContribution(0, std::move(sum)), absl::OkStatus());
  sum = Sum(0, 1, kLeaves + 1, 2);
  sum.learning_rate = 0.5;
  EXPECT_THAT(
      engine_->AddContribution(1, std::move(sum)),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("0.25 and 0.5")));
}

TEST_F(UpdateEngineTest, LocalStepsHaveTheRateOfTheSchedule) {
  Make(/*clip_norm=*/0, /*steps=*/3, "local_steps {}");
  NodeSum sum = Sum(0, 0, kLeaves, 2);
  sum.learning_rate = 0.25;
  EXPECT_THAT(
      engine_->AddContribution(0, std::move(sum)),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("local_steps")));
}

TEST_F(UpdateEngineTest, NeedsTheRateOfAPlateau) {
  UpdateEngine::Options options;
  options.job.mutable_optimizer()->mutable_sgd()->set_learning_rate(0.5);
  options.job.mutable_optimizer()->mutable_sgd()->set_momentum(0);
  options.job.mutable_schedule()->set_decay(ScheduleSpec::PLATEAU);
  options.job.mutable_batch()->set_micro_batches(kLeaves);
  options.steps = 3;
  Start(options, Layout());
  EXPECT_THAT(
      Contribute(0, 0, kLeaves, 2),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("learning_rate")));
  NodeSum sum = Sum(0, 0, kLeaves, 2);
  sum.learning_rate = 0.25;
  EXPECT_EQ(engine_->AddContribution(0, std::move(sum)), absl::OkStatus());
}

TEST_F(UpdateEngineTest, StepsWithTheMeanOfTheContributions) {
  Make();
  ContributeAll(0, 4);
  recorder_.Await(1, 3);
  // Mean gradient: 4 leaves of 4, sample count 2 each: 2. w = 1 - 0.5 * 2.
  EXPECT_EQ(recorder_.At(0, 0), 0);
  EXPECT_EQ(recorder_.At(2, 15), 0);
  // The gap stays zero.
  EXPECT_EQ(recorder_.At(1, 20), 0);
  ContributeAll(1, 4);
  recorder_.Await(2, 3);
  // v = 0.5 * 2 + 2 = 3; w = 0 - 1.5.
  EXPECT_EQ(recorder_.At(0, 0), -1.5f);
  ASSERT_EQ(sums().size(), 2);
  EXPECT_EQ(sums()[0].step(), 0);
  EXPECT_EQ(sums()[1].step(), 1);
  EXPECT_EQ(sums()[0].weight(), 8);
  EXPECT_EQ(sums()[0].loss_sum(), 6);
  // 32 elements of 16, squared.
  EXPECT_EQ(sums()[0].sum_of_squares(0), 32. * 256);
  EXPECT_EQ(sums()[0].sum_of_squares(1), 18. * 256);
}

TEST_F(UpdateEngineTest, WaitsForTheNormWhenItClips) {
  Make(/*clip_norm=*/1);
  ContributeAll(0, 4);
  // The sums come from the pool, the versions only after the norm.
  {
    const auto summed = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
      return sums_.size() == 1;
    };
    absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(&summed));
  }
  EXPECT_EQ(recorder_.versions()[0], std::vector<int64_t>{0});
  // A late repeat of a closed step changes nothing.
  EXPECT_TRUE(Contribute(0, 0, 1, 99).ok());
  EXPECT_TRUE(engine_->SetGradientNorm(/*step=*/0, /*norm=*/4).ok());
  recorder_.Await(1, 3);
  EXPECT_NEAR(recorder_.At(0, 0), 1 - 0.5 * 2 / 4, 1e-6);
  // A norm of a step that is over changes nothing.
  EXPECT_TRUE(engine_->SetGradientNorm(/*step=*/0, /*norm=*/4).ok());
}

TEST_F(UpdateEngineTest, RefusesTrustRatiosThatItsOptimizerDoesNotHave) {
  Make(/*clip_norm=*/1);
  EXPECT_THAT(
      engine_->SetGradientNorm(/*step=*/0, /*norm=*/4, /*trust_ratios=*/{1}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("expected 0")));
}

TEST_F(UpdateEngineTest, UpdatesWithTheTrustRatiosOfTheOrder) {
  ParameterTable table;
  table.set_chunk_elements(kChunkElements);
  for (const int size : {50, 16}) {
    auto* const parameter = table.add_parameter();
    parameter->set_name(absl::StrCat("p", size));
    parameter->add_shape(size);
    parameter->set_group(DECAY);
  }
  UpdateEngine::Options options;
  options.job.mutable_optimizer()->mutable_lamb()->set_learning_rate(0.1);
  options.job.mutable_batch()->set_micro_batches(kLeaves);
  options.steps = 3;
  Start(options, *ArenaLayout::Create(table));
  ContributeAll(0, 4);
  {
    const auto summed = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
      return sums_.size() == 1;
    };
    absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(&summed));
    // Parts of 32, 18 and 16 elements. Weights are 1; so is the direction of a
    // first step, without weight decay.
    EXPECT_THAT(sums_[0].weight_squares(), ElementsAre(32, 18, 16));
    for (int part = 0; part < 3; ++part) {
      EXPECT_NEAR(sums_[0].direction_squares(part),
                  sums_[0].weight_squares(part), 1e-3);
    }
  }
  for (const std::vector<float>& wrong : std::vector<std::vector<float>>{
           {}, {1}, {1, 1, 1}, {1, -1}, {1, std::nanf("")}, {INFINITY, 1}}) {
    EXPECT_THAT(
        engine_->SetGradientNorm(/*step=*/0, /*norm=*/4, wrong),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("trust ratio")));
  }
  EXPECT_EQ(recorder_.versions()[0], std::vector<int64_t>{0});
  EXPECT_EQ(engine_->SetGradientNorm(/*step=*/0, /*norm=*/4, {0.5f, 2}),
            absl::OkStatus());
  recorder_.Await(1, 3);
  EXPECT_NEAR(recorder_.At(0, 0), 1 - 0.1 * 0.5, 1e-6);
  EXPECT_NEAR(recorder_.At(1, 0), 1 - 0.1 * 0.5, 1e-6);
  EXPECT_NEAR(recorder_.At(2, 0), 1 - 0.1 * 2, 1e-6);
}

TEST_F(UpdateEngineTest, AnyOrderAndRepeatsGiveTheSameBits) {
  std::map<int, std::vector<float>> expected;
  for (int trial = 0; trial < 20; ++trial) {
    if (engine_ != nullptr) engine_->Unsubscribe(&recorder_);
    pool_.reset();
    Make();
    std::mt19937 random(trial);
    for (int64_t step = 0; step < 3; ++step) {
      std::vector<std::pair<int, int>> all;  // chunk, leaf
      for (int chunk = 0; chunk < 3; ++chunk) {
        for (int leaf = 0; leaf < kLeaves; ++leaf) {
          all.emplace_back(chunk, leaf);
          if (random() % 3 == 0) all.emplace_back(chunk, leaf);
        }
      }
      std::shuffle(all.begin(), all.end(), random);
      for (const auto& [chunk, leaf] : all) {
        const float value = std::ldexp(
            1.f / static_cast<float>(3 + leaf + 7 * chunk), 7 * leaf % 13);
        ASSERT_TRUE(Contribute(step, chunk, kLeaves + leaf, value).ok());
      }
      recorder_.Await(step + 1, 3);
    }
    for (int chunk = 0; chunk < 3; ++chunk) {
      std::vector<float> values;
      for (int i = 0; i < 16; ++i) values.push_back(recorder_.At(chunk, i));
      const auto [it, fresh] = expected.emplace(chunk, values);
      if (!fresh) {
        EXPECT_EQ(it->second, values);
      }
    }
  }
}

TEST_F(UpdateEngineTest, KeepsTheVersionBefore) {
  Make();
  ContributeAll(0, 4);
  recorder_.Await(1, 3);
  EXPECT_EQ(Floats(*engine_->Read(0, 0))[0], 1);
  EXPECT_EQ(Floats(*engine_->Read(0, 1))[0], 0);
  Recorder late;
  engine_->Subscribe(&late, MemoryPlace::kHost);
  EXPECT_EQ(late.versions()[0], (std::vector<int64_t>{0, 1}));
  engine_->Unsubscribe(&late);
  ContributeAll(1, 4);
  recorder_.Await(2, 3);
  EXPECT_EQ(engine_->Read(0, 0).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(late.versions()[0], (std::vector<int64_t>{0, 1}));
}

// Notes whether OnBurstEnd has followed version 1 of chunk 0.
class BurstWatcher : public WeightsSubscriber {
 public:
  void OnWeights(const WeightsVersion& weights) override {
    if (weights.chunk == 0 && weights.version == 1) updated_ = true;
  }
  void OnBurstEnd() override {
    if (updated_ && !ended_.HasBeenNotified()) ended_.Notify();
  }
  void AwaitEnd() { ended_.WaitForNotification(); }
  bool updated() const { return updated_; }
  bool ended() const { return ended_.HasBeenNotified(); }

 private:
  std::atomic<bool> updated_ = false;
  absl::Notification ended_;
};

// Runs `update`, which updates chunk 0, while the subscription to chunk 2
// begins.
class LateSubscriber final : public BurstWatcher {
 public:
  explicit LateSubscriber(std::function<void()> update)
      : update_(std::move(update)) {}
  void OnWeights(const WeightsVersion& weights) override {
    BurstWatcher::OnWeights(weights);
    if (weights.chunk == 2 && weights.version == 0) std::thread(update_).join();
  }

 private:
  const std::function<void()> update_;
};

TEST(UpdateEngine, ABurstEndsForThoseWhoSubscribeDuringIt) {
  constexpr int64_t kChunk = 32768;  // Too large for an update without a pool.
  UpdateEngine::Options options;
  options.job.mutable_optimizer()->mutable_sgd()->set_learning_rate(0.1);
  options.job.mutable_batch()->set_micro_batches(1);
  options.steps = 1;
  auto pool = std::make_unique<ThreadPool>(1);
  const std::unique_ptr<UpdateEngine> engine =
      *UpdateEngine::Create(options, LayoutOf(kChunk, {3 * kChunk}), pool.get(),
                            [](const StepSums&) {});
  const auto zeros = [&] {
    Buffer values = engine->memory().TakeBuffer();
    std::fill_n(values.get(), kChunk, 0.f);
    return values;
  };
  for (int chunk = 0; chunk < 3; ++chunk) {
    ASSERT_TRUE(engine->AddInitial(chunk, zeros()).ok());
  }
  ASSERT_TRUE(engine->memory().ShareWeights().ok());
  BurstWatcher early;
  engine->Subscribe(&early, MemoryPlace::kShared);
  LateSubscriber late([&] {
    const Buffer gradient = zeros();
    NodeSum sum;
    sum.node = 1;
    sum.gradient = std::make_shared<GradientInMemory>(
        MemoryView{gradient.get(), gradient});
    sum.sample_count = 1;
    EXPECT_TRUE(engine->AddContribution(0, std::move(sum)).ok());
    early.AwaitEnd();
  });
  engine->Subscribe(&late, MemoryPlace::kShared);
  pool.reset();  // Waits for all calls of the subscribers.
  EXPECT_TRUE(late.updated());
  EXPECT_TRUE(late.ended());
  engine->Unsubscribe(&early);
  engine->Unsubscribe(&late);
}

// The weights move into shared memory in mid-training; those who get them
// through a stream see no difference, the others find them at their places.
TEST_F(UpdateEngineTest, SharesItsWeights) {
  Make(/*clip_norm=*/0, /*steps=*/5);
  ContributeAll(0, 4);
  recorder_.Await(1, 3);
  const auto offer = engine_->memory().ShareWeights();
  ASSERT_TRUE(offer.ok()) << offer.status();
  const auto memory = MappedMemory::Map(*offer);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ((*memory)->bytes(), 2 * kPageBytes);
  const auto place = [&](int64_t version, int chunk) {
    return reinterpret_cast<const float*>((*memory)->data() +
                                          version % 2 * kPageBytes) +
           engine_->layout().ChunkBegin(chunk);
  };
  for (int chunk = 0; chunk < 3; ++chunk) {
    EXPECT_EQ(place(0, chunk)[0], 1);
    EXPECT_EQ(place(1, chunk)[0], 0);
  }
  Recorder in_memory;
  engine_->Subscribe(&in_memory, MemoryPlace::kShared);
  EXPECT_EQ(in_memory.versions()[0], (std::vector<int64_t>{0, 1}));
  const WeightsVersion before = *engine_->Read(1, 1);
  for (int64_t step = 1; step < 4; ++step) {
    ContributeAll(step, 4);
    recorder_.Await(step + 1, 3);
    in_memory.Await(step + 1, 3);
    for (int chunk = 0; chunk < 3; ++chunk) {
      for (int64_t i = 0; i < engine_->layout().ChunkSize(chunk); ++i) {
        EXPECT_EQ(place(step + 1, chunk)[i], recorder_.At(chunk, i));
        EXPECT_EQ(Floats(*engine_->Read(chunk, step + 1))[i],
                  recorder_.At(chunk, i));
      }
    }
  }
  // What was handed out is not overwritten.
  EXPECT_EQ(Floats(before)[0], 0);
  engine_->Unsubscribe(&in_memory);
}

TEST_F(UpdateEngineTest, FirstInitialValuesStay) {
  Make();
  EXPECT_TRUE(engine_->AddInitial(0, Filled(0, 7)).ok());
  EXPECT_EQ(Floats(*engine_->Read(0, 0))[0], 1);
}

TEST_F(UpdateEngineTest, RefusesWhatNoHonestWorkerSends) {
  Make();
  EXPECT_EQ(engine_->CheckChunk(3).code(), absl::StatusCode::kInvalidArgument);
  absl::Status status = Contribute(0, 0, 2 * kLeaves, 1);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument,
                               HasSubstr("node 8 ")));
  status = Contribute(1, 0, 4, 1);
  EXPECT_THAT(status,
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("chunk 0: a contribution to step 1 ")));
  status = Contribute(-1, 0, 4, 1);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument,
                               HasSubstr("count from 0")));
  NodeSum negative = Sum(0, 0, 4, 1);
  negative.sample_count = -1;
  status = engine_->AddContribution(0, std::move(negative));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tributary
