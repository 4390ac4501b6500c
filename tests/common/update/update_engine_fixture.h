// A parameter engine with a subscriber that records all updates, for tests of
// the engine.
#ifndef TRIBUTARY_TESTS_COMMON_UPDATE_UPDATE_ENGINE_FIXTURE_H_
#define TRIBUTARY_TESTS_COMMON_UPDATE_UPDATE_ENGINE_FIXTURE_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/base/thread_pool.h"
#include "common/job/job.h"
#include "common/parameters/arena_layout.h"
#include "common/update/update_engine.h"
#include "gtest/gtest.h"

namespace tributary {

inline constexpr int64_t kChunkElements = 32;
inline constexpr int kLeaves = 4;

// Returns the values of `weights`. Expects that they are encoded as FLOAT32.
inline const float* Floats(const WeightsVersion& weights) {
  EXPECT_EQ(weights.values.encoding, FLOAT32);
  return static_cast<const float*>(weights.values.data);
}

// Records the versions and outcomes that the engine publishes. Thread-safe.
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
  // Blocks until `chunks` chunks have arrived and all of them are at `version`.
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
  // Returns an element of the newest version of the chunk.
  float At(int chunk, int64_t element) const {
    absl::MutexLock lock(&mu_);
    return Floats(latest_.at(chunk))[element];
  }
  // Returns the newest values of the chunk as streams send them.
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

// Returns the layout of parameters with these numbers of elements.
inline ArenaLayout LayoutOf(int64_t chunk_elements,
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

// Returns the layout of two parameters: 50 elements, a gap of 14 elements, and
// 16 elements. Its chunks have 32, 32 and 16 elements.
inline ArenaLayout Layout() { return LayoutOf(kChunkElements, {50, 16}); }

class UpdateEngineTest : public ::testing::Test {
 protected:
  // Creates the engine of a job. `consistency` is its field
  // exchange.parameter_server.consistency in protobuf text. If `first_version`
  // is 0, initializes all weights to 1.
  void Make(double clip_norm = 0, int64_t steps = 3,
            const std::string& consistency = "", int64_t first_version = 0) {
    UpdateEngine::Options options;
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
    Start(options, Layout());
  }

  // Creates the engine. `layout` has the chunks of Layout().
  void Start(const UpdateEngine::Options& options, ArenaLayout layout) {
    pool_ = std::make_unique<ThreadPool>(2);
    engine_ = *UpdateEngine::Create(options, std::move(layout), pool_.get(),
                                    [this](const StepSums& sums) {
                                      absl::MutexLock lock(&mu_);
                                      sums_.push_back(sums);
                                    });
    engine_->Subscribe(&recorder_, MemoryPlace::kHost);
    if (options.first_version > 0) return;
    for (int chunk = 0; chunk < 3; ++chunk) {
      ASSERT_TRUE(engine_->AddInitial(chunk, Filled(chunk, 1)).ok());
    }
  }

  ~UpdateEngineTest() override {
    if (engine_ != nullptr) engine_->Unsubscribe(&recorder_);
    pool_.reset();
  }

  // Returns a buffer for the chunk that holds 0 in the gap and `value`
  // elsewhere.
  Buffer Filled(int chunk, float value) {
    Buffer buffer = engine_->memory().TakeBuffer();
    for (int64_t i = 0; i < engine_->layout().ChunkSize(chunk); ++i) {
      const int64_t element = engine_->layout().ChunkBegin(chunk) + i;
      buffer.get()[i] = element >= 50 && element < 64 ? 0 : value;
    }
    return buffer;
  }

  // Adds the contribution of one node, whose elements are `value`.
  absl::Status Contribute(int64_t step, int chunk, int node, float value) {
    return engine_->AddContribution(chunk, Sum(step, chunk, node, value));
  }

  // Adds the gradient of a whole batch, for asynchronous mode.
  absl::Status ContributeWhole(int64_t step, int chunk, int64_t base_version,
                               float value, double norm = 0) {
    NodeSum sum = Sum(step, chunk, /*node=*/1, value);
    sum.base_version = base_version;
    sum.gradient_norm = norm;
    sum.sender = recorder_.id();
    return engine_->AddContribution(chunk, std::move(sum));
  }

  NodeSum Sum(int64_t step, int chunk, int node, float value) {
    const Buffer gradient = Filled(chunk, value);
    NodeSum sum;
    sum.step = step;
    sum.node = node;
    sum.gradient = std::make_shared<GradientInMemory>(
        MemoryView{gradient.get(), gradient});
    sum.sample_count = 2;
    sum.loss_sum = 1.5;
    return sum;
  }

  // Adds the contributions of all leaves to all chunks.
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
  std::unique_ptr<UpdateEngine> engine_;
  std::unique_ptr<ThreadPool> pool_;
};

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_COMMON_UPDATE_UPDATE_ENGINE_FIXTURE_H_
