// The sending end of a call that reads a replica, without gRPC.
#include "server/replication/replica_read_session.h"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/buffer_pool.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/fake_streams.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

constexpr int64_t kSessionElements = 1008;
constexpr int64_t kVersion = 7;

// Three chunks.
ArenaLayout SessionLayout() {
  ParameterTable table;
  table.set_chunk_elements(kSessionElements);
  auto* parameter = table.add_parameter();
  parameter->set_name("w");
  parameter->add_shape(3 * kSessionElements);
  parameter->set_group(DECAY);
  return *ArenaLayout::Create(table);
}

JournalScope SessionScope() {
  JournalScope scope;
  scope.set_job_id("job");
  scope.set_servers(2);
  return scope;
}

// A store with chunks 0 and 2, which are shard 0 of two servers, each with one
// array of optimizer state.
class ReplicaReadSessionTest : public testing::Test {
 protected:
  ReplicaReadSessionTest() {
    memory_.Begin(SessionScope(), SessionLayout(), /*arrays=*/2);
    BufferPool pool(kSessionElements);
    for (const int number : {0, 2}) {
      Snapshot::Chunk chunk;
      chunk.number = number;
      chunk.elements = kSessionElements;
      chunk.values = pool.Take();
      chunk.slots.push_back(pool.Take());
      EXPECT_EQ(memory_.Add(/*shard=*/0, kVersion, std::move(chunk)),
                absl::OkStatus());
    }
  }

  std::unique_ptr<ReplicaReadSession> Open(
      const ReplicaStore* memory, FakeServerStream<JournalMessage>* stream) {
    return std::make_unique<ReplicaReadSession>(memory, reads_, stream);
  }
  static void Request(int64_t version, ReplicaReadSession* session,
                      const std::vector<ChunkRange>& chunks = {}) {
    ReadJournalRequest request;
    *request.mutable_scope() = SessionScope();
    request.set_version(version);
    *request.mutable_chunk() = {chunks.begin(), chunks.end()};
    session->OnMessage(request, ReceivedPayload());
    session->OnEnd();
  }

  static ChunkRange Range(int begin, int end) {
    ChunkRange range;
    range.set_begin(begin);
    range.set_end(end);
    return range;
  }

  ReplicaStore memory_;
  const std::shared_ptr<ReplicaReads> reads_ =
      std::make_shared<ReplicaReads>(/*most_reads=*/2);
};

TEST_F(ReplicaReadSessionTest, SendsOneArrayAtATime) {
  FakeServerStream<JournalMessage> stream;
  const auto session = Open(&memory_, &stream);
  Request(kVersion, session.get());
  std::vector<std::pair<int, int>> sent;  // Chunks and arrays.
  while (stream.queued() > 0) {
    EXPECT_EQ(stream.queued(), 1u);
    EXPECT_FALSE(stream.closed().has_value());
    const auto next = stream.Read(session.get());
    const JournalPart& part = next->message.part();
    EXPECT_EQ(part.version(), kVersion);
    EXPECT_EQ(next->payload.size(), kSessionElements * sizeof(float));
    sent.push_back({part.chunk(), part.array()});
  }
  EXPECT_THAT(sent,
              ElementsAre(Pair(0, 0), Pair(0, 1), Pair(2, 0), Pair(2, 1)));
  ASSERT_TRUE(stream.closed().has_value());
  EXPECT_TRUE(stream.closed()->ok()) << *stream.closed();
}

TEST_F(ReplicaReadSessionTest, SendsTheRequestedChunks) {
  FakeServerStream<JournalMessage> stream;
  const auto session = Open(&memory_, &stream);
  Request(kVersion, session.get(), {Range(1, 3)});
  std::vector<std::pair<int, int>> sent;
  while (stream.queued() > 0) {
    const auto next = stream.Read(session.get());
    const JournalPart& part = next->message.part();
    sent.push_back({part.chunk(), part.array()});
  }
  EXPECT_THAT(sent, ElementsAre(Pair(2, 0), Pair(2, 1)));
  ASSERT_TRUE(stream.closed().has_value());
  EXPECT_TRUE(stream.closed()->ok()) << *stream.closed();
}

TEST_F(ReplicaReadSessionTest, RefusesChunksOutOfOrder) {
  FakeServerStream<JournalMessage> stream;
  const auto session = Open(&memory_, &stream);
  Request(kVersion, session.get(), {Range(2, 3), Range(0, 1)});
  ASSERT_TRUE(stream.closed().has_value());
  EXPECT_TRUE(absl::IsInvalidArgument(*stream.closed())) << *stream.closed();
}

TEST_F(ReplicaReadSessionTest, RefusesAVersionThatIsNotThere) {
  FakeServerStream<JournalMessage> stream;
  const auto session = Open(&memory_, &stream);
  Request(kVersion + 1, session.get());
  EXPECT_EQ(stream.queued(), 0u);
  ASSERT_TRUE(stream.closed().has_value());
  EXPECT_TRUE(absl::IsNotFound(*stream.closed())) << *stream.closed();
}

TEST_F(ReplicaReadSessionTest, RefusesReadersOfReplicasThatAreNotServed) {
  FakeServerStream<JournalMessage> stream;
  const auto session = Open(/*memory=*/nullptr, &stream);
  Request(kVersion, session.get());
  ASSERT_TRUE(stream.closed().has_value());
  EXPECT_TRUE(absl::IsUnavailable(*stream.closed())) << *stream.closed();
}

TEST_F(ReplicaReadSessionTest, LimitsTheNumberOfOpenReads) {
  FakeServerStream<JournalMessage> streams[4];
  std::vector<std::unique_ptr<ReplicaReadSession>> open;
  for (int i = 0; i < 3; ++i) {
    open.push_back(Open(&memory_, &streams[i]));
    Request(kVersion, open.back().get());
  }
  EXPECT_FALSE(streams[1].closed().has_value());
  ASSERT_TRUE(streams[2].closed().has_value());
  EXPECT_THAT(*streams[2].closed(),
              StatusIs(absl::StatusCode::kResourceExhausted));
  open.erase(open.begin() + 1, open.end());
  open.push_back(Open(&memory_, &streams[3]));
  Request(kVersion, open.back().get());
  EXPECT_FALSE(streams[3].closed().has_value());
}

}  // namespace
}  // namespace tributary
