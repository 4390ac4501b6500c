// Two servers' in-memory replicas, over gRPC.
#include "server/replication/replica_service.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "common/listener/listener.h"
#include "common/os/logger.h"
#include "common/transport/replica_client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kElements = 1008;

// Five chunks with one array of optimizer state, on two servers.
ArenaLayout ServiceLayout() {
  ParameterTable table;
  table.set_chunk_elements(kElements);
  auto* parameter = table.add_parameter();
  parameter->set_name("w");
  parameter->add_shape(5 * kElements - 8);
  parameter->set_group(DECAY);
  return *ArenaLayout::Create(table);
}

JournalHello Hello(int64_t attempt, int shard) {
  JournalHello hello;
  hello.mutable_scope()->set_job_id("job");
  hello.mutable_scope()->set_signature(ServiceLayout().signature());
  hello.mutable_scope()->set_servers(2);
  hello.set_attempt(attempt);
  hello.set_shard(shard);
  return hello;
}

Snapshot State(int shard, int64_t version) {
  BufferPool pool(kElements);
  Snapshot state;
  state.version = version;
  const ArenaLayout layout = ServiceLayout();
  for (const int number : layout.ChunksOf(shard, 2)) {
    Snapshot::Chunk chunk;
    chunk.number = number;
    chunk.elements = layout.ChunkSize(number);
    chunk.values = pool.Take();
    chunk.slots.push_back(pool.Take());
    for (int64_t i = 0; i < chunk.elements; ++i) {
      chunk.values.get()[i] = static_cast<float>(version * 1000 + number + i);
      chunk.slots[0].get()[i] = -chunk.values.get()[i];
    }
    state.chunks.push_back(std::move(chunk));
  }
  return state;
}

void ExpectEqual(const Snapshot& a, const Snapshot& b) {
  EXPECT_EQ(a.version, b.version);
  ASSERT_EQ(a.chunks.size(), b.chunks.size());
  for (size_t i = 0; i < a.chunks.size(); ++i) {
    EXPECT_EQ(a.chunks[i].number, b.chunks[i].number);
    ASSERT_EQ(a.chunks[i].elements, b.chunks[i].elements);
    ASSERT_EQ(a.chunks[i].slots.size(), b.chunks[i].slots.size());
    for (int64_t element = 0; element < a.chunks[i].elements; ++element) {
      ASSERT_EQ(a.chunks[i].values.get()[element],
                b.chunks[i].values.get()[element]);
      ASSERT_EQ(a.chunks[i].slots[0].get()[element],
                b.chunks[i].slots[0].get()[element]);
    }
  }
}

// Server 1 keeps what this test sends as server 0.
class ReplicaServiceTest : public testing::Test {
 protected:
  ReplicaServiceTest()
      : holder_({/*shard=*/1, "", Security()}, &kept_),
        sender_({/*shard=*/0, "", Security()}, &own_) {
    Listener::Options options;
    options.network = "127.0.0.1:0";
    options.unix_socket = MakeLocalAddress().address();
    options.log = log_.get();
    listener_ = *Listener::Start(options, {&holder_});
    kept_.Begin(Hello(1, 0).scope(), ServiceLayout(), /*arrays=*/2);
    holder_.Serve(/*attempt=*/1);
  }
  ~ReplicaServiceTest() override {
    if (stream_ != nullptr) stream_->End();
    listener_->ShutDown(absl::ZeroDuration());
    holder_.AwaitIdle();
  }

  void Open(const JournalHello& hello) {
    stream_ = sender_.Open(listener_->address(), hello,
                           [this](const absl::Status& status) {
                             lost_ = status;
                             is_lost_.Notify();
                           });
  }
  // Waits until all is kept.
  void Send(const Snapshot& state) {
    absl::Mutex mu;
    size_t kept = 0;
    for (const Snapshot::Chunk& chunk : state.chunks) {
      stream_->Send(state.version, chunk, [&] {
        absl::MutexLock lock(&mu);
        ++kept;
      });
    }
    const auto all = [&] { return kept == state.chunks.size(); };
    absl::MutexLock lock(&mu, absl::Condition(&all));
  }
  // Sends one copy, and says why the stream broke.
  std::string Refusal(int64_t version, const Snapshot::Chunk& copy) {
    stream_->Send(version, copy, [] { ADD_FAILURE() << "kept"; });
    is_lost_.WaitForNotification();
    return std::string(lost_.message());
  }

  std::unique_ptr<Logger> log_ = *Logger::Create(LogOptions());
  ReplicaStore kept_;
  ReplicaStore own_;
  ReplicaService holder_;
  ReplicaService sender_;
  std::unique_ptr<Listener> listener_;
  absl::Status lost_;
  absl::Notification is_lost_;
  std::unique_ptr<ReplicaStream> stream_;
};

TEST_F(ReplicaServiceTest, KeepsCopiesAndGivesThemBack) {
  Open(Hello(1, 0));
  Send(State(0, 7));
  Send(State(0, 8));
  for (const int64_t version : {7, 8}) {
    const absl::StatusOr<Snapshot> kept = kept_.Find(0, version);
    ASSERT_TRUE(kept.ok()) << kept.status();
    ExpectEqual(*kept, State(0, version));
    ReadJournalRequest request;
    *request.mutable_scope() = Hello(1, 0).scope();
    request.set_shard(0);
    request.set_version(version);
    Snapshot fetched = State(0, /*version=*/0);
    ASSERT_EQ(sender_.Fetch(listener_->address(), request, {&fetched, {}}),
              absl::OkStatus());
    ExpectEqual(fetched, State(0, version));
  }
}

TEST_F(ReplicaServiceTest, SaysWhatItDoesNotHave) {
  ReadJournalRequest request;
  *request.mutable_scope() = Hello(1, 0).scope();
  request.set_version(7);
  Snapshot fetched = State(0, /*version=*/0);
  EXPECT_TRUE(absl::IsNotFound(
      sender_.Fetch(listener_->address(), request, {&fetched, {}})));
  request.mutable_scope()->set_job_id("other");
  EXPECT_TRUE(absl::IsFailedPrecondition(
      sender_.Fetch(listener_->address(), request, {&fetched, {}})));
}

TEST_F(ReplicaServiceTest, RefusesAnotherAttempt) {
  Open(Hello(2, 0));
  EXPECT_THAT(Refusal(1, State(0, 1).chunks[0]), HasSubstr("attempt 2"));
}

TEST_F(ReplicaServiceTest, RefusesAnotherJob) {
  JournalHello hello = Hello(1, 0);
  hello.mutable_scope()->set_servers(3);
  Open(hello);
  EXPECT_THAT(Refusal(1, State(0, 1).chunks[0]),
              HasSubstr("number of servers"));
}

TEST_F(ReplicaServiceTest, RefusesAServerWhoseCopiesItDoesNotKeep) {
  Open(Hello(1, 1));
  EXPECT_THAT(Refusal(1, State(1, 1).chunks[0]),
              HasSubstr("holds no replica of server 1"));
}

TEST_F(ReplicaServiceTest, RefusesWhatDoesNotFit) {
  Open(Hello(1, 0));
  Snapshot::Chunk copy = State(0, 1).chunks[0];
  --copy.elements;
  EXPECT_THAT(Refusal(1, copy), HasSubstr("bytes instead of 4032"));
}

TEST_F(ReplicaServiceTest, RefusesAChunkThatIsNotThatServers) {
  Open(Hello(1, 0));
  EXPECT_THAT(Refusal(1, State(1, 1).chunks[0]), HasSubstr("chunk 1"));
}

TEST_F(ReplicaServiceTest, RefusesACopyThatIsNotWhole) {
  Open(Hello(1, 0));
  const Snapshot state = State(0, 1);
  Snapshot::Chunk copy = state.chunks[0];
  copy.slots.clear();
  stream_->Send(1, copy, [] { ADD_FAILURE() << "kept"; });
  EXPECT_THAT(Refusal(1, state.chunks[1]), HasSubstr("comes next"));
}

// With in-memory replicas, the servers' state is none of the workers' business.
TEST_F(ReplicaServiceTest, WorkersGetInOnlyInAnAllReduce) {
  Open(Hello(1, 0));
  Send(State(0, 7));
  ReadJournalRequest request;
  *request.mutable_scope() = Hello(1, 0).scope();
  request.set_version(7);
  const auto read = [&] {
    Snapshot copy = State(0, 0);
    return ReadReplica(listener_->address(), Security(), ReplicaPeer::kWorker,
                       request, {&copy, {}});
  };
  EXPECT_TRUE(absl::IsUnavailable(read()));
  // Nor with the attempt that stands for none.
  for (const int64_t attempt : {0, 1}) {
    absl::Notification refused;
    const auto stream = OpenReplicaStream(
        listener_->address(), Security(), ReplicaPeer::kWorker,
        Hello(attempt, 0), [&](const absl::Status&) { refused.Notify(); });
    refused.WaitForNotification();
    stream->End();
  }
  holder_.ServeWorkers(/*attempt=*/1);
  EXPECT_TRUE(read().ok());
}

}  // namespace
}  // namespace tributary
