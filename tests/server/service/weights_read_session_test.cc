// The sending end of a call that reads a server's weights, without gRPC.
#include "server/service/weights_read_session.h"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/service/small_store.h"
#include "tests/support/executors.h"
#include "tests/support/fake_streams.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kReadElements = 1008;
constexpr int kReadChunks = 3;

class WeightsReadSessionTest : public testing::Test {
 protected:
  WeightsReadSessionTest() {
    engine_ =
        *UpdateEngine::Create(SmallStoreOptions(),
                              *ArenaLayout::Create(TableOfOneParameter(
                                  kReadChunks * kReadElements, kReadElements)),
                              &pool_, [](const StepSums&) {});
    served_.weights.engine = engine_.get();
    for (int chunk = 0; chunk < kReadChunks; ++chunk) {
      Buffer values = engine_->memory().TakeBuffer();
      for (int64_t i = 0; i < kReadElements; ++i) {
        values.get()[i] = static_cast<float>(chunk);
      }
      EXPECT_EQ(engine_->AddInitial(chunk, std::move(values)),
                absl::OkStatus());
    }
  }

  void Request(int64_t version) {
    session_ =
        std::make_unique<WeightsReadSession>(served_, &counters_, &stream_);
    ReadWeightsRequest request;
    request.set_version(version);
    session_->OnMessage(request, ReceivedPayload());
    session_->OnEnd();
  }

  InlineExecutor pool_;
  std::unique_ptr<UpdateEngine> engine_;
  ExchangeSession::Served served_;
  TransportCounters counters_;
  FakeServerStream<ServerMessage> stream_;
  std::unique_ptr<WeightsReadSession> session_;
};

TEST_F(WeightsReadSessionTest, SendsOneChunkAtATime) {
  Request(/*version=*/0);
  std::vector<int> sent;
  while (stream_.queued() > 0) {
    EXPECT_EQ(stream_.queued(), 1u);
    EXPECT_FALSE(stream_.closed().has_value());
    const auto next = stream_.Read(session_.get());
    EXPECT_EQ(next->message.weights().version(), 0);
    EXPECT_EQ(next->payload.size(), kReadElements * sizeof(float));
    sent.push_back(next->message.weights().chunk());
  }
  EXPECT_THAT(sent, ElementsAre(0, 1, 2));
  ASSERT_TRUE(stream_.closed().has_value());
  EXPECT_TRUE(stream_.closed()->ok()) << *stream_.closed();
  EXPECT_EQ(counters_.bytes_sent,
            static_cast<int64_t>(kReadChunks * kReadElements * sizeof(float)));
}

TEST_F(WeightsReadSessionTest, RefusesAVersionThatIsNotThere) {
  Request(/*version=*/77);
  EXPECT_EQ(stream_.queued(), 0u);
  ASSERT_TRUE(stream_.closed().has_value());
  EXPECT_THAT(*stream_.closed(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("version 77 is not there")));
}

TEST_F(WeightsReadSessionTest, RefusesReadersBeforeTheModelIsKnown) {
  served_.weights.engine = nullptr;
  Request(/*version=*/0);
  ASSERT_TRUE(stream_.closed().has_value());
  EXPECT_THAT(*stream_.closed(), StatusIs(absl::StatusCode::kUnavailable));
}

}  // namespace
}  // namespace tributary
