// What a call within a process does that one over gRPC cannot be made to do in
// a test: a queue that waits. stream_conformance_test.cc tests the rest.
#include "common/stream/local_call.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/journal.pb.h"
#include "tests/support/executors.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Call = LocalCall<JournalMessage, JournalAnswer>;

JournalAnswer Answer(int64_t kept) {
  JournalAnswer answer;
  answer.set_kept(kept);
  return answer;
}

class QuietServer final : public ServerSession<JournalMessage, JournalAnswer> {
 public:
  void OnMessage(const JournalMessage& message, ReceivedPayload) override {
    versions.push_back(message.part().version());
  }
  void OnEnd() override {}
  void OnGone() override {}

  std::vector<int64_t> versions;
};

class ListeningClient final
    : public ClientSession<JournalAnswer, JournalMessage> {
 public:
  bool OnMessage(const JournalAnswer& answer, ReceivedPayload) override {
    kept.push_back(answer.kept());
    return true;
  }
  void OnGone(const absl::Status& status) override { gone.push_back(status); }

  std::vector<int64_t> kept;
  std::vector<absl::Status> gone;
};

class LocalCallTest : public testing::Test {
 protected:
  LocalCallTest() {
    client_ = Call::Open(calls_, [this](ServerStream<JournalAnswer>* stream) {
      server_stream_ = stream;
      return std::make_unique<QuietServer>();
    });
    client_->Start(&session_);
  }
  ~LocalCallTest() override {
    client_->Cancel();
    executor_.RunAll();
    (void)client_->AwaitDone();
  }

  HeldExecutor executor_;
  std::shared_ptr<LocalCalls> calls_ = std::make_shared<LocalCalls>(&executor_);
  ServerStream<JournalAnswer>* server_stream_ = nullptr;
  ListeningClient session_;
  std::unique_ptr<ClientStream<JournalAnswer, JournalMessage>> client_;
};

TEST_F(LocalCallTest, DeliversByPriorityAndThenInTheOrderOfTheCalls) {
  server_stream_->Send(Answer(3), /*priority=*/7);
  server_stream_->Send(Answer(1), /*priority=*/2);
  server_stream_->Send(Answer(4), /*priority=*/7);
  server_stream_->Send(Answer(2), /*priority=*/2);
  executor_.RunAll();
  EXPECT_THAT(session_.kept, ElementsAre(1, 2, 3, 4));
}

TEST_F(LocalCallTest, DropsWhatWaitsWithAPriority) {
  server_stream_->Send(Answer(1), /*priority=*/2);
  server_stream_->Send(Answer(2), /*priority=*/3);
  EXPECT_TRUE(server_stream_->Drop(2));
  EXPECT_FALSE(server_stream_->Drop(2));
  executor_.RunAll();
  EXPECT_THAT(session_.kept, ElementsAre(2));
}

TEST_F(LocalCallTest, DropsSeveralOnlyIfTheFirstWaits) {
  for (int i = 1; i <= 4; ++i) server_stream_->Send(Answer(i), i);
  EXPECT_FALSE(server_stream_->Drop({7, 2}));
  EXPECT_TRUE(server_stream_->Drop({2, 3, 7}));
  executor_.RunAll();
  EXPECT_THAT(session_.kept, ElementsAre(1, 4));
}

TEST_F(LocalCallTest, CancelDropsWhatWaits) {
  server_stream_->Send(Answer(1));
  client_->Cancel();
  executor_.RunAll();
  EXPECT_THAT(session_.kept, IsEmpty());
  EXPECT_THAT(session_.gone, ElementsAre(absl::CancelledError("cancelled")));
}

TEST_F(LocalCallTest, ACallThatIsClosedEndsOnceAlthoughItIsCancelled) {
  server_stream_->Send(Answer(1));
  server_stream_->Close(absl::DataLossError("damaged"));
  server_stream_->Send(Answer(2));
  executor_.RunAll();
  client_->Cancel();
  executor_.RunAll();
  EXPECT_THAT(session_.kept, ElementsAre(1));
  EXPECT_THAT(session_.gone, ElementsAre(absl::DataLossError("damaged")));
  EXPECT_EQ(client_->AwaitDone(), absl::DataLossError("damaged"));
}

TEST_F(LocalCallTest, HoldsAPayloadUntilItIsDelivered) {
  const auto bytes = std::make_shared<const std::string>("weights");
  client_->Send(JournalMessage(),
                {bytes->data(), static_cast<int64_t>(bytes->size()), bytes},
                /*priority=*/0);
  EXPECT_EQ(bytes.use_count(), 2);
  executor_.RunAll();
  EXPECT_EQ(bytes.use_count(), 1);
}

}  // namespace
}  // namespace tributary
