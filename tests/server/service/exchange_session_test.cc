#include "server/service/exchange_session.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/monotonic_clock.h"
#include "common/job/job.h"
#include "common/stream/pack_rows.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/membership/member_secrets.h"
#include "tests/server/service/small_store.h"
#include "tests/support/executors.h"
#include "tests/support/fake_streams.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kSessionChunks = 3;
constexpr int64_t kSessionElements = 16;

std::string Bytes(float value) {
  const std::vector<float> values(kSessionElements, value);
  return std::string(reinterpret_cast<const char*>(values.data()),
                     values.size() * sizeof(float));
}

// A server of three chunks, and a worker that computes all of a step.
class ExchangeSessionTest : public testing::Test {
 protected:
  ExchangeSessionTest() {
    const ParameterTable table = TableOfOneParameter(
        kSessionChunks * kSessionElements, kSessionElements);
    UpdateEngine::Options options = SmallStoreOptions();
    engine_ = *UpdateEngine::Create(options, *ArenaLayout::Create(table),
                                    &pool_, [](const StepSums&) {});
    served_.shard = 2;
    served_.weights.engine = engine_.get();
    served_.weights.job_id = "job";
    served_.weights.attempt = 3;
  }

  void Start() {
    session_ = std::make_unique<ExchangeSession>(served_, &counters_,
                                                 &arrivals_, &stream_);
  }
  WorkerMessage HelloOf(int64_t attempt) const {
    WorkerMessage message;
    message.mutable_hello()->set_attempt(attempt);
    message.mutable_hello()->set_job_id("job");
    message.mutable_hello()->set_signature(engine_->layout().signature());
    return message;
  }
  void Receive(const WorkerMessage& message, const std::string& payload = "") {
    session_->OnMessage(message, PayloadFrom(payload));
  }
  void Welcome() {
    Start();
    Receive(HelloOf(3));
    const auto welcome = stream_.Read(session_.get());
    ASSERT_TRUE(welcome.has_value());
    EXPECT_EQ(welcome->message.welcome().shard(), 2);
  }
  void Initialize() {
    for (int chunk = kSessionChunks - 1; chunk >= 0; --chunk) {
      WorkerMessage message;
      message.mutable_initial()->set_chunk(chunk);
      Receive(message, Bytes(1));
    }
  }
  void Contribute(int64_t step, int chunk) {
    WorkerMessage message;
    message.mutable_contribution()->set_step(step);
    message.mutable_contribution()->set_chunk(chunk);
    message.mutable_contribution()->set_node(1);
    message.mutable_contribution()->set_weight(4);
    message.mutable_contribution()->set_encoding(FLOAT32);
    Receive(message, Bytes(4));
  }
  // The (version, chunk) of everything that is queued, in the order in which it
  // is written.
  std::vector<std::pair<int64_t, int>> Sent() {
    std::vector<std::pair<int64_t, int>> sent;
    while (const auto next = stream_.Read(session_.get())) {
      const Weights& weights = next->message.weights();
      EXPECT_EQ(next->payload.size(), kSessionElements * sizeof(float));
      sent.push_back({weights.version(), weights.chunk()});
    }
    return sent;
  }
  void ExpectClosed(absl::StatusCode code, const std::string& words) {
    ASSERT_TRUE(stream_.closed().has_value());
    EXPECT_EQ(stream_.closed()->code(), code);
    EXPECT_THAT(std::string(stream_.closed()->message()), HasSubstr(words));
  }

  InlineExecutor pool_;
  std::unique_ptr<UpdateEngine> engine_;
  ExchangeSession::Served served_;
  TransportCounters counters_;
  StepArrivals arrivals_{&MonotonicNow};
  FakeServerStream<ServerMessage> stream_;
  std::unique_ptr<ExchangeSession> session_;
};

using P = std::pair<int64_t, int>;

// Otherwise the worker would wait for them forever.
TEST_F(ExchangeSessionTest, SendsRowsAlthoughNewerWeightsReplaceTheirVersion) {
  UpdateEngine::Options options = SmallStoreOptions();
  SparseTableSpec* const table = options.job.mutable_sparse()->add_table();
  table->set_name("table");
  table->set_dim(2);
  table->set_buckets(4);
  table->mutable_row_wise_adagrad()->set_learning_rate(0.1);
  engine_ = *UpdateEngine::Create(
      options,
      *ArenaLayout::Create(TableOfOneParameter(
          kSessionChunks * kSessionElements, kSessionElements)),
      &pool_, [](const StepSums&) {});
  served_.weights.engine = engine_.get();
  Welcome();
  Initialize();
  WorkerMessage message;
  message.mutable_rows_request()->set_request(9);
  const OutgoingPayload keys =
      PackRequest({{1, 2}}, message.mutable_rows_request());
  Receive(message,
          std::string(static_cast<const char*>(keys.data), keys.bytes));
  for (const int64_t step : {0, 1}) {
    for (int chunk = 0; chunk < kSessionChunks; ++chunk) {
      Contribute(step, chunk);
    }
  }
  std::vector<int64_t> answered;
  std::vector<int64_t> versions;
  while (const auto next = stream_.Read(session_.get())) {
    if (next->message.has_rows()) {
      answered.push_back(next->message.rows().request());
    } else if (next->message.has_weights()) {
      versions.push_back(next->message.weights().version());
    }
  }
  EXPECT_THAT(answered, ElementsAre(9));
  EXPECT_THAT(versions, ElementsAre(1, 1, 1, 2, 2, 2));
}

TEST_F(ExchangeSessionTest, RefusesWorkersBeforeTheModelIsKnown) {
  served_.weights.engine = nullptr;
  Start();
  ExpectClosed(absl::StatusCode::kUnavailable, "does not know the model yet");
}

TEST_F(ExchangeSessionTest, RequiresHelloFirst) {
  Start();
  Contribute(0, 0);
  ExpectClosed(absl::StatusCode::kFailedPrecondition, "must be Hello");
}

TEST_F(ExchangeSessionTest, SendsAWorkerOfAnotherAttemptBack) {
  Start();
  Receive(HelloOf(2));
  ExpectClosed(absl::StatusCode::kAborted, "attempt 2 ");
}

TEST_F(ExchangeSessionTest, RefusesAnotherModel) {
  Start();
  WorkerMessage hello = HelloOf(3);
  hello.mutable_hello()->set_signature("0123456789abcdef");
  Receive(hello);
  ExpectClosed(absl::StatusCode::kFailedPrecondition, "0123456789ab ");
}

TEST_F(ExchangeSessionTest, RefusesASecondHello) {
  Welcome();
  Receive(HelloOf(3));
  ExpectClosed(absl::StatusCode::kFailedPrecondition, "a second Hello");
}

TEST_F(ExchangeSessionTest, RefusesAContributionInAnotherEncoding) {
  Welcome();
  WorkerMessage message;
  message.mutable_contribution()->set_encoding(BFLOAT16);
  Receive(message, Bytes(0));
  ExpectClosed(absl::StatusCode::kInvalidArgument, "encoding BFLOAT16");
}

TEST_F(ExchangeSessionTest, SendsOnlyTheChunksThatTheWorkerReceives) {
  Start();
  WorkerMessage hello = HelloOf(3);
  ChunkRange* const range = hello.mutable_hello()->add_chunk_range();
  range->set_begin(1);
  range->set_end(2);
  Receive(hello);
  const auto welcome = stream_.Read(session_.get());
  ASSERT_TRUE(welcome.has_value());
  EXPECT_THAT(welcome->message.welcome().chunk(), ElementsAre(0, 1, 2));
  Initialize();
  // It may contribute to the others all the same.
  for (int chunk = kSessionChunks - 1; chunk >= 0; --chunk) {
    Contribute(0, chunk);
  }
  EXPECT_EQ(engine_->chunks().FindMissingWork()->step(), 1);
  EXPECT_THAT(Sent(), ElementsAre(P(0, 1), P(1, 1)));
  session_->OnGone();
  Contribute(1, 1);
  EXPECT_THAT(Sent(), ElementsAre());
}

TEST_F(ExchangeSessionTest, RefusesChunksThatTheModelDoesNotHave) {
  Start();
  WorkerMessage hello = HelloOf(3);
  hello.mutable_hello()->add_chunk_range()->set_end(kSessionChunks + 1);
  Receive(hello);
  ExpectClosed(absl::StatusCode::kInvalidArgument, "chunk_range [0, 4)");
}

// The session of a worker that must prove its incarnation and its assignment.
class ProvingSessionTest : public ExchangeSessionTest {
 protected:
  ProvingSessionTest() {
    served_.weights.secrets = std::make_shared<const MemberSecrets>(secrets_);
    served_.weights.on_violation = [this](int64_t incarnation,
                                          const absl::Status&) {
      violators_.push_back(incarnation);
    };
  }

  WorkerMessage HelloFrom(int64_t incarnation) const {
    WorkerMessage hello = HelloOf(3);
    hello.mutable_hello()->set_incarnation(incarnation);
    hello.mutable_hello()->set_secret(secrets_.OfMember(incarnation));
    return hello;
  }
  WorkerMessage AssignedTo(int64_t incarnation, int begin, int end) {
    Deal deal;
    deal.set_generation(++generation_);
    deal.set_leaf_begin(begin);
    deal.set_leaf_end(end);
    WorkerMessage message;
    Assigned* const assigned = message.mutable_assigned();
    assigned->set_generation(deal.generation());
    assigned->set_leaf_begin(begin);
    assigned->set_leaf_end(end);
    assigned->set_secret(secrets_.OfAssignment(incarnation, deal));
    return message;
  }

  const MemberSecrets secrets_{"key"};
  std::vector<int64_t> violators_;
  int64_t generation_ = 0;
};

TEST_F(ProvingSessionTest, RefusesTheIncarnationOfAnotherWorker) {
  Start();
  WorkerMessage hello = HelloFrom(5);
  hello.mutable_hello()->set_incarnation(6);
  Receive(hello);
  ExpectClosed(absl::StatusCode::kPermissionDenied, "incarnation 6");
  // It is nobody's violation: who has sent it is not known.
  EXPECT_EQ(session_->incarnation(), 0);
  EXPECT_THAT(violators_, ElementsAre());
}

TEST_F(ProvingSessionTest, AcceptsOnlyTheAssignedMicroBatches) {
  Start();
  Receive(HelloFrom(5));
  Initialize();
  Receive(AssignedTo(5, 0, 4));
  Contribute(0, 0);
  EXPECT_FALSE(stream_.closed().has_value());
  Receive(AssignedTo(5, 0, 2));
  // The earlier assignment holds for the steps that were open.
  Contribute(1, 0);
  Contribute(2, 0);
  EXPECT_FALSE(stream_.closed().has_value());
  Contribute(3, 0);  // Node 1: micro-batches 0 to 3.
  ExpectClosed(absl::StatusCode::kInvalidArgument, "micro-batch 2");
  EXPECT_THAT(violators_, ElementsAre(5));
}

TEST_F(ProvingSessionTest, AcceptsOnlyTheAssignedChunks) {
  Start();
  Receive(HelloFrom(5));
  Initialize();
  Deal deal;
  deal.set_generation(1);
  deal.set_leaf_end(4);
  deal.set_chunk_begin(1);
  deal.set_chunk_end(2);
  WorkerMessage message;
  Assigned* const assigned = message.mutable_assigned();
  assigned->set_generation(1);
  assigned->set_leaf_end(4);
  assigned->set_chunk_begin(1);
  assigned->set_chunk_end(2);
  assigned->set_secret(secrets_.OfAssignment(5, deal));
  Receive(message);
  Contribute(0, 1);
  EXPECT_FALSE(stream_.closed().has_value());
  Contribute(0, 2);
  ExpectClosed(absl::StatusCode::kInvalidArgument, "chunks [1, 2)");
  EXPECT_THAT(violators_, ElementsAre(5));
}

TEST_F(ProvingSessionTest, RefusesChunksThatTheProofDoesNotName) {
  Start();
  Receive(HelloFrom(5));
  WorkerMessage message = AssignedTo(5, 0, 4);
  message.mutable_assigned()->set_chunk_end(2);
  Receive(message);
  ExpectClosed(absl::StatusCode::kPermissionDenied, "chunks 0 to 2");
}

TEST_F(ProvingSessionTest, RefusesAnAssignmentOfAnotherWorker) {
  Start();
  Receive(HelloFrom(5));
  Receive(AssignedTo(6, 0, 4));
  ExpectClosed(absl::StatusCode::kPermissionDenied, "micro-batches 0 to 4");
  EXPECT_THAT(violators_, ElementsAre(5));
}

TEST_F(ProvingSessionTest, DropsWhatAViolatorHasSentForTheOpenStep) {
  Start();
  Receive(HelloFrom(5));
  Initialize();
  Receive(AssignedTo(5, 0, 2));
  WorkerMessage half;
  half.mutable_contribution()->set_node(2);
  half.mutable_contribution()->set_weight(2);
  half.mutable_contribution()->set_encoding(FLOAT32);
  Receive(half, Bytes(100));
  ASSERT_FALSE(stream_.closed().has_value());
  EXPECT_EQ(engine_->chunks().FindMissingWork()->leaf(), 2);
  half.mutable_contribution()->set_encoding(BFLOAT16);
  Receive(half, Bytes(100));
  ExpectClosed(absl::StatusCode::kInvalidArgument, "encoding BFLOAT16");
  EXPECT_EQ(engine_->chunks().FindMissingWork()->leaf(), 0);
  // Its second call is refused, too.
  FakeServerStream<ServerMessage> again;
  ExchangeSession session(served_, &counters_, &arrivals_, &again);
  session.OnMessage(HelloFrom(5), PayloadFrom(""));
  ASSERT_TRUE(again.closed().has_value());
  EXPECT_EQ(again.closed()->code(), absl::StatusCode::kAborted);
}

TEST_F(ExchangeSessionTest, SendsOlderVersionsAndFirstLayersFirst) {
  Welcome();
  Initialize();
  for (int chunk = kSessionChunks - 1; chunk >= 0; --chunk)
    Contribute(0, chunk);
  EXPECT_THAT(Sent(), ElementsAre(P(0, 0), P(0, 1), P(0, 2), P(1, 0), P(1, 1),
                                  P(1, 2)));
  EXPECT_FALSE(stream_.closed().has_value());
}

TEST_F(ExchangeSessionTest, DropsVersionsThatASlowWorkerNoLongerNeeds) {
  Welcome();
  Initialize();
  for (int64_t step = 0; step < 4; ++step) {
    for (int chunk = 0; chunk < kSessionChunks; ++chunk)
      Contribute(step, chunk);
  }
  EXPECT_THAT(Sent(), ElementsAre(P(3, 0), P(3, 1), P(3, 2), P(4, 0), P(4, 1),
                                  P(4, 2)));
}

TEST_F(ExchangeSessionTest, SendsNothingAfterTheCallHasEnded) {
  Welcome();
  Initialize();
  (void)Sent();
  session_->OnGone();
  for (int chunk = 0; chunk < kSessionChunks; ++chunk) Contribute(0, chunk);
  EXPECT_EQ(stream_.queued(), 0u);
}

// A worker that fetches weights.
class FetchingSessionTest : public ExchangeSessionTest {
 protected:
  FetchingSessionTest() {
    Start();
    WorkerMessage hello = HelloOf(3);
    hello.mutable_hello()->set_fetches(true);
    Receive(hello);
    EXPECT_TRUE(stream_.Read(session_.get()).has_value());  // The welcome.
  }

  void Request(int64_t version, std::vector<int> chunks) {
    WorkerMessage message;
    message.mutable_fetch()->set_version(version);
    for (const int chunk : chunks) message.mutable_fetch()->add_chunk(chunk);
    Receive(message);
  }
  // The notices that are queued. `sent` receives the versions with values.
  std::vector<P> Notices(std::vector<P>* sent) {
    std::vector<P> notices;
    while (const auto next = stream_.Read(session_.get())) {
      for (const Weights& weights : next->message.in_memory().weights()) {
        notices.push_back({weights.version(), weights.chunk()});
      }
      if (!next->message.has_weights()) continue;
      EXPECT_EQ(next->payload.size(), kSessionElements * sizeof(float));
      sent->push_back(
          {next->message.weights().version(), next->message.weights().chunk()});
    }
    return notices;
  }
};

TEST_F(FetchingSessionTest, SendsValuesOnlyWhenTheyAreRequested) {
  Initialize();
  std::vector<P> sent;
  EXPECT_THAT(Notices(&sent), ElementsAre(P(0, 0), P(0, 1), P(0, 2)));
  EXPECT_THAT(sent, ElementsAre());
  // Again and again, and only once if the first answer is still queued.
  for (int i = 0; i < 2; ++i) {
    sent.clear();
    Request(0, {2, 1});
    Request(0, {1});
    EXPECT_THAT(Notices(&sent), ElementsAre());
    EXPECT_THAT(sent, ElementsAre(P(0, 1), P(0, 2)));
  }
  EXPECT_EQ(counters_.bytes_sent, 6 * kSessionElements * 4);
  EXPECT_EQ(counters_.shared_bytes_sent, 0);
}

TEST_F(FetchingSessionTest, AnswersAsSoonAsTheVersionExists) {
  Initialize();
  std::vector<P> sent;
  Notices(&sent);
  Request(1, {0, 2});
  EXPECT_THAT(Notices(&sent), ElementsAre());
  for (int chunk = 0; chunk < kSessionChunks; ++chunk) Contribute(0, chunk);
  EXPECT_THAT(Notices(&sent), ElementsAre(P(1, 0), P(1, 1), P(1, 2)));
  EXPECT_THAT(sent, ElementsAre(P(1, 0), P(1, 2)));
  // Both versions stay until the next step.
  sent.clear();
  Request(0, {1});
  Notices(&sent);
  EXPECT_THAT(sent, ElementsAre(P(0, 1)));
}

TEST_F(FetchingSessionTest, DoesNotAnswerForAVersionThatIsGone) {
  Initialize();
  for (int64_t step = 0; step < 2; ++step) {
    for (int chunk = 0; chunk < kSessionChunks; ++chunk)
      Contribute(step, chunk);
  }
  std::vector<P> sent;
  Notices(&sent);
  Request(0, {0});
  Notices(&sent);
  EXPECT_THAT(sent, ElementsAre());
  EXPECT_FALSE(stream_.closed().has_value());
}

TEST_F(FetchingSessionTest, RefusesARequestForAForeignChunk) {
  Request(0, {kSessionChunks});
  ASSERT_TRUE(stream_.closed().has_value());
  EXPECT_EQ(stream_.closed()->code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ExchangeSessionTest, RefusesARequestOfAWorkerThatDoesNotFetch) {
  Welcome();
  WorkerMessage message;
  message.mutable_fetch()->add_chunk(0);
  Receive(message);
  ASSERT_TRUE(stream_.closed().has_value());
  EXPECT_EQ(stream_.closed()->code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(ExchangeSessionTest, RefusesAFetchingWorkerThatOffersMemory) {
  Start();
  WorkerMessage hello = HelloOf(3);
  hello.mutable_hello()->set_fetches(true);
  hello.mutable_hello()->mutable_memory();
  Receive(hello);
  ASSERT_TRUE(stream_.closed().has_value());
  EXPECT_EQ(stream_.closed()->code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tributary
