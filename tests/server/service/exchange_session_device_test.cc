// An ExchangeSession whose engine shares a device's memory with the worker. The
// device is simulated in host memory.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/monotonic_clock.h"
#include "common/job/job.h"
#include "common/os/shared_memory.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/service/exchange_session.h"
#include "tests/server/service/small_store.h"
#include "tests/support/executors.h"
#include "tests/support/fake_streams.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr int kChunks = 2;
constexpr int64_t kElements = 16;
constexpr int64_t kArena = kChunks * kElements;

class FakeShare final : public DeviceShare {
 public:
  FakeShare() {
    handle_.process = 1;
    handle_.handle = "weights";
    handle_.bytes = 2 * kArena * int64_t{sizeof(float)};
  }
  const DeviceMemoryHandle& weights() const override { return handle_; }
  absl::StatusOr<Gradients> AllocateGradients(int64_t elements) override {
    const auto memory = std::make_shared<std::vector<float>>(elements, 3.0f);
    gradients = memory;
    return Gradients{std::shared_ptr<float>(memory, memory->data()),
                     {1, "gradients", elements * int64_t{sizeof(float)}}};
  }
  absl::Status CopyToHost(const float* from, int64_t elements,
                          float* to) override {
    std::memcpy(to, from, static_cast<size_t>(elements) * sizeof(float));
    return absl::OkStatus();
  }

  std::weak_ptr<std::vector<float>> gradients;  // Of the last worker.

 private:
  DeviceMemoryHandle handle_;
};

// Weights and state are in host memory. Counts how often they would leave the
// device, which `*broken` prevents.
class FakePass final : public ChunkPass {
 public:
  FakePass(std::unique_ptr<ChunkPass> pass, int* to_host, int* fetched,
           const bool* broken)
      : pass_(std::move(pass)),
        to_host_(to_host),
        fetched_(fetched),
        broken_(*broken) {}

  bool brief() const override { return true; }
  absl::StatusOr<double> SumOfSquares(const TreeSum& sum) override {
    return pass_->SumOfSquares(sum);
  }
  absl::StatusOr<double> Run(const Arguments& arguments) override {
    const bool to_host = arguments.next->place != MemoryPlace::kDevice;
    *to_host_ += to_host ? 1 : 0;
    absl::StatusOr<double> squares = pass_->Run(arguments);
    float* const values = arguments.next->values.get();
    newest_.assign(values, values + kElements);
    if (!to_host) std::fill_n(values, kElements, -1.0f);
    return squares;
  }
  absl::Status Fetch(int64_t, float* to) override {
    if (broken_) return absl::InternalError("the device is broken");
    ++*fetched_;
    std::copy(newest_.begin(), newest_.end(), to);
    return absl::OkStatus();
  }
  absl::Status Restore(std::vector<Buffer> slots) override {
    return pass_->Restore(std::move(slots));
  }
  absl::Status CopyState(absl::Span<const Buffer> to) override {
    return pass_->CopyState(to);
  }

 private:
  const std::unique_ptr<ChunkPass> pass_;
  int* const to_host_;
  int* const fetched_;
  const bool& broken_;
  std::vector<float> newest_;
};

class ExchangeSessionDeviceTest : public testing::Test {
 protected:
  ExchangeSessionDeviceTest() {
    const ParameterTable table = TableOfOneParameter(kArena, kElements);
    UpdateEngine::Options options = SmallStoreOptions();
    options.make_passes = [this](const ChunkPassPlan& plan) {
      absl::StatusOr<ChunkPasses> made = MakeBlockPasses(plan);
      for (auto& pass : made->passes) {
        pass = std::make_unique<FakePass>(std::move(pass), &to_host_, &fetched_,
                                          &broken_);
      }
      made->share = share_;
      return made;
    };
    options.on_failure = [this](const absl::Status& status) {
      failure_ = status;
    };
    engine_ = *UpdateEngine::Create(options, *ArenaLayout::Create(table),
                                    &pool_, [](const StepSums&) {});
    served_.weights = {engine_.get(), "job", /*attempt=*/3};
    session_ = std::make_unique<ExchangeSession>(served_, &counters_,
                                                 &arrivals_, &stream_);
  }

  // The Hello of a worker without a GPU.
  WorkerMessage Hello() const {
    WorkerMessage hello;
    hello.mutable_hello()->set_attempt(3);
    hello.mutable_hello()->set_job_id("job");
    hello.mutable_hello()->set_signature(engine_->layout().signature());
    return hello;
  }
  // Sends Hello, and returns the answer.
  ServerMessage Greet(int device_arenas) {
    WorkerMessage hello = Hello();
    *hello.mutable_hello()->mutable_memory() = memory_->offer();
    hello.mutable_hello()->set_device_arenas(device_arenas);
    Receive(hello);
    return stream_.Read(session_.get())->message;
  }
  void Answer(bool device_mapped) {
    WorkerMessage answer;
    answer.mutable_memory_answer()->set_mapped(true);
    answer.mutable_memory_answer()->set_device_mapped(device_mapped);
    Receive(answer);
  }
  void Receive(const WorkerMessage& message, const std::string& payload = "") {
    session_->OnMessage(message, PayloadFrom(payload));
  }
  void Initialize() {
    const std::vector<float> values(kElements, 10.0f);
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      WorkerMessage message;
      message.mutable_initial()->set_chunk(chunk);
      Receive(message, std::string(reinterpret_cast<const char*>(values.data()),
                                   values.size() * sizeof(float)));
    }
  }
  void Contribute(int64_t step, int chunk, int node, int64_t offset,
                  int64_t sample_count = 4) {
    WorkerMessage message;
    Contribution* const c = message.mutable_in_memory()->add_contribution();
    c->set_step(step);
    c->set_chunk(chunk);
    c->set_node(node);
    c->set_weight(sample_count);
    c->set_on_device(true);
    c->set_offset(offset);
    Receive(message);
  }
  std::vector<float> ValuesOf(int chunk, int64_t version) {
    const absl::StatusOr<WeightsVersion> read = engine_->Read(chunk, version);
    if (!read.ok()) return {};
    const float* const values = static_cast<const float*>(read->values.data);
    return std::vector<float>(values, values + kElements);
  }

  InlineExecutor pool_;
  int to_host_ = 0, fetched_ = 0;
  bool broken_ = false;
  absl::Status failure_;
  const std::shared_ptr<FakeShare> share_ = std::make_shared<FakeShare>();
  const std::shared_ptr<SharedMemory> memory_ =
      *SharedMemory::Create(kArena * int64_t{sizeof(float)});
  std::unique_ptr<UpdateEngine> engine_;
  ExchangeSession::Served served_;
  TransportCounters counters_;
  StepArrivals arrivals_{&MonotonicNow};
  FakeServerStream<ServerMessage> stream_;
  std::unique_ptr<ExchangeSession> session_;
};

TEST_F(ExchangeSessionDeviceTest, OffersWeightsAndRoomForGradients) {
  const ServerMessage answer = Greet(/*device_arenas=*/3);
  EXPECT_EQ(answer.welcome().device_weights().handle(), "weights");
  EXPECT_EQ(answer.welcome().device_gradients().handle(), "gradients");
  EXPECT_EQ(answer.welcome().device_gradients().bytes(),
            3 * kArena * int64_t{sizeof(float)});
  EXPECT_TRUE(answer.welcome().has_memory()) << "the fallback";
}

TEST_F(ExchangeSessionDeviceTest, OffersNothingToAWorkerThatAsksForNothing) {
  const ServerMessage answer = Greet(/*device_arenas=*/0);
  EXPECT_FALSE(answer.welcome().has_device_weights());
  EXPECT_FALSE(answer.welcome().has_device_gradients());
}

TEST_F(ExchangeSessionDeviceTest, KeepsVersionsOnTheDeviceUntilTheyAreRead) {
  Greet(/*device_arenas=*/2);
  Answer(/*device_mapped=*/true);
  Initialize();
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    Contribute(0, chunk, /*node=*/1, chunk * kElements);
  }
  const auto notice = stream_.Read(session_.get());
  ASSERT_TRUE(notice.has_value());
  EXPECT_EQ(notice->message.in_memory().weights_size(), 2 * kChunks);
  EXPECT_EQ(to_host_, 0);
  EXPECT_EQ(fetched_, 0);
  // 10 minus a mean gradient of 3 / 4.
  EXPECT_THAT(ValuesOf(/*chunk=*/1, /*version=*/1), Each(9.25f));
  EXPECT_EQ(fetched_, 1);
  ValuesOf(/*chunk=*/1, /*version=*/1);
  EXPECT_EQ(fetched_, 1);
}

TEST_F(ExchangeSessionDeviceTest, AWorkerWithoutAGpuFindsTheWeightsOnTheHost) {
  Greet(/*device_arenas=*/2);
  Answer(/*device_mapped=*/true);
  Initialize();
  Contribute(0, /*chunk=*/0, /*node=*/1, 0);
  FakeServerStream<ServerMessage> stream;
  ExchangeSession other(served_, &counters_, &arrivals_, &stream);
  other.OnMessage(Hello(), PayloadFrom(""));
  float newest = 0;
  while (const auto sent = stream.Read(&other)) {
    const Weights& weights = sent->message.weights();
    if (weights.chunk() != 0 || weights.version() != 1) continue;
    ASSERT_EQ(sent->payload.size(), kElements * sizeof(float));
    std::memcpy(&newest, sent->payload.data(), sizeof(newest));
  }
  EXPECT_EQ(newest, 9.25f);
  EXPECT_EQ(to_host_, 0);
  Contribute(0, /*chunk=*/1, /*node=*/1, 0);
  EXPECT_EQ(to_host_, 1) << "from now on, versions are copied to the host";
  other.OnGone();
}

TEST_F(ExchangeSessionDeviceTest, WeightsThatCannotBeCopiedAreNotGivenOut) {
  Greet(/*device_arenas=*/2);
  Answer(/*device_mapped=*/true);
  Initialize();
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    Contribute(0, chunk, /*node=*/1, chunk * kElements);
  }
  broken_ = true;
  EXPECT_THAT(engine_->Read(/*chunk=*/1, /*version=*/1).status(),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("chunk 1")));
  EXPECT_FALSE(engine_->TakeSnapshot(1, [](const Snapshot&) { FAIL(); }));
  EXPECT_THAT(failure_, StatusIs(absl::StatusCode::kInternal,
                                 HasSubstr("the device is broken")));
  FakeServerStream<ServerMessage> stream;
  ExchangeSession other(served_, &counters_, &arrivals_, &stream);
  other.OnMessage(Hello(), PayloadFrom(""));
  while (const auto sent = stream.Read(&other)) {
    EXPECT_NE(sent->message.weights().version(), 1);
  }
  other.OnGone();
}

TEST_F(ExchangeSessionDeviceTest, AWorkerThatCannotMapUsesTheHostsMemory) {
  Greet(/*device_arenas=*/2);
  Answer(/*device_mapped=*/false);
  EXPECT_TRUE(share_->gradients.expired());
  Initialize();
  Contribute(0, /*chunk=*/0, /*node=*/1, 0);
  ASSERT_TRUE(stream_.closed().has_value());
  EXPECT_THAT(std::string(stream_.closed()->message()),
              HasSubstr("gradients in GPU memory"));
}

TEST_F(ExchangeSessionDeviceTest, RefusesGradientsBeyondTheMemory) {
  Greet(/*device_arenas=*/2);
  Answer(/*device_mapped=*/true);
  Initialize();
  Contribute(0, /*chunk=*/0, /*node=*/1, 2 * kArena - kElements + 1);
  ASSERT_TRUE(stream_.closed().has_value());
  EXPECT_TRUE(absl::IsInvalidArgument(*stream_.closed()));
  EXPECT_THAT(std::string(stream_.closed()->message()),
              HasSubstr("element 49 of 64"));
}

TEST_F(ExchangeSessionDeviceTest, RefusesAnAnswerWithoutAnOffer) {
  Greet(/*device_arenas=*/0);
  Answer(/*device_mapped=*/true);
  ASSERT_TRUE(stream_.closed().has_value());
  EXPECT_THAT(std::string(stream_.closed()->message()),
              HasSubstr("MemoryAnswer without an offer"));
}

// The rest of the step comes from another worker.
TEST_F(ExchangeSessionDeviceTest, KeepsTheGradientsOfALostWorkerWhileInUse) {
  Greet(/*device_arenas=*/2);
  Answer(/*device_mapped=*/true);
  Initialize();
  Contribute(0, /*chunk=*/0, /*node=*/2, 0, /*sample_count=*/2);
  session_->OnGone();
  session_ = nullptr;
  ASSERT_FALSE(share_->gradients.expired());
  NodeSum rest;
  rest.node = 3;
  rest.sample_count = 2;
  std::vector<float> gradient(kElements, 1.0f);
  rest.gradient =
      std::make_shared<GradientInMemory>(MemoryView{gradient.data()});
  EXPECT_TRUE(engine_->AddContribution(0, std::move(rest)).ok());
  EXPECT_THAT(ValuesOf(/*chunk=*/0, /*version=*/1), Each(9.0f));
  EXPECT_TRUE(share_->gradients.expired());
}

}  // namespace
}  // namespace tributary
