#include "deploy/tools/conformance/conversation.h"

#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A job with two servers, eight micro-batches and two chunks.
class ConversationTest : public ::testing::Test {
 protected:
  explicit ConversationTest(bool leases_steps = false)
      : conversation_(std::nullopt, /*micro_batches=*/8, leases_steps) {}

  void Report(const WorkerReport& report) { conversation_.OnReport(report); }
  void Join() {
    WorkerReport report;
    report.mutable_join();
    Report(report);
  }
  void Admit(int64_t incarnation, int64_t attempt = 1) {
    CoordinatorOrder order;
    order.mutable_admission()->set_incarnation(incarnation);
    order.mutable_admission()->set_attempt(attempt);
    order.mutable_admission()->set_job_id("job");
    order.mutable_admission()->add_server_address("");
    order.mutable_admission()->add_server_address("other");
    conversation_.OnOrder(order);
  }
  void SendReady(const Ready& ready = {}) {
    WorkerReport report;
    *report.mutable_ready() = ready;
    Report(report);
  }
  void Open() {
    CoordinatorOrder order;
    order.mutable_open();
    conversation_.OnOrder(order);
  }
  void Hello(const void* call, int64_t incarnation, int64_t attempt = 1) {
    WorkerMessage message;
    message.mutable_hello()->set_incarnation(incarnation);
    message.mutable_hello()->set_attempt(attempt);
    message.mutable_hello()->set_job_id("job");
    conversation_.OnWorkerMessage(call, message);
  }
  void Weights(int chunk, int64_t version) {
    ServerMessage message;
    message.mutable_weights()->set_chunk(chunk);
    message.mutable_weights()->set_version(version);
    conversation_.OnServerMessage(message);
  }
  void Welcome(int chunk) {
    ServerMessage message;
    message.mutable_welcome()->add_chunk(chunk);
    conversation_.OnServerMessage(message);
  }
  void Synced(int64_t version) {
    WorkerReport report;
    report.mutable_synced()->set_version(version);
    Report(report);
  }
  void Deal(int leaf_begin, int leaf_end, int pieces = 2) {
    CoordinatorOrder order;
    order.mutable_deal()->set_generation(++generation_);
    order.mutable_deal()->set_leaf_begin(leaf_begin);
    order.mutable_deal()->set_leaf_end(leaf_end);
    order.mutable_deal()->set_piece_end(pieces);
    conversation_.OnOrder(order);
  }
  void Contribute(int64_t step, int chunk, int node) {
    WorkerMessage message;
    message.mutable_contribution()->set_step(step);
    message.mutable_contribution()->set_chunk(chunk);
    message.mutable_contribution()->set_node(node);
    conversation_.OnWorkerMessage(&call_, message);
  }
  void TablesComplete(int64_t version) {
    ServerMessage message;
    message.mutable_tables_complete()->set_version(version);
    conversation_.OnServerMessage(message);
  }
  void ContributeRows(const void* call, int64_t step, int node,
                      bool last = true) {
    WorkerMessage message;
    message.mutable_row_contribution()->set_step(step);
    message.mutable_row_contribution()->set_node(node);
    message.mutable_row_contribution()->set_last(last);
    conversation_.OnWorkerMessage(call, message);
  }
  void Evaluate(int64_t version, int64_t piece) {
    WorkerReport report;
    report.mutable_evaluation()->set_version(version);
    report.mutable_evaluation()->set_piece(piece);
    Report(report);
  }
  void Finished(bool stopped = false) {
    CoordinatorOrder order;
    order.mutable_finished()->set_stopped(stopped);
    conversation_.OnOrder(order);
  }
  // Brings the worker to the state working, at version 0.
  void BeginWork() {
    Join();
    Admit(/*incarnation=*/1);
    SendReady();
    Open();
    Hello(&call_, 1);
    Hello(&other_call_, 1);
    for (const int chunk : {0, 1}) {
      Welcome(chunk);
      Weights(chunk, 0);
    }
    Synced(0);
    Deal(0, 4);
  }
  std::string What() const {
    const auto fault = conversation_.fault();
    return fault.has_value() ? fault->what : "";
  }
  std::string Rule() const {
    const auto fault = conversation_.fault();
    return fault.has_value() ? fault->rule : "";
  }
  std::string Pending() const { return conversation_.Pending().what; }

  Conversation conversation_;
  int64_t generation_ = 0;
  int call_ = 0;
  int other_call_ = 0;
};

TEST_F(ConversationTest, RowsGoToEachServerOnce) {
  BeginWork();
  TablesComplete(0);
  TablesComplete(0);
  Contribute(0, 0, 2);
  Contribute(0, 1, 2);
  EXPECT_THAT(Pending(), HasSubstr("RowContribution to 0 of 2 servers"));
  ContributeRows(&call_, 0, 2, /*last=*/false);
  ContributeRows(&call_, 0, 2);
  EXPECT_THAT(Pending(), HasSubstr("RowContribution to 1 of 2 servers"));
  ContributeRows(&other_call_, 0, 2);
  EXPECT_THAT(Pending(), Not(HasSubstr("RowContribution")));
  EXPECT_EQ(What(), "");
  ContributeRows(&call_, 0, 2);
  EXPECT_THAT(What(), HasSubstr("twice"));
  EXPECT_THAT(Rule(), HasSubstr("Tables"));
}

TEST_F(ConversationTest, RowsOfOtherMicroBatchesAreAFault) {
  BeginWork();
  TablesComplete(0);
  TablesComplete(0);
  ContributeRows(&call_, 0, 3);
  EXPECT_THAT(What(), HasSubstr("no Deal"));
}

TEST_F(ConversationTest, AStepBeginsWhenAllTablesAreComplete) {
  BeginWork();
  TablesComplete(0);
  TablesComplete(0);
  TablesComplete(1);
  Contribute(0, 0, 2);  // A repeated step.
  EXPECT_EQ(What(), "");
  Contribute(1, 0, 2);
  EXPECT_THAT(What(), HasSubstr("TablesComplete"));
}

TEST_F(ConversationTest, ACorrectWorkerHasNoFault) {
  BeginWork();
  Contribute(0, 0, 2);
  Contribute(0, 1, 2);
  Weights(0, 1);
  // The rest of step 1 is assigned to this worker, too.
  Deal(0, 8);
  Contribute(1, 0, 2);
  Contribute(1, 0, 3);
  Evaluate(1, 0);
  Finished();
  WorkerReport farewell;
  farewell.mutable_farewell();
  Report(farewell);
  conversation_.OnMembershipEnd(absl::OkStatus());
  EXPECT_EQ(What(), "");
  EXPECT_TRUE(conversation_.finished());
}

TEST_F(ConversationTest, NamesTheStateThatAWorkerDoesNotLeave) {
  EXPECT_EQ(Pending(), "it did not call Membership");
  Join();
  EXPECT_THAT(Pending(), HasSubstr("received no Admission"));
  Admit(1);
  EXPECT_THAT(Pending(), HasSubstr("Admission"));
  SendReady();
  EXPECT_THAT(Pending(), HasSubstr("received no Open"));
  Open();
  Hello(&call_, 1);
  EXPECT_EQ(Pending(), "it received Open, but sent Hello to 1 of 2 servers");
  Hello(&other_call_, 1);
  Welcome(0);
  Welcome(1);
  Weights(0, 3);
  EXPECT_THAT(Pending(), HasSubstr("every chunk"));
  Weights(1, 4);
  EXPECT_THAT(Pending(), HasSubstr("version 3 of all chunks"));
  Synced(3);
  EXPECT_THAT(Pending(), HasSubstr("received no Deal"));
  Deal(2, 4);
  EXPECT_THAT(Pending(), HasSubstr("it has version 3 and the Deal of "
                                   "micro-batches 2 to 3"));
  Finished();
  EXPECT_THAT(Pending(), HasSubstr("received Finished"));
}

// For example after its lease has expired.
TEST_F(ConversationTest, NamesWhatEndedForAWorkerThatDoesNotJoinAgain) {
  BeginWork();
  conversation_.OnMembershipEnd(absl::AbortedError("the lease has expired"));
  EXPECT_THAT(Pending(), HasSubstr("Membership with ABORTED: the lease"));
  Join();
  EXPECT_THAT(Pending(), HasSubstr("received no Admission"));
  conversation_.OnBroken(absl::UnavailableError("the server was lost"));
  EXPECT_THAT(Pending(), HasSubstr("with UNAVAILABLE"));
  EXPECT_THAT(conversation_.Pending().rule, HasSubstr("Losing a server"));
  EXPECT_EQ(What(), "");
}

TEST_F(ConversationTest, HelloMustComeFromTheNewestAdmission) {
  BeginWork();
  conversation_.OnMembershipEnd(absl::AbortedError("the attempt is over"));
  EXPECT_EQ(conversation_.dismissals(), 1);
  Join();
  Admit(/*incarnation=*/4, /*attempt=*/2);
  Hello(&call_, /*incarnation=*/1, /*attempt=*/2);
  EXPECT_THAT(What(), HasSubstr("Hello.incarnation is 1, expected 4"));
  EXPECT_THAT(Rule(), HasSubstr("item 5"));
}

TEST_F(ConversationTest, OnlyAssignedMicroBatchesMayBeSent) {
  BeginWork();
  Contribute(0, 0, 3);
  EXPECT_THAT(What(), HasSubstr("step 0: it sent node 3 "));
}

TEST_F(ConversationTest, ANodeMayBeSentOnce) {
  BeginWork();
  Contribute(0, 1, 9);
  Contribute(0, 1, 9);
  EXPECT_EQ(What(), "step 0: it sent chunk 1 of node 9 twice");
}

TEST_F(ConversationTest, TheFirstDealPrecedesContributions) {
  Join();
  Admit(1);
  Hello(&call_, 1);
  Contribute(0, 0, 1);
  EXPECT_EQ(What(), "it sent a Contribution before the first Deal");
}

TEST_F(ConversationTest, AssignedPiecesMayBeEvaluatedOnce) {
  BeginWork();
  Evaluate(1, 1);
  EXPECT_EQ(What(), "");
  Evaluate(1, 1);
  EXPECT_THAT(What(), HasSubstr("piece 1 of version 1 twice"));
}

TEST_F(ConversationTest, OtherPiecesMayNotBeEvaluated) {
  BeginWork();
  Evaluate(1, 2);
  EXPECT_THAT(What(), HasSubstr("piece 2"));
}

TEST_F(ConversationTest, SyncedRequiresAllChunks) {
  Join();
  Admit(1);
  SendReady();
  Open();
  Hello(&call_, 1);
  Welcome(0);
  Welcome(1);
  Weights(0, 0);
  Synced(0);
  EXPECT_THAT(What(), HasSubstr("Synced for version 0, before it received"));
}

TEST_F(ConversationTest, AServersRefusalIsTheFault) {
  BeginWork();
  conversation_.OnExchangeEnd(&call_, absl::InvalidArgumentError("the weight"));
  EXPECT_THAT(What(), HasSubstr("Exchange with INVALID_ARGUMENT: the weight"));
  EXPECT_THAT(Rule(), HasSubstr("What servers refuse"));
}

TEST_F(ConversationTest, AStoppedJobMustNotBeJoinedAgain) {
  BeginWork();
  Finished(/*stopped=*/true);
  conversation_.OnMembershipEnd(absl::FailedPreconditionError("stopped"));
  EXPECT_EQ(What(), "");
  Join();
  EXPECT_THAT(What(), HasSubstr("after Finished"));
}

TEST_F(ConversationTest, FarewellFollowsFinished) {
  BeginWork();
  WorkerReport farewell;
  farewell.mutable_farewell();
  Report(farewell);
  EXPECT_EQ(What(), "it sent Farewell before it received Finished");
}

TEST(ConversationReadyTest, DiffersFromTheExpectedTableOrData) {
  Conversation::Expected expected;
  auto* parameter = expected.table.add_parameter();
  parameter->set_name("w");
  parameter->add_shape(3);
  expected.facts.set_fingerprint(7);
  WorkerReport report;
  *report.mutable_ready()->mutable_table() = expected.table;
  report.mutable_ready()->mutable_data()->set_fingerprint(8);
  Conversation other_data(expected, 8);
  other_data.OnReport(report);
  EXPECT_EQ(other_data.fault()->what,
            "Ready.data.fingerprint is 8, expected 7");
  report.mutable_ready()->mutable_table()->mutable_parameter(0)->set_name("v");
  Conversation other_table(expected, 8);
  other_table.OnReport(report);
  EXPECT_THAT(other_table.fault()->what,
              HasSubstr("Ready.table: parameter 0 is v [3] "));
}

// Mode asynchronous: one server with two chunks.
class LeasedConversationTest : public ConversationTest {
 protected:
  LeasedConversationTest() : ConversationTest(/*leases_steps=*/true) {
    BeginWork();
  }
  void Claim() {
    WorkerReport report;
    report.mutable_claim();
    Report(report);
  }
  void Claimed(int64_t step) {
    CoordinatorOrder order;
    order.mutable_claimed()->set_step(step);
    conversation_.OnOrder(order);
  }
  void Send(int64_t step, int chunk, int64_t base_version) {
    WorkerMessage message;
    message.mutable_contribution()->set_step(step);
    message.mutable_contribution()->set_chunk(chunk);
    message.mutable_contribution()->set_node(1);
    message.mutable_contribution()->set_base_version(base_version);
    conversation_.OnWorkerMessage(&call_, message);
  }
  void Answer(int64_t step, int chunk, bool refused = false) {
    ServerMessage message;
    message.mutable_outcome()->set_step(step);
    message.mutable_outcome()->set_chunk(chunk);
    message.mutable_outcome()->set_refused(refused);
    conversation_.OnServerMessage(message);
  }
  // Computes a step from beginning to end.
  void Compute(int64_t step, int64_t base_version) {
    Claim();
    Claimed(step);
    for (const int chunk : {0, 1}) Send(step, chunk, base_version);
    for (const int chunk : {0, 1}) {
      Weights(chunk, base_version + 1);
      Answer(step, chunk);
    }
  }
};

TEST_F(LeasedConversationTest, ACorrectWorkerHasNoFault) {
  Compute(/*step=*/0, /*base_version=*/0);
  Compute(/*step=*/1, /*base_version=*/1);
  EXPECT_EQ(What(), "");
}

// It need not wait for TablesComplete, and sends rows again after a refusal.
TEST_F(LeasedConversationTest, TheRowsOfALeasedStepAreExpected) {
  TablesComplete(0);
  Claim();
  Claimed(3);
  for (const bool refused : {true, false}) {
    Send(/*step=*/3, /*chunk=*/0, /*base_version=*/0);
    for (const void* call : {&call_, &other_call_}) {
      ContributeRows(call, /*step=*/3, /*node=*/1);
    }
    Answer(3, 0, refused);
  }
  EXPECT_EQ(What(), "");
  ContributeRows(&call_, /*step=*/3, /*node=*/1);
  EXPECT_THAT(What(), HasSubstr("twice"));
}

TEST_F(LeasedConversationTest, TheRowsOfAStepMustBeLeased) {
  ContributeRows(&call_, /*step=*/4, /*node=*/1);
  EXPECT_THAT(What(), HasSubstr("step 4, which no Claimed"));
}

TEST_F(LeasedConversationTest, AStepMustBeLeased) {
  Claim();
  Claimed(3);
  Send(/*step=*/4, /*chunk=*/0, /*base_version=*/0);
  EXPECT_THAT(What(), HasSubstr("step 4, which no Claimed"));
}

TEST_F(LeasedConversationTest, TheBaseVersionMustHaveBeenReceived) {
  Claim();
  Claimed(0);
  Send(0, 1, /*base_version=*/1);
  EXPECT_THAT(What(), HasSubstr("step 0: the base_version of chunk 1 is 1"));
}

TEST_F(LeasedConversationTest, WeightsMustBeAsNewAsTheLease) {
  Compute(/*step=*/0, /*base_version=*/0);
  Claim();
  Claimed(1);
  Weights(1, 2);  // Newer versions may be used, but need not.
  Send(1, 1, /*base_version=*/1);
  EXPECT_EQ(What(), "");
  Send(1, 0, /*base_version=*/0);
  EXPECT_THAT(What(), HasSubstr("step 1: the base_version of chunk 0 is 0"));
}

// It may compute a step from the weights that it had before the other step.
TEST_F(LeasedConversationTest, AWorkerWithTwoLeasesMayUseOlderWeights) {
  Claim();
  Claim();
  Claimed(0);
  Claimed(1);
  for (const int chunk : {0, 1}) {
    Send(0, chunk, 0);
    Weights(chunk, 1);
    Answer(0, chunk);
  }
  Claim();
  Claimed(2);
  Send(1, 0, 0);
  Send(2, 0, 0);
  EXPECT_EQ(What(), "");
}

TEST_F(LeasedConversationTest, ARefusedStepIsSentAgain) {
  Claim();
  Claimed(0);
  for (const int chunk : {0, 1}) Send(0, chunk, 0);
  Answer(0, 0);
  Weights(1, 5);
  Answer(0, 1, /*refused=*/true);
  for (const int chunk : {0, 1}) Send(0, chunk, chunk == 1 ? 5 : 0);
  EXPECT_EQ(What(), "");
  Send(0, 1, 5);
  EXPECT_EQ(What(), "step 0: it sent chunk 1 of node 1 twice");
}

// Chunk 1 is refused before the worker has sent chunk 0 of the same sum.
TEST_F(LeasedConversationTest, ARefusalMayPrecedeTheRestOfTheStep) {
  Claim();
  Claimed(0);
  Send(0, 1, /*base_version=*/0);
  Weights(1, 5);
  Answer(0, 1, /*refused=*/true);
  Send(0, 0, 0);
  for (const int chunk : {1, 0}) Send(0, chunk, chunk == 1 ? 5 : 0);
  EXPECT_EQ(What(), "");
  Send(0, 0, 0);
  EXPECT_EQ(What(), "step 0: it sent chunk 0 of node 1 twice");
}

TEST_F(LeasedConversationTest, NamesTheLeaseThatAWorkerDoesNotUse) {
  EXPECT_THAT(Pending(), HasSubstr("no Claim"));
  Claim();
  Claimed(0);
  EXPECT_THAT(Pending(), HasSubstr("leased to it"));
  for (const int chunk : {0, 1}) {
    Send(0, chunk, 0);
    Answer(0, chunk);
  }
  EXPECT_THAT(Pending(), HasSubstr("and has no lease"));
}

}  // namespace
}  // namespace tributary
