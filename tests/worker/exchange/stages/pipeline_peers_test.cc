#include "worker/exchange/stages/pipeline_peers.h"

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "worker/exchange/stages/local_stage_link.h"

namespace tributary {
namespace {

using testing::HasSubstr;

constexpr auto kActivations = StageTransfer::ACTIVATION;
constexpr TransferKey kForward = {5, 0, 0, kActivations};

PipelinePeer PeerOf(int64_t incarnation, int stage_begin, int stage_end) {
  PipelinePeer peer;
  peer.incarnation = incarnation;
  peer.stage_begin = stage_begin;
  peer.stage_end = stage_end;
  peer.secret = "secret";
  return peer;
}

// Counts links until they have been destroyed.
struct Counted {
  explicit Counted(std::atomic<int>* links) : count(*links) { ++count; }
  ~Counted() { --count; }
  std::atomic<int>& count;
};
// The base that is declared first is destroyed last.
struct CountedLink : Counted, LocalStageLink {
  CountedLink(std::atomic<int>* links, const TransferPlan* plan, int64_t sender,
              TransferInbox* inbox)
      : Counted(links), LocalStageLink(plan, sender, inbox) {}
};

// Workers of one process, which reach each other without a network.
class PipelinePeersTest : public testing::Test {
 protected:
  PipelinePeersTest() {
    for (const int64_t incarnation : {1, 2, 3}) {
      PipelinePeers::Options options;
      options.job = {"job", "model", plan_.signature(), incarnation};
      options.patience = patience_;
      options.open = [this, incarnation](const PipelinePeer& peer,
                                         const StageHello& hello,
                                         const std::function<bool()>& stop)
          -> absl::StatusOr<std::unique_ptr<StageLink>> {
        if (peer.incarnation == lost_) {
          return absl::UnavailableError("lost worker 2");
        }
        const StageReceiver::Worker to =
            workers_.at(peer.incarnation)->receiver();
        absl::Status admitted = to.admission->Check(hello);
        // The other one has not learned of the assignment yet.
        while (absl::IsUnavailable(admitted) && !stop()) {
          std::this_thread::yield();
          admitted = to.admission->Check(hello);
        }
        if (!admitted.ok()) return admitted;
        return std::make_unique<CountedLink>(&links_, &plan_, incarnation,
                                             to.inbox);
      };
      workers_[incarnation] = std::make_unique<PipelinePeers>(&plan_, options);
    }
  }

  ~PipelinePeersTest() override {
    // Closes the links to the inboxes of other workers before those end.
    for (auto& [incarnation, worker] : workers_) {
      worker->BeginEpoch(/*epoch=*/1000, /*first_step=*/0, /*peers=*/{});
    }
    // Other threads close them.
    while (links_ > 0) std::this_thread::yield();
  }

  void Begin(int64_t epoch, const std::vector<PipelinePeer>& peers,
             int64_t first_step = 0) {
    for (const PipelinePeer& peer : peers) {
      workers_.at(peer.incarnation)->BeginEpoch(epoch, first_step, peers);
    }
  }
  absl::Status Send(int64_t from, int stage, int64_t epoch = 1,
                    const TransferKey& key = kForward) {
    return workers_.at(from)->Send(epoch, stage, key, {},
                                   {absl::StrCat("from ", from)});
  }
  std::string Receive(int64_t to, int stage, int64_t epoch = 1,
                      const TransferKey& key = kForward) {
    const auto received = workers_.at(to)->Receive(epoch, stage, key);
    if (!received.ok()) return received.status().ToString();
    return std::string(received->data, received->bytes);
  }

  const TransferPlan plan_ = *TransferPlan::Create(
      {{0, kActivations, 100, 2}, {0, StageTransfer::WEIGHT_GRADIENT, 100, 2}},
      4);
  absl::Duration patience_ = absl::InfiniteDuration();
  int64_t lost_ = 0;
  std::atomic<int> links_ = 0;
  std::map<int64_t, std::unique_ptr<PipelinePeers>> workers_;
};

TEST_F(PipelinePeersTest, SendsToTheWorkerOfAStage) {
  Begin(1, {PeerOf(1, 0, 2), PeerOf(2, 2, 3), PeerOf(3, 3, 4)});
  EXPECT_TRUE(Send(1, 2).ok());
  EXPECT_EQ(Receive(2, 0), "from 1");
  // Worker 1 computes both of these stages.
  EXPECT_TRUE(Send(1, 1).ok());
  EXPECT_EQ(Receive(1, 0), "from 1");
  const TransferKey part = {5, 0, 0, StageTransfer::WEIGHT_GRADIENT};
  EXPECT_TRUE(Send(3, 0, 1, part).ok());
  EXPECT_EQ(Receive(1, 3, 1, part), "from 3");
  EXPECT_THAT(Send(1, 4), StatusIs(absl::StatusCode::kInvalidArgument,
                                   HasSubstr("stage 4")));
  EXPECT_TRUE(workers_.at(1)->Flush().ok());
}

TEST_F(PipelinePeersTest, NewAssignmentMovesAStage) {
  Begin(1, {PeerOf(1, 0, 1), PeerOf(2, 1, 2)});
  ASSERT_TRUE(Send(1, 1).ok());
  ASSERT_TRUE(Send(2, 0).ok());
  Begin(2, {PeerOf(1, 0, 1), PeerOf(3, 1, 2)});
  EXPECT_THAT(Send(1, 1), StatusIs(absl::StatusCode::kAborted));
  EXPECT_TRUE(Send(1, 1, /*epoch=*/2).ok());
  EXPECT_EQ(Receive(3, 0, /*epoch=*/2), "from 1");
  // Worker 2 does not know of it, and has no influence.
  EXPECT_TRUE(Send(2, 0).ok());
  EXPECT_TRUE(Send(3, 0, /*epoch=*/2).ok());
  EXPECT_EQ(Receive(1, 1, /*epoch=*/2), "from 3");
  // A neighbour takes over.
  Begin(3, {PeerOf(1, 0, 2)});
  EXPECT_TRUE(Send(1, 1, /*epoch=*/3).ok());
  EXPECT_EQ(Receive(1, 0, /*epoch=*/3), "from 1");
}

TEST_F(PipelinePeersTest, WaitsForTheAssignment) {
  std::string received;
  std::thread receiver([&] { received = Receive(2, 0); });
  absl::Status sent;
  std::thread sender([&] { sent = Send(1, 1); });
  Begin(1, {PeerOf(1, 0, 1), PeerOf(2, 1, 2)});
  sender.join();
  receiver.join();
  EXPECT_TRUE(sent.ok()) << sent;
  EXPECT_EQ(received, "from 1");
}

TEST_F(PipelinePeersTest, LostPeerIsAwaitedUntilTheNextAssignment) {
  lost_ = 2;
  Begin(1, {PeerOf(1, 0, 1), PeerOf(2, 1, 2)});
  // Its connection to worker 1 ends.
  const auto inbox = workers_.at(1)->receiver().inbox;
  inbox->Disconnect(2, inbox->Connect(2), absl::OkStatus());
  absl::Status sent;
  absl::Status received;
  std::thread sender([&] { sent = Send(1, 1); });
  std::thread receiver(
      [&] { received = workers_.at(1)->Receive(1, 1, kForward).status(); });
  Begin(2, {PeerOf(1, 0, 1), PeerOf(3, 1, 2)});
  sender.join();
  receiver.join();
  EXPECT_THAT(sent, StatusIs(absl::StatusCode::kAborted));
  EXPECT_THAT(received, StatusIs(absl::StatusCode::kAborted));
  EXPECT_TRUE(Send(1, 1, /*epoch=*/2).ok());
}

TEST_F(PipelinePeersTest, APeerMayConnectAgain) {
  Begin(1, {PeerOf(1, 0, 1), PeerOf(2, 1, 2)});
  const auto inbox = workers_.at(1)->receiver().inbox;
  inbox->Disconnect(2, inbox->Connect(2), absl::OkStatus());
  std::string received;
  std::thread receiver([&] { received = Receive(1, 1); });
  inbox->Connect(2);
  EXPECT_TRUE(Send(2, 0).ok());
  receiver.join();
  EXPECT_EQ(received, "from 2");
}

class ImpatientPeersTest : public PipelinePeersTest {
 protected:
  ImpatientPeersTest() {
    for (auto& [incarnation, worker] : workers_) {
      PipelinePeers::Options options;
      options.job = {"job", "model", plan_.signature(), incarnation};
      options.patience = absl::Milliseconds(1);
      options.open = [](const PipelinePeer&, const StageHello&,
                        const std::function<bool()>&) {
        return absl::UnavailableError("lost worker 2");
      };
      worker = std::make_unique<PipelinePeers>(&plan_, options);
    }
  }
};

TEST_F(ImpatientPeersTest, ReportALostPeerWithoutANewAssignment) {
  Begin(1, {PeerOf(1, 0, 1), PeerOf(2, 1, 2)});
  EXPECT_THAT(Send(1, 1),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("worker 2")));
  const auto inbox = workers_.at(1)->receiver().inbox;
  inbox->Disconnect(2, inbox->Connect(2), absl::OkStatus());
  EXPECT_THAT(workers_.at(1)->Receive(1, 1, kForward),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("worker 2")));
}

TEST_F(PipelinePeersTest, ReturnsTheReasonOfARefusal) {
  Begin(1, {PeerOf(1, 0, 1), PeerOf(2, 1, 2)});
  PipelinePeer wrong = PeerOf(2, 1, 2);
  wrong.secret = "another";
  workers_.at(1)->BeginEpoch(2, 0, {PeerOf(1, 0, 1), wrong});
  EXPECT_THAT(Send(1, 1, /*epoch=*/2),
              StatusIs(absl::StatusCode::kPermissionDenied));
}

TEST_F(PipelinePeersTest, EndedStepsAreOpenAgainInANewEpoch) {
  Begin(1, {PeerOf(1, 0, 1), PeerOf(2, 1, 2)});
  for (auto& [incarnation, worker] : workers_) worker->EndStep(5);
  EXPECT_THAT(Send(1, 1), StatusIs(absl::StatusCode::kAborted));
  EXPECT_THAT(workers_.at(2)->Receive(1, 0, kForward),
              StatusIs(absl::StatusCode::kAborted));
  Begin(2, {PeerOf(1, 0, 1), PeerOf(2, 1, 2)}, /*first_step=*/5);
  EXPECT_TRUE(Send(1, 1, /*epoch=*/2).ok());
  EXPECT_EQ(Receive(2, 0, /*epoch=*/2), "from 1");
  EXPECT_THAT(Send(1, 1, /*epoch=*/2, {4, 0, 0, kActivations}),
              StatusIs(absl::StatusCode::kAborted));
}

// A new assignment may arrive while a worker ends the last task of the old one.
TEST_F(PipelinePeersTest, ATaskOfAnOldEpochEndsNoStep) {
  Begin(1, {PeerOf(1, 0, 1), PeerOf(2, 1, 2)});
  Begin(2, {PeerOf(1, 0, 1), PeerOf(2, 1, 2)}, /*first_step=*/5);
  for (auto& [incarnation, worker] : workers_) worker->EndStep(1, 5);
  EXPECT_TRUE(Send(1, 1, /*epoch=*/2).ok());
  EXPECT_EQ(Receive(2, 0, /*epoch=*/2), "from 1");
}

TEST_F(PipelinePeersTest, FailureWakesAll) {
  Begin(1, {PeerOf(1, 0, 1), PeerOf(2, 1, 2)});
  std::vector<absl::Status> statuses(4);
  std::vector<std::thread> threads;
  PipelinePeers* const worker = workers_.at(1).get();
  ASSERT_TRUE(Send(1, 1, 1, {5, 0, 0, kActivations}).ok());
  ASSERT_TRUE(Send(1, 1, 1, {5, 1, 0, kActivations}).ok());
  threads.emplace_back([&] {
    statuses[0] = Send(1, 1, 1, {5, 2, 0, kActivations});
  });
  threads.emplace_back([&] { statuses[1] = Send(1, 1, /*epoch=*/2); });
  threads.emplace_back(
      [&] { statuses[2] = worker->Receive(1, 1, kForward).status(); });
  threads.emplace_back([&] { statuses[3] = worker->Flush(); });
  worker->Fail(absl::CancelledError("shutdown"));
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : statuses) {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kCancelled));
  }
}

}  // namespace
}  // namespace tributary
