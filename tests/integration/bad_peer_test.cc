// Incorrect peers: the server refuses each with a reason, and its job continues
// and ends with the same bits.
#include <fstream>
#include <functional>
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

// A job of three workers, of which the test's client violates the protocol. Two
// of three workers join and determine the model and the data. The job waits for
// the third worker until the client is done.
class BadPeerTest : public ::testing::Test {
 protected:
  BadPeerTest()
      : cluster_(job_, /*servers=*/1, /*expected_workers=*/3,
                 Directory("disturbed")),
        channel_(CreateChannel(cluster_.coordinator())),
        weights_(ParameterServer::NewStub(channel_)),
        rendezvous_(Rendezvous::NewStub(channel_)) {
    cluster_.StartWorker();
    cluster_.StartWorker();
  }

  // Expects that the job goes on and ends with the bits of an undisturbed one.
  ~BadPeerTest() override {
    cluster_.StartWorker();
    EXPECT_EQ(cluster_.Await(), absl::OkStatus());
    LocalCluster undisturbed(job_, /*servers=*/1, /*expected_workers=*/1,
                             Directory("undisturbed"));
    undisturbed.StartWorker();
    EXPECT_TRUE(undisturbed.Await().ok());
    EXPECT_EQ(cluster_.Summary()["weights_sha256"],
              undisturbed.Summary()["weights_sha256"]);
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
        if (reply.has_welcome()) ++welcomes_;
      }
      const grpc::Status status = stream->Finish();
      if (status.error_code() != grpc::StatusCode::UNAVAILABLE) return status;
    }
  }

  // The Hello of a correct worker that is new to the server.
  WorkerMessage GoodHello() {
    ++nobody_;
    WorkerMessage hello;
    hello.mutable_hello()->set_signature(Signature());
    hello.mutable_hello()->set_attempt(Attempt());
    hello.mutable_hello()->set_incarnation(nobody_);
    hello.mutable_hello()->set_secret(secrets_.OfMember(nobody_));
    return hello;
  }

  // The first messages of a correct worker that computes all micro-batches, and
  // a contribution after `change`, which is otherwise correct.
  std::vector<WorkerMessage> Contributing(
      const std::function<void(Contribution*)>& change) {
    Deal deal;
    deal.set_generation(1);
    deal.set_leaf_end(
        static_cast<int>(ResolveJob(job_).batch().micro_batches()));
    const WorkerMessage hello = GoodHello();
    WorkerMessage all;
    all.mutable_assigned()->set_generation(1);
    all.mutable_assigned()->set_leaf_end(deal.leaf_end());
    all.mutable_assigned()->set_secret(secrets_.OfAssignment(nobody_, deal));
    WorkerMessage contribution;
    contribution.mutable_contribution()->set_node(1);
    contribution.mutable_contribution()->set_payload(std::string(4096, '\0'));
    change(contribution.mutable_contribution());
    return {hello, all, contribution};
  }

  // The output folder counts attempts, and each test adds one.
  static int64_t Attempt() {
    int64_t attempt = 0;
    std::ifstream(Directory("disturbed") + "/attempt") >> attempt;
    return attempt;
  }

  // The signature of the job's table, computed as PROTOCOL.md defines it.
  std::string Signature();

  // Sends all reports on one call. Returns the call's status.
  grpc::Status Membership(const std::vector<WorkerReport>& reports) {
    return Report<CoordinatorOrder>(&Rendezvous::Stub::Membership, reports);
  }
  grpc::Status Enlistment(const std::vector<ServerReport>& reports) {
    return Report<ServerOrder>(&Rendezvous::Stub::Enlistment, reports);
  }
  template <typename Order, typename Method, typename Message>
  grpc::Status Report(Method method, const std::vector<Message>& reports) {
    grpc::ClientContext context;
    SetDeadline(&context);
    auto stream = (rendezvous_.get()->*method)(&context);
    for (const Message& report : reports) stream->Write(report);
    Order order;
    while (stream->Read(&order)) {
    }
    return stream->Finish();
  }

  static void ExpectRefusal(const grpc::Status& status, grpc::StatusCode code,
                            const std::string& part) {
    EXPECT_EQ(status.error_code(), code) << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr(part));
  }

  const MemberSecrets secrets_{kClusterSecretKey};
  const JobSpec job_ = TinyJob("mlp", Directory("data"));
  LocalCluster cluster_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<ParameterServer::Stub> weights_;
  std::unique_ptr<Rendezvous::Stub> rendezvous_;
  int64_t nobody_ = 1000;  // No worker of the job has this incarnation.
  int welcomes_ = 0;
};

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

TEST_F(BadPeerTest, WhoBeginsAnExchangeWrong) {
  const auto exchange = [this](
                            const std::function<void(WorkerMessage*)>& change,
                            grpc::StatusCode code, const std::string& part) {
    WorkerMessage message = GoodHello();
    change(&message);
    ExpectRefusal(Exchange({message}), code, part);
  };
  exchange(
      [](auto* m) { m->mutable_hello()->set_signature("0123456789abcdef"); },
      grpc::StatusCode::FAILED_PRECONDITION, "signature is 0123456789ab");
  exchange([](auto* m) { m->mutable_hello()->set_job_id("0123456789abcdef"); },
           grpc::StatusCode::FAILED_PRECONDITION, "job (0123456789ab)");
  exchange([](auto* m) { m->mutable_hello()->set_attempt(Attempt() - 1); },
           grpc::StatusCode::ABORTED, "join again");
  exchange([](auto* m) { m->mutable_hello()->set_incarnation(1); },
           grpc::StatusCode::PERMISSION_DENIED, "incarnation 1");
  exchange(
      [](auto* m) {
        m->mutable_initial()->set_payload(std::string(4096, '\0'));
      },
      grpc::StatusCode::FAILED_PRECONDITION, "Hello");
  EXPECT_EQ(welcomes_, 0);
  ExpectRefusal(Exchange({GoodHello(), GoodHello()}),
                grpc::StatusCode::FAILED_PRECONDITION, "a second Hello");
  EXPECT_EQ(welcomes_, 1);
}

TEST_F(BadPeerTest, WrongContributions) {
  const int64_t leaves = ResolveJob(job_).batch().micro_batches();
  const int64_t samples = job_.batch().global() / leaves;
  const auto contribute =
      [this](const std::function<void(Contribution*)>& change,
             const std::string& part,
             grpc::StatusCode code = grpc::StatusCode::INVALID_ARGUMENT) {
        ExpectRefusal(Exchange(Contributing(change)), code, part);
      };
  contribute([](auto* c) { c->set_chunk(99); }, "chunk 99 ");
  contribute([](auto* c) { c->set_payload(std::string(4092, '\0')); },
             "4092 bytes, expected 4096");
  contribute([](auto* c) { c->set_encoding(BFLOAT16); }, "BFLOAT16");
  contribute([](auto* c) { c->set_node(16); }, "node 16 ");
  contribute([](auto* c) { c->set_step(-1); }, "steps count from 0");
  contribute([](auto* c) { c->set_step(1000000); }, "step 1000000 ",
             grpc::StatusCode::FAILED_PRECONDITION);
  contribute(
      [&](auto* c) {
        c->set_node(static_cast<int>(leaves));
        c->set_weight(samples - 1);
      },
      absl::StrCat("(weight) ", samples - 1, ", expected ", samples));
  std::vector<WorkerMessage> unassigned = Contributing([](auto*) {});
  unassigned.erase(unassigned.begin() + 1);
  ExpectRefusal(Exchange(unassigned), grpc::StatusCode::INVALID_ARGUMENT,
                "Assigned");
}

TEST_F(BadPeerTest, MessagesAboveTheLimits) {
  constexpr auto kExhausted = grpc::StatusCode::RESOURCE_EXHAUSTED;
  WorkerReport join;
  join.mutable_join()->set_protocol_version(kProtocolVersion);
  join.mutable_join()->set_host(std::string(5000, 'h'));
  ExpectRefusal(Membership({join}), kExhausted, "Join.host ");
  // More submessages than any model has.
  WorkerReport ready;
  WorkerMessage contributions;
  for (int i = 0; i < 200000; ++i) {
    ready.mutable_ready()->mutable_table()->add_parameter();
    contributions.mutable_in_memory()->add_contribution();
  }
  ExpectRefusal(Membership({ready}), kExhausted, "Limits.submessages");
  ExpectRefusal(Exchange({GoodHello(), contributions}), kExhausted,
                "Limits.submessages");
  WorkerMessage initial;
  initial.mutable_initial()->set_payload(std::string(8 << 20, 'x'));
  ExpectRefusal(Exchange({GoodHello(), initial}), kExhausted, "");
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

TEST_F(BadPeerTest, WrongFirstReportsOfWorkers) {
  WorkerReport join, heartbeat, synced;
  join.mutable_join()->set_protocol_version(kProtocolVersion + 1);
  ExpectRefusal(Membership({join}), grpc::StatusCode::FAILED_PRECONDITION,
                "release");
  heartbeat.mutable_heartbeat();
  ExpectRefusal(Membership({heartbeat}), grpc::StatusCode::FAILED_PRECONDITION,
                "must be Join");
  join.mutable_join()->set_protocol_version(kProtocolVersion);
  join.mutable_join()->set_rank(-1);
  synced.mutable_synced();
  ExpectRefusal(Membership({join, synced}),
                grpc::StatusCode::FAILED_PRECONDITION, "Synced before Open");
}

TEST_F(BadPeerTest, WorkerWithOtherDataAndAnotherModel) {
  // The job's own workers have determined the model and the data by then.
  WorkerMessage hello;
  hello.mutable_hello()->set_signature("x");
  Exchange({hello});
  WorkerReport join, ready;
  join.mutable_join()->set_protocol_version(kProtocolVersion);
  join.mutable_join()->set_rank(-1);
  ready.mutable_ready()->mutable_table()->set_chunk_elements(1024);
  auto* parameter = ready.mutable_ready()->mutable_table()->add_parameter();
  parameter->set_name("w");
  parameter->add_shape(3);
  parameter->set_group(DECAY);
  ExpectRefusal(Membership({join, ready}), grpc::StatusCode::INVALID_ARGUMENT,
                "data (0 training samples");
}

TEST_F(BadPeerTest, WrongReportsOfServers) {
  ServerReport report;
  report.mutable_configured();
  ExpectRefusal(Enlistment({report}), grpc::StatusCode::FAILED_PRECONDITION,
                "must be Enlist");
  report.mutable_enlist()->set_protocol_version(kProtocolVersion);
  ExpectRefusal(Enlistment({report}), grpc::StatusCode::ALREADY_EXISTS,
                "shard 0 ");
  report.mutable_enlist()->set_shard(5);
  ExpectRefusal(Enlistment({report}), grpc::StatusCode::INVALID_ARGUMENT,
                "shard 5 ");
}

}  // namespace
}  // namespace tributary
