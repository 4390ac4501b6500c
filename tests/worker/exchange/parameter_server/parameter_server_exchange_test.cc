#include "worker/exchange/parameter_server/parameter_server_exchange.h"

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/exchange/parameter_server/exchange_fixture.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

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

}  // namespace
}  // namespace tributary
