// Incorrect peers: the server refuses each with a reason, and its job continues
// and ends with the same bits.
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/job/job.h"
#include "common/parameters/arena_layout.h"
#include "common/transport/channel.h"
#include "gmock/gmock.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "proto/parameter_server.grpc.pb.h"
#include "proto/rendezvous.grpc.pb.h"
#include "server/membership/member_secrets.h"
#include "tests/support/local_cluster.h"
#include "tests/support/tiny_jobs.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

std::string Directory(const std::string& name) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/peer-", name);
  EXPECT_EQ(std::system(absl::StrCat("mkdir -p '", path, "'").c_str()), 0);
  return path;
}

void SetDeadline(grpc::ClientContext* context) {
  context->set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(20)));
}

// Runs a job while the test's client violates the protocol. Two of three
// workers join and determine the model and the data. The job waits for the
// third worker until the client is done.
class BadPeerTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    job_ = new JobSpec(TinyJob("mlp", Directory("data")));
    LocalCluster cluster(*job_, /*servers=*/1, /*expected_workers=*/1,
                         Directory("undisturbed"));
    cluster.StartWorker();
    ASSERT_TRUE(cluster.Await().ok());
    digest_ = new std::string(cluster.Summary().value("weights_sha256", ""));
    ASSERT_EQ(digest_->size(), 64u);
  }
  static void TearDownTestSuite() {
    delete job_;
    delete digest_;
  }

  BadPeerTest()
      : cluster_(*job_, /*servers=*/1, /*expected_workers=*/3,
                 Directory("disturbed")),
        channel_(CreateChannel(cluster_.coordinator())),
        weights_(ParameterServer::NewStub(channel_)),
        rendezvous_(Rendezvous::NewStub(channel_)) {
    cluster_.StartWorker();
    cluster_.StartWorker();
  }

  ~BadPeerTest() override {
    cluster_.StartWorker();
    const absl::Status status = cluster_.Await();
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(cluster_.Summary().value("weights_sha256", ""), *digest_);
  }

  // Sends all messages on one Exchange call once the server knows the model.
  // Returns the call's status.
  grpc::Status Exchange(const std::vector<WorkerMessage>& messages) {
    while (true) {
      grpc::ClientContext context;
      SetDeadline(&context);
      auto stream = weights_->Exchange(&context);
      for (const WorkerMessage& message : messages) stream->Write(message);
      ServerMessage reply;
      while (stream->Read(&reply)) {
        if (reply.has_welcome()) signature_known_ = true;
      }
      const grpc::Status status = stream->Finish();
      if (status.error_code() != grpc::StatusCode::UNAVAILABLE) return status;
    }
  }

  // The Hello of a correct worker.
  WorkerMessage GoodHello() {
    WorkerMessage hello;
    hello.mutable_hello()->set_signature(Signature());
    hello.mutable_hello()->set_attempt(Attempt());
    hello.mutable_hello()->set_incarnation(kNobody);
    hello.mutable_hello()->set_secret(secrets_.OfMember(kNobody));
    return hello;
  }

  // Sends the contribution after the messages of a correct worker that computes
  // all micro-batches.
  grpc::Status Contribute(const WorkerMessage& contribution) {
    Deal deal;
    deal.set_generation(1);
    deal.set_leaf_end(
        static_cast<int>(ResolveJob(*job_).batch().micro_batches()));
    WorkerMessage all;
    all.mutable_assigned()->set_generation(1);
    all.mutable_assigned()->set_leaf_end(deal.leaf_end());
    all.mutable_assigned()->set_secret(secrets_.OfAssignment(kNobody, deal));
    return Exchange({GoodHello(), all, contribution});
  }

  // The output folder counts attempts, and each test adds one.
  static int64_t Attempt() {
    int64_t attempt = 0;
    std::ifstream(Directory("disturbed") + "/attempt") >> attempt;
    return attempt;
  }

  // The signature of the job's table, computed as PROTOCOL.md defines it.
  std::string Signature();

  grpc::Status Membership(const std::vector<WorkerReport>& reports) {
    grpc::ClientContext context;
    SetDeadline(&context);
    auto stream = rendezvous_->Membership(&context);
    for (const WorkerReport& report : reports) stream->Write(report);
    CoordinatorOrder order;
    while (stream->Read(&order)) {
    }
    return stream->Finish();
  }

  grpc::Status Enlistment(const std::vector<ServerReport>& reports) {
    grpc::ClientContext context;
    SetDeadline(&context);
    auto stream = rendezvous_->Enlistment(&context);
    for (const ServerReport& report : reports) stream->Write(report);
    ServerOrder order;
    while (stream->Read(&order)) {
    }
    return stream->Finish();
  }

  static void ExpectRefusal(const grpc::Status& status, grpc::StatusCode code,
                            const std::string& part) {
    EXPECT_EQ(status.error_code(), code) << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr(part));
  }

  // No worker of the job has this incarnation.
  static constexpr int64_t kNobody = 1000;

  const MemberSecrets secrets_{kClusterSecretKey};
  static JobSpec* job_;
  static std::string* digest_;
  LocalCluster cluster_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<ParameterServer::Stub> weights_;
  std::unique_ptr<Rendezvous::Stub> rendezvous_;
  bool signature_known_ = false;
};

JobSpec* BadPeerTest::job_ = nullptr;
std::string* BadPeerTest::digest_ = nullptr;

std::string BadPeerTest::Signature() {
  ParameterTable table;
  // The tiny mlp: 4 features, 48 and 32 hidden units, 3 classes.
  const std::vector<std::pair<std::string, std::vector<int64_t>>> parameters = {
      {"hidden.0.weight", {48, 4}},  {"hidden.0.bias", {48}},
      {"hidden.1.weight", {32, 48}}, {"hidden.1.bias", {32}},
      {"output.weight", {3, 32}},    {"output.bias", {3}}};
  for (const auto& [name, shape] : parameters) {
    auto* parameter = table.add_parameter();
    parameter->set_name(name);
    for (const int64_t size : shape) parameter->add_shape(size);
    parameter->set_group(shape.size() >= 2 ? DECAY : NO_DECAY);
  }
  table.set_chunk_elements(1024);
  return ArenaLayout::Create(table)->signature();
}

TEST_F(BadPeerTest, OtherModel) {
  WorkerMessage hello;
  hello.mutable_hello()->set_signature("0123456789abcdef");
  ExpectRefusal(Exchange({hello}), grpc::StatusCode::FAILED_PRECONDITION,
                "the model's signature is 0123456789ab at the worker");
}

TEST_F(BadPeerTest, OtherJob) {
  WorkerMessage hello = GoodHello();
  hello.mutable_hello()->set_job_id("0123456789abcdef");
  ExpectRefusal(Exchange({hello}), grpc::StatusCode::FAILED_PRECONDITION,
                "this worker's job (0123456789ab) is not the one served here");
}

TEST_F(BadPeerTest, TextThatIsTooLong) {
  WorkerReport report;
  report.mutable_join()->set_protocol_version(kProtocolVersion);
  report.mutable_join()->set_host(std::string(5000, 'h'));
  ExpectRefusal(Membership({report}), grpc::StatusCode::RESOURCE_EXHAUSTED,
                "Join.host has 5000 bytes, at most 4096 are allowed");
}

TEST_F(BadPeerTest, MoreSubmessagesThanAnyModelHas) {
  WorkerReport report;
  for (int i = 0; i < 200000; ++i) {
    report.mutable_ready()->mutable_table()->add_parameter();
  }
  ExpectRefusal(Membership({report}), grpc::StatusCode::RESOURCE_EXHAUSTED,
                "Limits.submessages");
  WorkerMessage message;
  for (int i = 0; i < 200000; ++i) {
    message.mutable_in_memory()->add_contribution();
  }
  ExpectRefusal(Exchange({GoodHello(), message}),
                grpc::StatusCode::RESOURCE_EXHAUSTED, "Limits.submessages");
}

TEST_F(BadPeerTest, NoHello) {
  WorkerMessage initial;
  initial.mutable_initial()->set_chunk(0);
  initial.mutable_initial()->set_payload(std::string(4096, '\0'));
  ExpectRefusal(Exchange({initial}), grpc::StatusCode::FAILED_PRECONDITION,
                "the first message must be Hello");
}

TEST_F(BadPeerTest, HelloOfAnEarlierAttempt) {
  WorkerMessage old = GoodHello();
  old.mutable_hello()->set_attempt(Attempt() - 1);
  ExpectRefusal(Exchange({old}), grpc::StatusCode::ABORTED, "join again");
}

TEST_F(BadPeerTest, TwoHellos) {
  ExpectRefusal(Exchange({GoodHello(), GoodHello()}),
                grpc::StatusCode::FAILED_PRECONDITION, "a second Hello");
  EXPECT_TRUE(signature_known_);
}

TEST_F(BadPeerTest, ChunkThatIsNotThere) {
  WorkerMessage contribution;
  contribution.mutable_contribution()->set_chunk(99);
  contribution.mutable_contribution()->set_payload(std::string(4096, '\0'));
  ExpectRefusal(Contribute(contribution), grpc::StatusCode::INVALID_ARGUMENT,
                "chunk 99 is not one of");
}

TEST_F(BadPeerTest, PayloadOfTheWrongLength) {
  WorkerMessage contribution;
  contribution.mutable_contribution()->set_payload(std::string(4092, '\0'));
  ExpectRefusal(Contribute(contribution), grpc::StatusCode::INVALID_ARGUMENT,
                "payload of 4092 bytes, expected 4096");
}

TEST_F(BadPeerTest, EncodingThatIsNotTheJobs) {
  WorkerMessage contribution;
  contribution.mutable_contribution()->set_encoding(BFLOAT16);
  contribution.mutable_contribution()->set_payload(std::string(2048, '\0'));
  ExpectRefusal(Contribute(contribution), grpc::StatusCode::INVALID_ARGUMENT,
                "a contribution in encoding BFLOAT16; the job's is FLOAT32");
}

TEST_F(BadPeerTest, NodeThatIsNotInTheTree) {
  WorkerMessage contribution;
  contribution.mutable_contribution()->set_node(16);
  contribution.mutable_contribution()->set_payload(std::string(4096, '\0'));
  ExpectRefusal(Contribute(contribution), grpc::StatusCode::INVALID_ARGUMENT,
                "node 16 is not in");
}

TEST_F(BadPeerTest, StepOfTheFuture) {
  WorkerMessage contribution;
  contribution.mutable_contribution()->set_step(1000000);
  contribution.mutable_contribution()->set_node(1);
  contribution.mutable_contribution()->set_payload(std::string(4096, '\0'));
  ExpectRefusal(Contribute(contribution), grpc::StatusCode::FAILED_PRECONDITION,
                "step 1000000 comes too early");
}

TEST_F(BadPeerTest, SampleCountThatIsNotTheMicroBatchs) {
  const JobSpec job = ResolveJob(*job_);
  const int64_t samples = job.batch().global() / job.batch().micro_batches();
  WorkerMessage sum;
  sum.mutable_contribution()->set_node(
      static_cast<int>(job.batch().micro_batches()));
  sum.mutable_contribution()->set_weight(samples - 1);
  sum.mutable_contribution()->set_payload(std::string(4096, '\0'));
  ExpectRefusal(Contribute(sum), grpc::StatusCode::INVALID_ARGUMENT,
                absl::StrCat("has sample count (weight) ", samples - 1,
                             ", expected ", samples));
}

TEST_F(BadPeerTest, IncarnationOfAnotherWorker) {
  WorkerMessage hello = GoodHello();
  hello.mutable_hello()->set_incarnation(1);
  ExpectRefusal(Exchange({hello}), grpc::StatusCode::PERMISSION_DENIED,
                "Hello.secret is not that of incarnation 1");
}

TEST_F(BadPeerTest, MicroBatchesThatWereNotAssigned) {
  WorkerMessage contribution;
  contribution.mutable_contribution()->set_node(1);
  contribution.mutable_contribution()->set_payload(std::string(4096, '\0'));
  ExpectRefusal(Exchange({GoodHello(), contribution}),
                grpc::StatusCode::INVALID_ARGUMENT, "sent Assigned");
}

TEST_F(BadPeerTest, StepBeforeTheFirst) {
  WorkerMessage contribution;
  contribution.mutable_contribution()->set_step(-1);
  contribution.mutable_contribution()->set_node(1);
  contribution.mutable_contribution()->set_payload(std::string(4096, '\0'));
  ExpectRefusal(Contribute(contribution), grpc::StatusCode::INVALID_ARGUMENT,
                "steps count from 0");
}

TEST_F(BadPeerTest, BytesThatAreNoMessage) {
  for (const std::string& garbage :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(100000, '\xff'),
        std::string("\x1a\xff\xff\xff\xff\x0f", 6), std::string()}) {
    grpc::Status status;
    do {
      grpc::GenericStub stub(channel_);
      grpc::ClientContext context;
      SetDeadline(&context);
      grpc::CompletionQueue queue;
      auto call = stub.PrepareCall(
          &context, "/tributary.ParameterServer/Exchange", &queue);
      void* tag = nullptr;
      bool ok = false;
      call->StartCall(nullptr);
      queue.Next(&tag, &ok);
      const grpc::Slice slice(garbage);
      call->Write(grpc::ByteBuffer(&slice, 1), nullptr);
      queue.Next(&tag, &ok);
      call->Finish(&status, nullptr);
      queue.Next(&tag, &ok);
    } while (status.error_code() == grpc::StatusCode::UNAVAILABLE);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT)
        << status.error_message();
  }
}

TEST_F(BadPeerTest, MessageThatIsTooLarge) {
  WorkerMessage initial;
  initial.mutable_initial()->set_payload(std::string(8 << 20, 'x'));
  const grpc::Status status = Exchange({GoodHello(), initial});
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED)
      << status.error_message();
}

TEST_F(BadPeerTest, VersionThatIsNotThere) {
  grpc::Status status;
  do {
    grpc::ClientContext context;
    SetDeadline(&context);
    ReadWeightsRequest request;
    request.set_version(77);
    auto reader = weights_->ReadWeights(&context, request);
    ServerMessage message;
    while (reader->Read(&message)) {
    }
    status = reader->Finish();
  } while (status.error_code() == grpc::StatusCode::UNAVAILABLE);
  ExpectRefusal(status, grpc::StatusCode::FAILED_PRECONDITION,
                "version 77 is not there");
}

TEST_F(BadPeerTest, WorkerOfAnotherRelease) {
  WorkerReport report;
  report.mutable_join()->set_protocol_version(kProtocolVersion + 1);
  ExpectRefusal(Membership({report}), grpc::StatusCode::FAILED_PRECONDITION,
                "use the same release everywhere");
}

TEST_F(BadPeerTest, WorkerThatDoesNotJoin) {
  WorkerReport report;
  report.mutable_heartbeat();
  ExpectRefusal(Membership({report}), grpc::StatusCode::FAILED_PRECONDITION,
                "the first report must be Join");
}

TEST_F(BadPeerTest, WorkerThatIsSyncedBeforeItBegan) {
  WorkerReport join;
  join.mutable_join()->set_protocol_version(kProtocolVersion);
  join.mutable_join()->set_rank(-1);
  WorkerReport synced;
  synced.mutable_synced();
  ExpectRefusal(Membership({join, synced}),
                grpc::StatusCode::FAILED_PRECONDITION, "Synced before Open");
}

TEST_F(BadPeerTest, WorkerWithOtherDataAndAnotherModel) {
  // The job's own workers have determined the model and the data by then.
  WorkerMessage hello;
  hello.mutable_hello()->set_signature("x");
  Exchange({hello});
  WorkerReport join;
  join.mutable_join()->set_protocol_version(kProtocolVersion);
  join.mutable_join()->set_rank(-1);
  WorkerReport ready;
  ready.mutable_ready()->mutable_table()->set_chunk_elements(1024);
  auto* parameter = ready.mutable_ready()->mutable_table()->add_parameter();
  parameter->set_name("w");
  parameter->add_shape(3);
  parameter->set_group(DECAY);
  ExpectRefusal(Membership({join, ready}), grpc::StatusCode::INVALID_ARGUMENT,
                "this worker's data (0 training samples");
}

TEST_F(BadPeerTest, ServerWithAShardThatIsTaken) {
  ServerReport report;
  report.mutable_enlist()->set_protocol_version(kProtocolVersion);
  ExpectRefusal(Enlistment({report}), grpc::StatusCode::ALREADY_EXISTS,
                "shard 0 is already served");
  report.mutable_enlist()->set_shard(5);
  ExpectRefusal(Enlistment({report}), grpc::StatusCode::INVALID_ARGUMENT,
                "shard 5 of a job with 1 server:");
}

TEST_F(BadPeerTest, ServerThatDoesNotEnlist) {
  ServerReport report;
  report.mutable_configured();
  ExpectRefusal(Enlistment({report}), grpc::StatusCode::FAILED_PRECONDITION,
                "the first report must be Enlist");
}

}  // namespace
}  // namespace tributary
