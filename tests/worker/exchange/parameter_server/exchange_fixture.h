// An exchange with servers that the test plays.
#ifndef TRIBUTARY_TESTS_WORKER_EXCHANGE_PARAMETER_SERVER_EXCHANGE_FIXTURE_H_
#define TRIBUTARY_TESTS_WORKER_EXCHANGE_PARAMETER_SERVER_EXCHANGE_FIXTURE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/os/shared_memory.h"
#include "gtest/gtest.h"
#include "tests/support/fake_streams.h"
#include "worker/exchange/parameter_server/parameter_server_exchange.h"

namespace tributary {

using FakeStream = FakeClientStream<ServerMessage, WorkerMessage>;
using Arrival = WeightsSink::Arrival;

inline constexpr int kParameterServerExchangeChunks = 6;
inline constexpr int64_t kElements = 16;

inline std::string Bytes(float value) {
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

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_WORKER_EXCHANGE_PARAMETER_SERVER_EXCHANGE_FIXTURE_H_
