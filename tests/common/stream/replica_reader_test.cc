// What a reader of a replica accepts, without gRPC.
#include "common/stream/replica_reader.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/buffer_pool.h"
#include "common/stream/replica_stream.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/fake_streams.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

constexpr int64_t kVersion = 7;
constexpr int64_t kChunkElements = 4;

using Script = StreamScript<JournalMessage, ReadJournalRequest>;

// Chunks 1 and 3, with one array of optimizer state each; the last chunk is
// shorter. Element i of array a of a chunk is first + 100 * a + i.
Snapshot State(float first) {
  BufferPool pool(kChunkElements);
  Snapshot state;
  for (const int number : {1, 3}) {
    Snapshot::Chunk chunk;
    chunk.number = number;
    chunk.elements = number == 3 ? kChunkElements - 1 : kChunkElements;
    chunk.values = pool.Take();
    chunk.slots.push_back(pool.Take());
    for (int64_t i = 0; i < chunk.elements; ++i) {
      chunk.values.get()[i] = first + static_cast<float>(i);
      chunk.slots[0].get()[i] = first + 100 + static_cast<float>(i);
    }
    state.chunks.push_back(std::move(chunk));
  }
  return state;
}

Script::Answer AnswerOf(const Snapshot::Chunk& chunk, int array) {
  ReplicaPart part(kVersion, chunk, array);
  return {part.message, std::string(static_cast<const char*>(part.payload.data),
                                    static_cast<size_t>(part.payload.bytes))};
}

class ReplicaReaderTest : public testing::Test {
 protected:
  ReplicaReaderTest() {
    for (const Snapshot::Chunk& chunk : sent_.chunks) {
      for (const int array : {0, 1}) {
        script_.answers.push_back(AnswerOf(chunk, array));
      }
    }
  }

  absl::Status Read() {
    ReadJournalRequest request;
    request.set_shard(1);
    request.set_version(kVersion);
    return ReceiveReplica(
        std::make_unique<
            ScriptedClientStream<JournalMessage, ReadJournalRequest>>(&script_),
        "host:1", request, {&read_, {}});
  }
  // Expects that the client refuses answer `place`, which is of this array and
  // chunk, and ends the call.
  void ExpectRefused(int place, const std::string& array_of_chunk) {
    EXPECT_THAT(Read(), StatusIs(absl::StatusCode::kDataLoss,
                                 "host:1: " + array_of_chunk +
                                     " is out of order or has the wrong size"));
    EXPECT_EQ(script_.received, place + 1);
    EXPECT_TRUE(script_.cancelled);
    EXPECT_EQ(read_.version, 0);
  }

  const Snapshot sent_ = State(/*first=*/10);
  Snapshot read_ = State(/*first=*/0);
  Script script_;
};

TEST_F(ReplicaReaderTest, WritesTheArraysToTheSnapshot) {
  ASSERT_EQ(Read(), absl::OkStatus());
  EXPECT_EQ(read_.version, kVersion);
  ASSERT_EQ(script_.requests.size(), 1u);
  EXPECT_EQ(script_.requests[0].shard(), 1);
  EXPECT_EQ(script_.requests[0].version(), kVersion);
  EXPECT_TRUE(script_.half_closed);
  EXPECT_FALSE(script_.cancelled);
  for (size_t i = 0; i < sent_.chunks.size(); ++i) {
    const Snapshot::Chunk& from = sent_.chunks[i];
    const Snapshot::Chunk& to = read_.chunks[i];
    for (int64_t element = 0; element < from.elements; ++element) {
      EXPECT_EQ(to.values.get()[element], from.values.get()[element]);
      EXPECT_EQ(to.slots[0].get()[element], from.slots[0].get()[element]);
    }
  }
}

TEST_F(ReplicaReaderTest, RefusesAnArrayOutOfOrder) {
  std::swap(script_.answers[0], script_.answers[1]);
  ExpectRefused(0, "array 1 of chunk 1");
}

TEST_F(ReplicaReaderTest, RefusesAChunkOutOfOrder) {
  std::swap(script_.answers[0], script_.answers[2]);
  ExpectRefused(0, "array 0 of chunk 3");
}

TEST_F(ReplicaReaderTest, RefusesARepeatedArray) {
  script_.answers.insert(script_.answers.begin() + 1, script_.answers[0]);
  ExpectRefused(1, "array 0 of chunk 1");
}

TEST_F(ReplicaReaderTest, RefusesAnArrayAfterTheLast) {
  script_.answers.push_back(AnswerOf(sent_.chunks[1], 1));
  ExpectRefused(4, "array 1 of chunk 3");
}

TEST_F(ReplicaReaderTest, RefusesAnotherVersion) {
  script_.answers[2].message.mutable_part()->set_version(kVersion + 1);
  ExpectRefused(2, "array 0 of chunk 3");
}

TEST_F(ReplicaReaderTest, RefusesAnArrayOfTheWrongSize) {
  script_.answers[1].payload.pop_back();
  ExpectRefused(1, "array 1 of chunk 1");
}

TEST_F(ReplicaReaderTest, RefusesAnArrayThatIsTooLarge) {
  script_.answers[2].payload.append(sizeof(float), '\0');
  ExpectRefused(2, "array 0 of chunk 3");
}

TEST_F(ReplicaReaderTest, RefusesAMessageWithoutAnArray) {
  script_.answers[0] = {JournalMessage(), ""};
  ExpectRefused(0, "array 0 of chunk 0");
}

TEST_F(ReplicaReaderTest, SaysThatTheLastChunkIsMissing) {
  script_.answers.pop_back();
  EXPECT_THAT(Read(), StatusIs(absl::StatusCode::kDataLoss,
                               "host:1: sent 1 of 2 chunks"));
  EXPECT_EQ(read_.version, 0);
}

TEST_F(ReplicaReaderTest, ReturnsTheErrorOfTheCall) {
  script_.answers.resize(1);
  script_.status = absl::UnavailableError("the connection was lost");
  EXPECT_THAT(Read(), StatusIs(absl::StatusCode::kUnavailable,
                               "host:1: the connection was lost"));
}

}  // namespace
}  // namespace tributary
