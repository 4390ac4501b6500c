// Exchanges with a server whose GPU's memory the worker maps.
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/exchange/parameter_server/exchange_fixture.h"
#include "worker/exchange/parameter_server/parameter_server_exchange.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

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
