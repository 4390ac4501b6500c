// What a reader of a server's weights accepts, without gRPC.
#include "server/service/weights_reader.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/service/small_store.h"
#include "tests/support/fake_streams.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

constexpr int64_t kReaderElements = 1008;

using WeightsScript = StreamScript<ServerMessage, ReadWeightsRequest>;

// A server that has chunks 0 and 2 of the model's three chunks.
class WeightsReaderTest : public testing::Test {
 protected:
  WeightsReaderTest() {
    for (const int chunk : {0, 2}) {
      const std::vector<float> values(kReaderElements,
                                      static_cast<float>(chunk + 1));
      ServerMessage message;
      message.mutable_weights()->set_version(5);
      message.mutable_weights()->set_chunk(chunk);
      script_.answers.push_back(
          {message, std::string(reinterpret_cast<const char*>(values.data()),
                                values.size() * sizeof(float))});
    }
  }

  absl::Status Read() {
    return ReceiveWeights(
        std::make_unique<
            ScriptedClientStream<ServerMessage, ReadWeightsRequest>>(&script_),
        "host:1", /*version=*/5, layout_, /*chunks=*/2, arena_.data());
  }
  void ExpectRefused(const std::string& words) {
    EXPECT_THAT(Read(), StatusIs(absl::StatusCode::kDataLoss, words));
    EXPECT_TRUE(script_.cancelled);
  }

  const ArenaLayout layout_ = *ArenaLayout::Create(
      TableOfOneParameter(3 * kReaderElements, kReaderElements));
  std::vector<float> arena_ =
      std::vector<float>(static_cast<size_t>(layout_.arena_elements()));
  WeightsScript script_;
};

TEST_F(WeightsReaderTest, WritesTheChunksToTheArena) {
  ASSERT_EQ(Read(), absl::OkStatus());
  ASSERT_EQ(script_.requests.size(), 1u);
  EXPECT_EQ(script_.requests[0].version(), 5);
  EXPECT_TRUE(script_.half_closed);
  EXPECT_FALSE(script_.cancelled);
  for (const int chunk : {0, 1, 2}) {
    const float expected = chunk == 1 ? 0 : static_cast<float>(chunk + 1);
    const int64_t begin = layout_.ChunkBegin(chunk);
    for (int64_t i = begin; i < begin + kReaderElements; ++i) {
      ASSERT_EQ(arena_[static_cast<size_t>(i)], expected) << i;
    }
  }
}

TEST_F(WeightsReaderTest, RefusesAChunkThatTheModelDoesNotHave) {
  script_.answers[0].message.mutable_weights()->set_chunk(3);
  ExpectRefused("host:1: chunk 3 of 4032 bytes does not fit the model");
  EXPECT_EQ(script_.received, 1);
}

TEST_F(WeightsReaderTest, RefusesANegativeChunk) {
  script_.answers[1].message.mutable_weights()->set_chunk(-1);
  ExpectRefused("host:1: chunk -1 of 4032 bytes does not fit the model");
}

TEST_F(WeightsReaderTest, RefusesAChunkOfTheWrongSize) {
  script_.answers[1].payload.pop_back();
  ExpectRefused("host:1: chunk 2 of 4031 bytes does not fit the model");
}

TEST_F(WeightsReaderTest, RefusesAMessageWithoutWeights) {
  script_.answers[0] = {ServerMessage(), ""};
  ExpectRefused("host:1: chunk 0 of 0 bytes does not fit the model");
}

TEST_F(WeightsReaderTest, SaysThatAChunkIsMissing) {
  script_.answers.pop_back();
  EXPECT_THAT(Read(), StatusIs(absl::StatusCode::kDataLoss,
                               "host:1 sent 1 of its 2 chunks"));
}

TEST_F(WeightsReaderTest, ReturnsTheErrorOfTheCall) {
  script_.answers.pop_back();
  script_.status = absl::FailedPreconditionError("version 5 is not there");
  EXPECT_THAT(Read(), StatusIs(absl::StatusCode::kFailedPrecondition,
                               "host:1: version 5 is not there"));
}

}  // namespace
}  // namespace tributary
