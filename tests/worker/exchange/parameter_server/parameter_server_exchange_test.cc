#include "worker/exchange/parameter_server/parameter_server_exchange.h"

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/os/shared_memory.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/fake_streams.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using FakeStream = FakeClientStream<ServerMessage, WorkerMessage>;
using Arrival = WeightsSink::Arrival;

constexpr int kParameterServerExchangeChunks = 6;
constexpr int64_t kElements = 16;

std::string Bytes(float value) {
  const std::vector<float> values(kElements, value);
  return std::string(reinterpret_cast<const char*>(values.data()),
                     values.size() * sizeof(float));
}

// Records what the exchange delivers.
class FakeSink final : public WeightsSink {
 public:
  absl::Status MapChunks(const MappedMemory&, int, int) override {
    return absl::OkStatus();
  }
  Arrival BeginWrite(int chunk, int64_t, float** to) override {
    *to = arena.data() + chunk * kElements;
    return arrival;
  }
  void EndWrite(int chunk, int64_t version) override {
    written.push_back({chunk, version});
  }
  const float* Weights(int64_t) const override { return arena.data(); }
  void SetUnparked(std::function<void()> callback) override {
    unparked = std::move(callback);
  }
  void SetOutcome(const Outcome& outcome) override {
    outcomes.push_back(outcome.step());
  }
  void Fail(const absl::Status& status) override { first.Update(status); }
  absl::Status status() const override { return first; }

  std::vector<float> arena =
      std::vector<float>(kParameterServerExchangeChunks * kElements);
  Arrival arrival = Arrival::kWrite;
  std::vector<std::pair<int, int64_t>> written;
  std::vector<int64_t> outcomes;
  std::function<void()> unparked;
  absl::Status first;
};

// Two servers, of which server 0 has the even chunks and server 1 the odd ones.
class ParameterServerExchangeTest : public testing::Test {
 protected:
  ParameterServerExchangeTest() {
    ParameterTable table;
    table.set_chunk_elements(kElements);
    auto* const parameter = table.add_parameter();
    parameter->set_name("p");
    parameter->add_shape(kParameterServerExchangeChunks * kElements);
    parameter->set_group(DECAY);
    layout_ = std::make_unique<ArenaLayout>(*ArenaLayout::Create(table));
    options_.servers = {{"a:1", {}}, {"b:2", {}}};
    options_.job.mutable_exchange()->mutable_parameter_server();
    options_.job.mutable_exchange()->set_transport(ExchangeSpec::WIRE);
    options_.incarnation = 7;
    options_.secret = "secret";
    options_.attempt = 3;
    options_.job_id = "job";
  }

  // Puts the servers on this host.
  void ShareHost() {
    for (auto& server : options_.servers) {
      server.local.set_host(HostIdentity());
      server.local.set_address(absl::StrCat("unix:", server.address));
    }
  }

  void Connect() {
    auto exchange = ParameterServerExchange::Create(
        options_, layout_.get(), &sink_,
        [this](const std::string& address, absl::Time,
               const std::function<bool()>&)
            -> absl::StatusOr<std::unique_ptr<ExchangeStream>> {
          if (address == unreachable_) {
            return absl::DeadlineExceededError("no connection");
          }
          auto stream = std::make_unique<FakeStream>();
          streams_.push_back(stream.get());
          return stream;
        });
    connected_ = exchange.status();
    if (!exchange.ok()) return;
    exchange_ = *std::move(exchange);
    for (FakeStream* const stream : streams_) {
      const auto hello = stream->Read();
      ASSERT_TRUE(hello.has_value());
      EXPECT_EQ(hello->message.hello().incarnation(), 7);
      EXPECT_EQ(hello->message.hello().secret(), "secret");
      EXPECT_EQ(hello->message.hello().chunk_range_size(),
                options_.chunks.ranges().size());
    }
  }

  void Push(int64_t step, int chunk) { Push(step, chunk, TakeArena()); }
  void Push(int64_t step, int chunk, Buffer arena) {
    NodeChunk sum;
    sum.chunk = chunk;
    sum.node = 1;
    sum.sample_count = 4;
    sum.arena = std::move(arena);
    exchange_->SenderOf(chunk)->Push(step, std::move(sum));
  }
  Buffer TakeArena() { return exchange_->TakeArena(); }

  static ServerMessage WeightsOf(int chunk, int64_t version) {
    ServerMessage message;
    message.mutable_weights()->set_chunk(chunk);
    message.mutable_weights()->set_version(version);
    return message;
  }

  ParameterServerExchange::Options options_;
  std::unique_ptr<ArenaLayout> layout_;
  FakeSink sink_;
  std::string unreachable_;
  absl::Status connected_;
  std::vector<FakeStream*> streams_;  // By shard.
  std::unique_ptr<ParameterServerExchange> exchange_;
};

TEST_F(ParameterServerExchangeTest, ShowsAnAssignmentBeforeContributions) {
  Connect();
  Deal deal;
  deal.set_generation(4);
  deal.set_leaf_begin(1);
  deal.set_leaf_end(3);
  deal.set_chunk_begin(2);
  deal.set_chunk_end(5);
  deal.set_secret("of the deal");
  Push(/*step=*/0, /*chunk=*/0);
  exchange_->ShowAssignment(deal);
  for (FakeStream* const stream : streams_) {
    const auto first = stream->Read();
    ASSERT_TRUE(first.has_value());
    const Assigned& assigned = first->message.assigned();
    EXPECT_EQ(assigned.generation(), 4);
    EXPECT_EQ(assigned.leaf_begin(), 1);
    EXPECT_EQ(assigned.leaf_end(), 3);
    EXPECT_EQ(assigned.chunk_begin(), 2);
    EXPECT_EQ(assigned.chunk_end(), 5);
    EXPECT_EQ(assigned.secret(), "of the deal");
  }
}

TEST_F(ParameterServerExchangeTest, NamesTheServerThatItCannotReach) {
  unreachable_ = "b:2";
  Connect();
  EXPECT_THAT(connected_, StatusIs(absl::StatusCode::kUnavailable,
                                   HasSubstr("server 1 (b:2)")));
}

TEST_F(ParameterServerExchangeTest, SendsOlderStepsAndFirstLayersFirst) {
  Connect();
  for (const int64_t step : {6, 5}) {
    for (const int chunk : {4, 2, 0}) Push(step, chunk);
  }
  std::vector<std::pair<int64_t, int>> sent;
  while (const auto next = streams_[0]->Read()) {
    const Contribution& c = next->message.contribution();
    EXPECT_EQ(next->payload.size(), kElements * sizeof(float));
    sent.push_back({c.step(), c.chunk()});
  }
  using P = std::pair<int64_t, int>;
  EXPECT_THAT(
      sent, ElementsAre(P(5, 0), P(5, 2), P(5, 4), P(6, 0), P(6, 2), P(6, 4)));
  EXPECT_FALSE(streams_[1]->Read().has_value());
}

TEST_F(ParameterServerExchangeTest, WritesTheWeightsThatArrive) {
  Connect();
  EXPECT_TRUE(streams_[1]->Receive(WeightsOf(3, 8), Bytes(2.5f)));
  EXPECT_THAT(sink_.written, ElementsAre(std::make_pair(3, int64_t{8})));
  EXPECT_EQ(sink_.arena[3 * kElements], 2.5f);
  ProcessStatistics statistics;
  exchange_->FillStatistics(&statistics);
  EXPECT_EQ(statistics.bytes_received(), kElements * int64_t{sizeof(float)});
}

TEST_F(ParameterServerExchangeTest, RetriesWhatWasParked) {
  Connect();
  sink_.arrival = Arrival::kPark;
  EXPECT_FALSE(streams_[0]->Receive(WeightsOf(2, 8), Bytes(2.5f)));
  EXPECT_EQ(streams_[0]->resumed(), 0);
  sink_.unparked();
  EXPECT_EQ(streams_[0]->resumed(), 0) << "it must be parked again";
  sink_.arrival = Arrival::kWrite;
  sink_.unparked();
  EXPECT_EQ(streams_[0]->resumed(), 1);
  EXPECT_THAT(sink_.written, ElementsAre(std::make_pair(2, int64_t{8})));
  EXPECT_EQ(sink_.arena[2 * kElements], 2.5f);
}

TEST_F(ParameterServerExchangeTest, PassesOnOutcomes) {
  Connect();
  ServerMessage message;
  message.mutable_outcome()->set_chunk(1);
  message.mutable_outcome()->set_step(4);
  EXPECT_TRUE(streams_[1]->Receive(message));
  EXPECT_THAT(sink_.outcomes, ElementsAre(4));
  // Chunk 1 is not one of server 0's.
  streams_[0]->Receive(message);
  EXPECT_THAT(sink_.outcomes, ElementsAre(4));
  EXPECT_TRUE(absl::IsInvalidArgument(sink_.first)) << sink_.first;
}

TEST_F(ParameterServerExchangeTest, RefusesTheWeightsOfAnotherServersChunk) {
  Connect();
  EXPECT_TRUE(streams_[0]->Receive(WeightsOf(1, 0), Bytes(1)));
  EXPECT_THAT(sink_.first, StatusIs(absl::StatusCode::kInvalidArgument,
                                    HasSubstr("server 0 (a:1): sent chunk 1")));
  EXPECT_TRUE(streams_[0]->cancelled());
  EXPECT_TRUE(sink_.written.empty());
}

// A stage that has chunks 2 to 4.
class StageExchangeTest : public ParameterServerExchangeTest {
 protected:
  StageExchangeTest() {
    ChunkRanges::Message ranges;
    ChunkRange* const range = ranges.Add();
    range->set_begin(2);
    range->set_end(5);
    options_.chunks =
        *ChunkRanges::Create(ranges, kParameterServerExchangeChunks);
    options_.chunk_begin = 2;
    options_.chunk_end = 5;
  }
};

TEST_F(StageExchangeTest, RefusesWeightsThatItHasNotAskedFor) {
  Connect();
  EXPECT_TRUE(streams_[0]->Receive(WeightsOf(4, 0), Bytes(1)));
  EXPECT_EQ(sink_.first, absl::OkStatus());
  EXPECT_TRUE(streams_[1]->Receive(WeightsOf(5, 0), Bytes(1)));
  EXPECT_TRUE(absl::IsInvalidArgument(sink_.first)) << sink_.first;
  EXPECT_THAT(sink_.first.message(), HasSubstr("sent chunk 5"));
}

TEST_F(StageExchangeTest, SendsTheInitialValuesOfItsChunks) {
  Connect();
  exchange_->PushInitial(TakeArena());
  std::vector<int> sent;
  for (FakeStream* const stream : streams_) {
    while (const auto next = stream->Read()) {
      sent.push_back(next->message.initial().chunk());
    }
  }
  EXPECT_THAT(sent, ElementsAre(2, 4, 3));
}

// Backward ends with chunk 3 of server 1, and with chunk 2 of server 0.
TEST_F(StageExchangeTest, AnnouncesItsGradientsAtTheEndOfBackward) {
  ShareHost();
  options_.job.mutable_exchange()->set_transport(ExchangeSpec::AUTO);
  Connect();
  for (FakeStream* const stream : streams_) {
    ServerMessage welcome;
    welcome.mutable_welcome()->mutable_memory();
    stream->Receive(welcome);
    EXPECT_TRUE(stream->Read().has_value());
  }
  for (const int chunk : {4, 3, 2}) Push(5, chunk);
  std::vector<int> announced;
  for (FakeStream* const stream : streams_) {
    while (const auto next = stream->Read()) {
      for (const Contribution& c : next->message.in_memory().contribution()) {
        announced.push_back(c.chunk());
      }
    }
  }
  EXPECT_THAT(announced, ElementsAre(4, 2, 3));
}

TEST_F(ParameterServerExchangeTest, RefusesWeightsOfAWrongSize) {
  Connect();
  EXPECT_TRUE(streams_[0]->Receive(WeightsOf(0, 0), "abc"));
  EXPECT_THAT(sink_.first, StatusIs(absl::StatusCode::kInvalidArgument,
                                    HasSubstr("3 bytes")));
}

TEST_F(ParameterServerExchangeTest, FailsWithTheNameOfTheServerThatIsLost) {
  Connect();
  streams_[1]->End(absl::UnavailableError("reset by peer"));
  EXPECT_THAT(sink_.first, StatusIs(absl::StatusCode::kUnavailable,
                                    "lost server 1 (b:2): reset by peer"));
}

TEST_F(ParameterServerExchangeTest, AServerThatEndsTheCallIsLostToo) {
  Connect();
  streams_[0]->End(absl::OkStatus());
  EXPECT_THAT(sink_.first, StatusIs(absl::StatusCode::kUnavailable,
                                    HasSubstr("lost server 0 (a:1): ")));
}

TEST_F(ParameterServerExchangeTest, HoldsASentArenaUntilTheStreamReleasesIt) {
  Connect();
  Buffer arena = TakeArena();
  const std::weak_ptr<float> kept = arena;
  Push(0, 2, std::move(arena));
  EXPECT_FALSE(kept.expired());
  (void)streams_[0]->Read();
  EXPECT_TRUE(kept.expired());
}

TEST_F(ParameterServerExchangeTest, AsksForADifferentTransportIfMemoryFails) {
  ShareHost();
  options_.job.mutable_exchange()->set_transport(ExchangeSpec::MEMORY);
  Connect();
  ServerMessage declined;
  declined.mutable_welcome();
  streams_[0]->Receive(declined);
  EXPECT_THAT(sink_.first, StatusIs(absl::StatusCode::kFailedPrecondition,
                                    HasSubstr("exchange.transport")));
}

TEST_F(ParameterServerExchangeTest, SendsOnTheStreamIfMemoryIsDeclined) {
  ShareHost();
  options_.job.mutable_exchange()->set_transport(ExchangeSpec::AUTO);
  Connect();
  ServerMessage declined;
  declined.mutable_welcome();
  streams_[0]->Receive(declined);
  EXPECT_EQ(sink_.first, absl::OkStatus());
  Push(0, 0);
  const auto sent = streams_[0]->Read();
  ASSERT_TRUE(sent.has_value());
  EXPECT_TRUE(sent->message.has_contribution());
}

TEST_F(ParameterServerExchangeTest, RefusesMemoryThatItHasNotOffered) {
  Connect();
  ServerMessage welcome;
  welcome.mutable_welcome()->mutable_memory();
  streams_[0]->Receive(welcome);
  EXPECT_TRUE(absl::IsFailedPrecondition(sink_.first)) << sink_.first;
}

// The server shares the worker's gradients, but not its own weights.
TEST_F(ParameterServerExchangeTest, KeepsASharedArenaUntilItsStepIsApplied) {
  ShareHost();
  options_.job.mutable_exchange()->set_transport(ExchangeSpec::AUTO);
  Connect();
  ServerMessage welcome;
  welcome.mutable_welcome()->mutable_memory();
  streams_[0]->Receive(welcome);
  const auto answer = streams_[0]->Read();
  ASSERT_TRUE(answer.has_value());
  EXPECT_TRUE(answer->message.has_memory_answer());
  EXPECT_FALSE(answer->message.memory_answer().mapped());

  Buffer arena = TakeArena();
  const std::weak_ptr<float> kept = arena;
  Push(5, 0, std::move(arena));
  const auto notice = streams_[0]->Read();
  ASSERT_TRUE(notice.has_value());
  ASSERT_EQ(notice->message.in_memory().contribution_size(), 1);
  EXPECT_EQ(notice->message.in_memory().contribution(0).step(), 5);
  EXPECT_FALSE(kept.expired());
  streams_[0]->Receive(WeightsOf(0, 5), Bytes(1));  // Without step 5.
  EXPECT_FALSE(kept.expired());
  streams_[0]->Receive(WeightsOf(0, 6), Bytes(1));
  EXPECT_TRUE(kept.expired());
}

// One server, on this host, whose GPU's memory is simulated in host memory.
class DeviceExchangeTest : public ParameterServerExchangeTest {
 protected:
  static constexpr int64_t kArena = kParameterServerExchangeChunks * kElements;
  static constexpr int64_t kArenaBytes = kArena * int64_t{sizeof(float)};

  DeviceExchangeTest() {
    options_.servers.resize(1);
    ShareHost();
    options_.job.mutable_exchange()->set_transport(ExchangeSpec::AUTO);
    options_.device_arenas = 2;
    options_.map_device = [this](const DeviceMemoryHandle& handle)
        -> absl::StatusOr<MappedDeviceMemory> {
      if (!mappable_) return absl::FailedPreconditionError("no peer access");
      const auto mapped = std::make_shared<std::vector<float>>(
          static_cast<size_t>(handle.bytes) / sizeof(float));
      mapped_[handle.handle] = mapped;
      return MappedDeviceMemory{std::shared_ptr<float>(mapped, mapped->data()),
                                local_};
    };
    options_.log = [this](const std::string& line) { log_.push_back(line); };
  }

  static ServerMessage WelcomeWith(int64_t weight_bytes,
                                   int64_t gradient_bytes) {
    ServerMessage welcome;
    welcome.mutable_welcome()->mutable_memory();
    auto* const weights = welcome.mutable_welcome()->mutable_device_weights();
    weights->set_handle("weights");
    weights->set_bytes(weight_bytes);
    auto* const gradients =
        welcome.mutable_welcome()->mutable_device_gradients();
    gradients->set_handle("gradients");
    gradients->set_bytes(gradient_bytes);
    return welcome;
  }

  // Delivers the welcome, and returns whether the worker has mapped the device.
  bool Greet(const ServerMessage& welcome) {
    Connect();
    streams_[0]->Receive(welcome);
    const auto answer = streams_[0]->Read();
    return answer.has_value() && answer->message.has_memory_answer() &&
           answer->message.memory_answer().device_mapped();
  }
  bool Greet() { return Greet(WelcomeWith(2 * kArenaBytes, 2 * kArenaBytes)); }

  bool mappable_ = true;
  bool local_ = true;
  std::map<std::string, std::weak_ptr<std::vector<float>>> mapped_;
  std::vector<std::string> log_;
};

TEST_F(DeviceExchangeTest, FindsWeightsAndRoomOnTheDevice) {
  ASSERT_TRUE(Greet());
  const float* const weights = mapped_["weights"].lock()->data();
  EXPECT_EQ(exchange_->DeviceWeights(4).values, weights);
  EXPECT_EQ(exchange_->DeviceWeights(5).values, weights + kArena);
  EXPECT_EQ(exchange_->DeviceWeights(4).place, MemoryPlace::kDevice);
  const Buffer first = exchange_->TakeDeviceArena();
  Buffer second = exchange_->TakeDeviceArena();
  EXPECT_EQ(second.get() - first.get(), kArena);
  EXPECT_EQ(exchange_->TakeDeviceArena(), nullptr);
  const float* const place = second.get();
  second = nullptr;
  EXPECT_EQ(exchange_->TakeDeviceArena().get(), place);
  EXPECT_THAT(log_, ElementsAre(HasSubstr("of the server's GPU")));
}

TEST_F(DeviceExchangeTest, SendsNoticesOfGradientsOnTheDevice) {
  ASSERT_TRUE(Greet());
  const Buffer first = exchange_->TakeDeviceArena();
  Buffer second = exchange_->TakeDeviceArena();
  const std::weak_ptr<float> kept = second;
  Push(5, 3, std::move(second));
  Push(5, 0, TakeArena());  // On the host.
  const auto notice = streams_[0]->Read();
  ASSERT_TRUE(notice.has_value());
  const ContributionsInMemory& sent = notice->message.in_memory();
  ASSERT_EQ(sent.contribution_size(), 2);
  EXPECT_TRUE(sent.contribution(0).on_device());
  EXPECT_EQ(sent.contribution(0).offset(), kArena + 3 * kElements);
  EXPECT_FALSE(sent.contribution(1).on_device());
  // The server may read the gradient until it has applied the step.
  EXPECT_FALSE(kept.expired());
  ServerMessage applied;
  Weights* const weights = applied.mutable_in_memory()->add_weights();
  weights->set_chunk(3);
  weights->set_version(6);
  streams_[0]->Receive(applied);
  EXPECT_TRUE(kept.expired());
}

TEST_F(DeviceExchangeTest, KnowsThatTheWeightsAreOnADifferentGpu) {
  local_ = false;
  ASSERT_TRUE(Greet());
  EXPECT_FALSE(exchange_->DeviceWeights(0).empty());
  EXPECT_EQ(exchange_->DeviceWeights(0).place, MemoryPlace::kPeerDevice);
  EXPECT_THAT(log_, ElementsAre(HasSubstr("a different one")));
}

TEST_F(DeviceExchangeTest, UsesTheHostsMemoryIfTheDeviceCannotBeMapped) {
  mappable_ = false;
  EXPECT_FALSE(Greet());
  EXPECT_EQ(exchange_->TakeDeviceArena(), nullptr);
  EXPECT_TRUE(exchange_->DeviceWeights(0).empty());
  EXPECT_EQ(sink_.first, absl::OkStatus());
  EXPECT_THAT(log_, ElementsAre(HasSubstr("no peer access")));
}

TEST_F(DeviceExchangeTest, UsesTheHostsMemoryIfTheServerOffersNoOther) {
  ServerMessage no_gpu, nothing;
  no_gpu.mutable_welcome()->mutable_memory();
  nothing.mutable_welcome();
  const std::pair<ServerMessage, const char*> cases[] = {
      {WelcomeWith(2 * kArenaBytes - 4, 2 * kArenaBytes), " bytes of GPU"},
      {no_gpu, "offers no GPU memory"},
      {nothing, "declined the offer"}};
  for (const auto& [welcome, reason] : cases) {
    streams_.clear();
    log_.clear();
    EXPECT_FALSE(Greet(welcome));
    EXPECT_THAT(log_, ElementsAre(HasSubstr(reason)));
  }
}

TEST_F(DeviceExchangeTest, UnmapsTheMemoryBeforeTheStreamEnds) {
  for (const bool finishes : {true, false}) {
    SCOPED_TRACE(finishes);
    streams_.clear();
    mapped_.clear();
    ASSERT_TRUE(Greet());
    // The server has not said that it has read the sum.
    Push(5, 3, exchange_->TakeDeviceArena());
    int ends = 0;
    streams_[0]->OnEnd([&] {
      ++ends;
      EXPECT_TRUE(mapped_["weights"].expired());
      EXPECT_TRUE(mapped_["gradients"].expired());
    });
    if (finishes) exchange_->Finish();
    exchange_ = nullptr;
    EXPECT_EQ(ends, 1);
  }
}

}  // namespace
}  // namespace tributary
