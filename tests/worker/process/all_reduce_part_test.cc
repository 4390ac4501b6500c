#include "worker/process/all_reduce_part.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/job/job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/support/tiny_jobs.h"
#include "worker/state/work_state.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kVersion = 12;

// Records reports, reacts to Synced, and forwards publications as the
// coordinator does.
class FakeMembership final : public MembershipStream {
 public:
  using Session = ClientSession<CoordinatorOrder, WorkerReport>;

  FakeMembership(std::vector<WorkerReport>* reports,
                 std::function<void(Session*)> on_synced)
      : reports_(*reports), on_synced_(std::move(on_synced)) {}

  void Start(Session* session) override { session_ = session; }
  void Send(const WorkerReport& report, OutgoingPayload, int64_t) override {
    reports_.push_back(report);
    if (report.has_synced()) on_synced_(session_);
    if (report.has_publication()) {
      CoordinatorOrder order;
      *order.mutable_publication() = report.publication();
      session_->OnMessage(order, ReceivedPayload());
    }
  }
  void Wake() override {}
  void HalfClose() override {}
  void Cancel() override {}
  void Resume() override {}
  absl::Status AwaitDone() override { return absl::OkStatus(); }

 private:
  std::vector<WorkerReport>& reports_;
  const std::function<void(Session*)> on_synced_;
  Session* session_ = nullptr;
};

// A network on which server 0 does not have the state.
class NetworkWithoutState final : public WorkerNetwork {
 public:
  absl::StatusOr<std::unique_ptr<MembershipStream>> ConnectToCoordinator(
      const std::string&, absl::Duration,
      const std::function<bool()>&) override {
    return absl::UnimplementedError("not used");
  }
  absl::StatusOr<std::unique_ptr<ExchangeStream>> ConnectToServer(
      const std::string&, absl::Time, const std::function<bool()>&) override {
    return absl::UnimplementedError("not used");
  }
  std::unique_ptr<ReplicaStream> OpenReplicaStream(
      const std::string&, const JournalHello&,
      std::function<void(const absl::Status&)>) override {
    return nullptr;
  }
  absl::Status ReadReplica(const std::string&, const ReadJournalRequest&,
                           Snapshot*) override {
    return absl::NotFoundError("not in this server's memory");
  }
  absl::StatusOr<std::unique_ptr<PeerMesh>> ConnectToMembers(
      const GlooMeshOptions& options) override {
    connect_timeout = options.connect_timeout;
    return absl::UnavailableError("a member is lost");
  }
  absl::StatusOr<std::unique_ptr<StagePort>> AcceptTransfers(
      const StageHost::Options&) override {
    return absl::UnimplementedError("not used");
  }
  absl::StatusOr<StageCaller> ConnectToStage(
      const std::string&, absl::Time, const std::function<bool()>&) override {
    return absl::UnimplementedError("not used");
  }

  absl::Duration connect_timeout;
};

class AllReducePartTest : public testing::Test {
 protected:
  // Joins an attempt that began with kVersion. Calls `on_synced` when the
  // worker has sent Synced.
  absl::Status JoinLate(
      std::function<void(FakeMembership::Session*)> on_synced) {
    return JoinAt(kVersion, std::move(on_synced));
  }
  absl::Status JoinAt(int64_t version,
                      std::function<void(FakeMembership::Session*)> on_synced) {
    JobSpec job = TinyJob("mlp", testing::TempDir());
    job.mutable_exchange()->mutable_all_reduce();
    auto setup = TrainingSetup::Create(ResolveJob(job), /*threads=*/1);
    if (!setup.ok()) return setup.status();
    const auto state = WorkState::Create((*setup)->job(), WorkState::Options(),
                                         &(*setup)->layout());
    MembershipClient membership;
    membership.Begin(
        std::make_unique<FakeMembership>(&reports_, std::move(on_synced)),
        "localhost:1", Join());
    membership.Attach(state.get());
    WorkerOptions options;
    options.coordinator = "localhost:1";
    options.network = &network_;
    options.host = "127.0.0.1";
    Admission admission;
    admission.set_lease_ms(absl::ToInt64Milliseconds(lease_));
    Open open;
    open.set_version(version);
    const absl::Status status =
        JoinAllReduce(options, admission, open, /*nccl=*/nullptr, setup->get(),
                      /*trace=*/nullptr, /*stages=*/nullptr, &membership,
                      state.get())
            .status();
    membership.Detach();
    return status;
  }

  std::vector<WorkerReport> reports_;
  std::string first_digests_;
  NetworkWithoutState network_;
  absl::Duration lease_ = absl::Seconds(10);
};

// A member that hangs is lost when its lease has expired. The others must not
// fail before that.
TEST_F(AllReducePartTest, AwaitsMembersForLongerThanTheLease) {
  const auto form_group = [](FakeMembership::Session* session) {
    CoordinatorOrder order;
    order.mutable_group()->add_leaf_begin(0);
    session->OnMessage(order, ReceivedPayload());
  };
  lease_ = absl::Minutes(2);
  EXPECT_THAT(JoinAt(/*version=*/0, form_group),
              StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_GT(network_.connect_timeout, lease_);
}

TEST_F(AllReducePartTest, AMemberWithOtherInitialWeightsFails) {
  const auto form_group = [this](FakeMembership::Session* session) {
    CoordinatorOrder order;
    order.mutable_group()->set_member(1);
    order.mutable_group()->add_leaf_begin(0);
    order.mutable_group()->add_leaf_begin(1);
    session->OnMessage(order, ReceivedPayload());
    order.mutable_publication()->set_name("initial weights");
    order.mutable_publication()->add_part(first_digests_);
    session->OnMessage(order, ReceivedPayload());
  };
  // Member 0 publishes the digests.
  EXPECT_THAT(JoinAt(/*version=*/0,
                     [](FakeMembership::Session* session) {
                       CoordinatorOrder order;
                       order.mutable_group()->add_leaf_begin(0);
                       session->OnMessage(order, ReceivedPayload());
                     }),
              StatusIs(absl::StatusCode::kUnavailable));
  ASSERT_TRUE(reports_.back().has_publication());
  first_digests_ = reports_.back().publication().part(0);
  EXPECT_THAT(JoinAt(/*version=*/0, form_group),
              StatusIs(absl::StatusCode::kUnavailable));
  // The second parameter of the tiny MLP.
  first_digests_[8] ^= 1;
  EXPECT_THAT(JoinAt(/*version=*/0, form_group),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("parameter hidden.0.bias")));
}

// The members have saved newer versions, so that the server has removed the
// one that the attempt began with. A simulated history has found that the
// worker ended with an error.
TEST_F(AllReducePartTest, AWorkerThatJoinsLateWaitsForTheNextAttempt) {
  EXPECT_THAT(JoinLate([](FakeMembership::Session* session) {
                session->OnGone(absl::AbortedError("the attempt is over"));
              }),
              StatusIs(absl::StatusCode::kAborted));
  ASSERT_EQ(reports_.size(), 2u);
  EXPECT_EQ(reports_[1].synced().version(), kVersion);
}

TEST_F(AllReducePartTest, AMemberWithoutStateJoinsAgain) {
  EXPECT_THAT(
      JoinLate([](FakeMembership::Session* session) {
        CoordinatorOrder order;
        order.mutable_group()->add_leaf_begin(0);
        session->OnMessage(order, ReceivedPayload());
      }),
      StatusIs(absl::StatusCode::kUnavailable, HasSubstr("version 12")));
}

}  // namespace
}  // namespace tributary
