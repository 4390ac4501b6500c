#include "server/parameter_store.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/blocking_counter.h"
#include "common/job.h"
#include "common/streaming_copy.h"
#include "common/thread_pool.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kChunkElements = 32;
constexpr int kLeaves = 4;

const float* Floats(const WeightsVersion& weights) {
  EXPECT_EQ(weights.values.encoding, FLOAT32);
  return static_cast<const float*>(weights.values.data);
}

class Recorder : public WeightsSubscriber {
 public:
  void OnWeights(const WeightsVersion& weights) override {
    absl::MutexLock lock(&mu_);
    versions_[weights.chunk].push_back(weights.version);
    latest_[weights.chunk] = weights;
  }
  void OnOutcome(const Outcome& outcome, int64_t version) override {
    absl::MutexLock lock(&mu_);
    outcomes_.push_back(absl::StrCat("step ", outcome.step(), " chunk ",
                                     outcome.chunk(), " age ", outcome.age(),
                                     outcome.refused() ? " refused" : " taken",
                                     " at ", version));
  }
  std::vector<std::string> outcomes() const {
    absl::MutexLock lock(&mu_);
    return outcomes_;
  }
  // Waits until every chunk is at `version`.
  void Await(int64_t version, size_t chunks) {
    const auto there = [&]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
      return latest_.size() == chunks &&
             std::all_of(latest_.begin(), latest_.end(), [&](const auto& e) {
               return e.second.version == version;
             });
    };
    absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(&there));
  }
  std::map<int, std::vector<int64_t>> versions() const {
    absl::MutexLock lock(&mu_);
    return versions_;
  }
  float At(int chunk, int64_t element) const {
    absl::MutexLock lock(&mu_);
    return Floats(latest_.at(chunk))[element];
  }
  // As streams get it.
  std::string Payload(int chunk) const {
    absl::MutexLock lock(&mu_);
    const EncodedFloats& values = latest_.at(chunk).values;
    return std::string(static_cast<const char*>(values.data), values.bytes);
  }

 private:
  mutable absl::Mutex mu_;
  std::map<int, std::vector<int64_t>> versions_;
  std::map<int, WeightsVersion> latest_;
  std::vector<std::string> outcomes_;
};

ArenaLayout LayoutOf(int64_t chunk_elements,
                     const std::vector<int64_t>& sizes) {
  ParameterTable table;
  table.set_chunk_elements(chunk_elements);
  for (const int64_t size : sizes) {
    auto* parameter = table.add_parameter();
    parameter->set_name(absl::StrCat("p", table.parameter_size()));
    parameter->add_shape(size);
    parameter->set_group(NO_DECAY);
  }
  return *ArenaLayout::Create(table);
}

// 50 elements, a gap of 14, then 16: chunks of 32, 32 and 16.
ArenaLayout Layout() { return LayoutOf(kChunkElements, {50, 16}); }

// The payload of chunk 0 after two updates: 16384 elements, parameters, gaps
// and the begin of a parameter that takes the layout to `elements`.
std::string UpdatedChunk(int64_t elements, ExchangeSpec exchange) {
  constexpr int64_t kChunk = 16384;
  ParameterStore::Options options;
  *options.job.mutable_exchange() = std::move(exchange);
  options.job.mutable_optimizer()->mutable_sgd()->set_learning_rate(0.1);
  options.job.mutable_batch()->set_micro_batches(2);
  options.steps = 2;
  ThreadPool pool(1);
  const ArenaLayout layout = LayoutOf(kChunk, {50, 3000, 1, elements});
  const std::unique_ptr<ParameterStore> store =
      *ParameterStore::Create(options, layout, &pool, [](const StepSums&) {});
  std::mt19937 generator(1);
  const auto random = [&] {
    Buffer values = store->TakeBuffer();
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
      buffer = store->TakeBuffer();
      std::fill_n(buffer.get(), kChunk, 7.f);
    }
  }
  EXPECT_TRUE(store->AddInitial(0, random()).ok());
  Recorder recorder;
  store->Subscribe(&recorder, /*in_memory=*/false);
  for (int64_t step = 0; step < 2; ++step) {
    for (const int leaf : {2, 3}) {
      const Buffer gradient = random();
      IncomingSum sum;
      sum.step = step;
      sum.node = leaf;
      sum.sum.gradient =
          std::make_shared<GradientInMemory>(gradient.get(), gradient);
      sum.sum.weight = 1;
      EXPECT_TRUE(store->AddContribution(0, std::move(sum)).ok());
    }
    recorder.Await(step + 1, 1);
  }
  store->Unsubscribe(&recorder);
  return recorder.Payload(0);
}

class ParameterStoreTest : public ::testing::Test {
 protected:
  void Make(double clip_norm = 0, int64_t steps = 3,
            const std::string& consistency = "", int64_t first_version = 0) {
    ParameterStore::Options options;
    ASSERT_TRUE(
        SetField(&options.job,
                 "exchange.parameter_server.consistency={" + consistency + "}")
            .ok());
    options.job.mutable_optimizer()->mutable_sgd()->set_learning_rate(0.5);
    options.job.mutable_optimizer()->mutable_sgd()->set_momentum(0.5);
    options.job.mutable_batch()->set_global(8);
    options.job.mutable_batch()->set_micro_batches(kLeaves);
    options.job.set_clip_norm(clip_norm);
    options.steps = steps;
    options.first_version = first_version;
    pool_ = std::make_unique<ThreadPool>(2);
    store_ = *ParameterStore::Create(options, Layout(), pool_.get(),
                                     [this](const StepSums& sums) {
                                       absl::MutexLock lock(&mu_);
                                       sums_.push_back(sums);
                                     });
    store_->Subscribe(&recorder_, /*in_memory=*/false);
    if (first_version > 0) return;
    for (int chunk = 0; chunk < 3; ++chunk) {
      ASSERT_TRUE(store_->AddInitial(chunk, Filled(chunk, 1)).ok());
    }
  }

  ~ParameterStoreTest() override {
    if (store_ != nullptr) store_->Unsubscribe(&recorder_);
    pool_.reset();
  }

  // Zero in the gap, `value` elsewhere.
  Buffer Filled(int chunk, float value) {
    Buffer buffer = store_->TakeBuffer();
    for (int64_t i = 0; i < store_->layout().ChunkSize(chunk); ++i) {
      const int64_t element = store_->layout().ChunkBegin(chunk) + i;
      buffer.get()[i] = element >= 50 && element < 64 ? 0 : value;
    }
    return buffer;
  }

  absl::Status Contribute(int64_t step, int chunk, int node, float value) {
    return store_->AddContribution(chunk, Sum(step, chunk, node, value));
  }

  // Asynchronous: a whole batch.
  absl::Status ContributeWhole(int64_t step, int chunk, int64_t base_version,
                               float value, double norm = 0) {
    IncomingSum sum = Sum(step, chunk, /*node=*/1, value);
    sum.base_version = base_version;
    sum.gradient_norm = norm;
    sum.sender = &recorder_;
    return store_->AddContribution(chunk, std::move(sum));
  }

  IncomingSum Sum(int64_t step, int chunk, int node, float value) {
    const Buffer gradient = Filled(chunk, value);
    IncomingSum sum;
    sum.step = step;
    sum.node = node;
    sum.sum = {std::make_shared<GradientInMemory>(gradient.get(), gradient), 2,
               1.5};
    return sum;
  }

  void ContributeAll(int64_t step, float value) {
    for (int chunk = 0; chunk < 3; ++chunk) {
      for (int leaf = 0; leaf < kLeaves; ++leaf) {
        EXPECT_TRUE(Contribute(step, chunk, kLeaves + leaf, value).ok());
      }
    }
  }

  std::vector<StepSums> sums() {
    absl::MutexLock lock(&mu_);
    return sums_;
  }

  absl::Mutex mu_;
  std::vector<StepSums> sums_ ABSL_GUARDED_BY(mu_);
  Recorder recorder_;
  std::unique_ptr<ParameterStore> store_;
  std::unique_ptr<ThreadPool> pool_;
};

TEST(ParameterStore, LargeModelsAreUpdatedToTheSameBits) {
  for (const WireDtype dtype :
       {ExchangeSpec::FLOAT32, ExchangeSpec::BFLOAT16}) {
    ExchangeSpec exchange;
    exchange.set_wire_dtype(dtype);
    const int64_t large = kStreamingBytes / int64_t{sizeof(float)};
    EXPECT_TRUE(UpdatedChunk(large, exchange) == UpdatedChunk(30000, exchange));
  }
}

TEST_F(ParameterStoreTest, StepsWithTheMeanOfTheContributions) {
  Make();
  ContributeAll(0, 4);
  recorder_.Await(1, 3);
  // Mean gradient: 4 leaves of 4, weight 2 each: 2. w = 1 - 0.5 * 2.
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

// Weights and velocity of each chunk.
std::vector<float> Contents(const Snapshot& snapshot,
                            const ArenaLayout& layout) {
  std::vector<float> contents;
  for (const Snapshot::Chunk& chunk : snapshot.chunks) {
    const int64_t size = layout.ChunkSize(chunk.number);
    contents.insert(contents.end(), chunk.values.get(),
                    chunk.values.get() + size);
    EXPECT_EQ(chunk.slots.size(), 1u);
    for (const Buffer& slot : chunk.slots) {
      // Gaps of the state are nobody's.
      for (const ChunkSegment& segment : layout.ChunkSegments(chunk.number)) {
        contents.insert(contents.end(), slot.get() + segment.begin,
                        slot.get() + segment.end);
      }
    }
  }
  return contents;
}

TEST_F(ParameterStoreTest, SnapshotsAreOfOneVersionWhateverIsAskedAndShared) {
  std::vector<float> expected;
  for (const bool shared : {false, true}) {
    for (const bool ahead : {true, false}) {
      if (store_ != nullptr) store_->Unsubscribe(&recorder_);
      pool_.reset();
      Make(/*clip_norm=*/0, /*steps=*/4);
      if (shared) {
        ASSERT_TRUE(store_->ShareWeights().ok());
      }
      Snapshot taken;
      const auto take = [&](Snapshot snapshot) { taken = std::move(snapshot); };
      if (ahead) {
        EXPECT_TRUE(store_->TakeSnapshot(2, take));
      }
      for (int64_t step = 0; step < 2; ++step) {
        ContributeAll(step, static_cast<float>(step + 3));
        recorder_.Await(step + 1, 3);
      }
      if (!ahead) {
        EXPECT_TRUE(store_->TakeSnapshot(2, take));
      }
      EXPECT_FALSE(store_->TakeSnapshot(1, take));
      // What comes after it does not touch it.
      for (int64_t step = 2; step < 4; ++step) {
        ContributeAll(step, 5);
        recorder_.Await(step + 1, 3);
      }
      ASSERT_EQ(taken.chunks.size(), 3u);
      EXPECT_EQ(taken.version, 2);
      const std::vector<float> contents = Contents(taken, store_->layout());
      if (expected.empty()) expected = contents;
      EXPECT_EQ(contents, expected);
      // Mean gradients 1.5, 2: v = 2.75, w = 1 - 0.75 - 1.375.
      EXPECT_EQ(contents[0], -1.125f);
    }
  }
}

TEST_F(ParameterStoreTest, GoesOnFromASnapshotToTheSameBits) {
  Make(/*clip_norm=*/0, /*steps=*/4);
  Snapshot taken;
  EXPECT_TRUE(store_->TakeSnapshot(
      2, [&](Snapshot snapshot) { taken = std::move(snapshot); }));
  for (int64_t step = 0; step < 4; ++step) {
    ContributeAll(step, static_cast<float>(step));
    recorder_.Await(step + 1, 3);
  }
  const float last = recorder_.At(2, 15);
  store_->Unsubscribe(&recorder_);
  pool_.reset();
  Make(/*clip_norm=*/0, /*steps=*/4, "", /*first_version=*/2);
  store_->Unsubscribe(&recorder_);
  store_->Restore(std::move(taken));
  store_->Subscribe(&recorder_, /*in_memory=*/false);
  EXPECT_EQ(store_->CompleteVersion(), 2);
  // What belongs to a step that is in it already is dropped.
  EXPECT_TRUE(Contribute(1, 0, 1, 99).ok());
  for (int64_t step = 2; step < 4; ++step) {
    ContributeAll(step, static_cast<float>(step));
    recorder_.Await(step + 1, 3);
  }
  EXPECT_EQ(recorder_.At(2, 15), last);
}

TEST_F(ParameterStoreTest, WaitsForTheNormWhenItClips) {
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
  store_->SetGradientNorm(/*step=*/0, /*norm=*/4);
  recorder_.Await(1, 3);
  EXPECT_NEAR(recorder_.At(0, 0), 1 - 0.5 * 2 / 4, 1e-6);
  // A norm of a step that is over changes nothing.
  store_->SetGradientNorm(/*step=*/0, /*norm=*/4);
}

TEST_F(ParameterStoreTest, AnyOrderAndRepeatsGiveTheSameBits) {
  std::map<int, std::vector<float>> expected;
  for (int trial = 0; trial < 20; ++trial) {
    if (store_ != nullptr) store_->Unsubscribe(&recorder_);
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

TEST_F(ParameterStoreTest, KeepsTheVersionBefore) {
  Make();
  ContributeAll(0, 4);
  recorder_.Await(1, 3);
  EXPECT_EQ(Floats(*store_->Read(0, 0))[0], 1);
  EXPECT_EQ(Floats(*store_->Read(0, 1))[0], 0);
  Recorder late;
  store_->Subscribe(&late, /*in_memory=*/false);
  EXPECT_EQ(late.versions()[0], (std::vector<int64_t>{0, 1}));
  store_->Unsubscribe(&late);
  ContributeAll(1, 4);
  recorder_.Await(2, 3);
  EXPECT_EQ(store_->Read(0, 0).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(late.versions()[0], (std::vector<int64_t>{0, 1}));
}

// The weights move into shared memory in mid-training; those who get them
// through a stream see no difference, the others find them at their places.
TEST_F(ParameterStoreTest, SharesItsWeights) {
  Make(/*clip_norm=*/0, /*steps=*/5);
  ContributeAll(0, 4);
  recorder_.Await(1, 3);
  const auto offer = store_->ShareWeights();
  ASSERT_TRUE(offer.ok()) << offer.status();
  const auto memory = MappedMemory::Map(*offer);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ((*memory)->bytes(), 2 * kPageBytes);
  const auto place = [&](int64_t version, int chunk) {
    return reinterpret_cast<const float*>((*memory)->data() +
                                          version % 2 * kPageBytes) +
           store_->layout().ChunkBegin(chunk);
  };
  for (int chunk = 0; chunk < 3; ++chunk) {
    EXPECT_EQ(place(0, chunk)[0], 1);
    EXPECT_EQ(place(1, chunk)[0], 0);
  }
  Recorder in_memory;
  store_->Subscribe(&in_memory, /*in_memory=*/true);
  EXPECT_EQ(in_memory.versions()[0], (std::vector<int64_t>{0, 1}));
  const WeightsVersion before = *store_->Read(1, 1);
  for (int64_t step = 1; step < 4; ++step) {
    ContributeAll(step, 4);
    recorder_.Await(step + 1, 3);
    in_memory.Await(step + 1, 3);
    for (int chunk = 0; chunk < 3; ++chunk) {
      for (int64_t i = 0; i < store_->layout().ChunkSize(chunk); ++i) {
        EXPECT_EQ(place(step + 1, chunk)[i], recorder_.At(chunk, i));
        EXPECT_EQ(Floats(*store_->Read(chunk, step + 1))[i],
                  recorder_.At(chunk, i));
      }
    }
  }
  // What was handed out is not overwritten.
  EXPECT_EQ(Floats(before)[0], 0);
  store_->Unsubscribe(&in_memory);
}

TEST_F(ParameterStoreTest, FirstInitialValuesStay) {
  Make();
  EXPECT_TRUE(store_->AddInitial(0, Filled(0, 7)).ok());
  EXPECT_EQ(Floats(*store_->Read(0, 0))[0], 1);
}

TEST_F(ParameterStoreTest, RefusesWhatNoHonestWorkerSends) {
  Make();
  EXPECT_EQ(store_->CheckChunk(3).code(), absl::StatusCode::kInvalidArgument);
  absl::Status status = Contribute(0, 0, 2 * kLeaves, 1);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("node 8"));
  status = Contribute(1, 0, 4, 1);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("chunk 0: a contribution to step 1 comes too early at "
                        "version 0"));
  status = Contribute(-1, 0, 4, 1);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("count from 0"));
  IncomingSum negative = Sum(0, 0, 4, 1);
  negative.sum.weight = -1;
  status = store_->AddContribution(0, std::move(negative));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ParameterStoreTest, StaleSynchronousAppliesEarlyStepsInTheirOrder) {
  Make(/*clip_norm=*/0, /*steps=*/3, "stale_synchronous { staleness: 1 }");
  // Step 1 first; chunk 2 gets step 0 last.
  ContributeAll(1, 2);
  EXPECT_FALSE(Contribute(2, 0, 1, 1).ok());
  for (int chunk = 0; chunk < 3; ++chunk) {
    EXPECT_TRUE(Contribute(0, chunk, /*node=*/1, 4).ok());
  }
  recorder_.Await(2, 3);
  ContributeAll(2, 0);
  recorder_.Await(3, 3);
  for (int chunk = 0; chunk < 3; ++chunk) {
    EXPECT_EQ(recorder_.versions()[chunk], (std::vector<int64_t>{0, 1, 2, 3}));
  }
  // Gradients 4 / 2, 8 / 8, 0: velocities 2, 2, 1; the rate is 0.5.
  EXPECT_EQ(recorder_.At(0, 0), 1 - 0.5f * (2 + 2 + 1));
  ASSERT_EQ(sums().size(), 3u);
  for (int64_t step = 0; step < 3; ++step) EXPECT_EQ(sums()[step].step(), step);
}

TEST_F(ParameterStoreTest, AsynchronousAppliesOnArrivalAndAnswers) {
  Make(/*clip_norm=*/0, /*steps=*/3, "asynchronous { max_staleness: 1 }");
  for (const int64_t step : {2, 0}) {
    for (int chunk = 0; chunk < 3; ++chunk) {
      EXPECT_TRUE(ContributeWhole(step, chunk, /*base_version=*/0, 2).ok());
    }
  }
  recorder_.Await(2, 3);
  // Twice, and too old.
  EXPECT_TRUE(ContributeWhole(2, 0, 0, 2).ok());
  EXPECT_TRUE(ContributeWhole(1, 0, 0, 2).ok());
  EXPECT_TRUE(ContributeWhole(1, 0, 1, 2).ok());
  EXPECT_TRUE(ContributeWhole(1, 0, 2, 2).ok());
  std::vector<std::string> of_chunk_0;
  for (const std::string& outcome : recorder_.outcomes()) {
    if (absl::StrContains(outcome, "chunk 0")) of_chunk_0.push_back(outcome);
  }
  EXPECT_EQ(of_chunk_0,
            (std::vector<std::string>{"step 2 chunk 0 age 0 taken at 1",
                                      "step 0 chunk 0 age 1 taken at 2",
                                      "step 2 chunk 0 age 2 taken at 2",
                                      "step 1 chunk 0 age 2 refused at 2",
                                      "step 1 chunk 0 age 1 taken at 3",
                                      "step 1 chunk 0 age 1 taken at 3"}));
  EXPECT_EQ(recorder_.At(0, 0), 1 - 0.5f * (1 + 1.5f + 1.75f));
  // Only steps that every chunk has had are reported.
  ASSERT_EQ(sums().size(), 2u);
  EXPECT_EQ(sums()[0].step(), 2);
  EXPECT_EQ(sums()[0].loss_sum(), 1.5);
  EXPECT_EQ(sums()[1].step(), 0);
  store_->Unsubscribe(&recorder_);
  // Nobody is left to be told.
  EXPECT_TRUE(ContributeWhole(1, 1, 2, 2).ok());
}

TEST_F(ParameterStoreTest, AsynchronousClipsByTheNormThatCame) {
  Make(/*clip_norm=*/3, /*steps=*/1, "asynchronous {}");
  for (int chunk = 0; chunk < 3; ++chunk) {
    EXPECT_TRUE(ContributeWhole(0, chunk, 0, 4, /*norm=*/6).ok());
  }
  recorder_.Await(1, 3);
  // 4 / 2, halved by clipping; PyTorch's rule adds 1e-6 to the norm.
  EXPECT_NEAR(recorder_.At(0, 0), 1 - 0.5f * 1, 1e-6);
}

TEST_F(ParameterStoreTest, AsynchronousDividesTheRateByStaleness) {
  Make(/*clip_norm=*/0, /*steps=*/4,
       "asynchronous { learning_rate_by_staleness: true }");
  for (const int64_t step : {0, 1, 2}) {
    for (int chunk = 0; chunk < 3; ++chunk) {
      EXPECT_TRUE(ContributeWhole(step, chunk, 0, 2).ok());
    }
  }
  recorder_.Await(3, 3);
  // Staleness 0, 1 and 2: only the last one's rate is halved.
  EXPECT_EQ(recorder_.At(0, 0), 1 - 0.5f * (1 + 1.5f + 1.75f / 2));
}

}  // namespace
}  // namespace tributary
