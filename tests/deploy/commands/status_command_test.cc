#include "deploy/commands/status_command.h"

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "deploy/flags/exit_code.h"
#include "gtest/gtest.h"
#include "proto/rendezvous.grpc.pb.h"

namespace tributary {
namespace {

class FakeCoordinator final : public Rendezvous::Service {
 public:
  explicit FakeCoordinator(const StatusReply& reply) : reply_(reply) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }

  std::string port() const { return absl::StrCat(port_); }
  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }
  void Stop() { server_.reset(); }

  grpc::Status GetStatus(grpc::ServerContext*, const StatusRequest*,
                         StatusReply* reply) override {
    *reply = reply_;
    return grpc::Status::OK;
  }

 private:
  const StatusReply reply_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

StatusReply Training() {
  StatusReply reply;
  reply.set_phase(StatusReply::TRAINING);
  reply.set_step(120);
  reply.set_steps(600);
  reply.set_loss(1.25);
  reply.set_workers(2);
  reply.set_servers(1);
  return reply;
}

absl::optional<std::string> NoEnvironment(const std::string&) {
  return absl::nullopt;
}

struct Outcome {
  int exit_code = 0;
  std::string output;
  std::string errors;
};

Outcome RunStatus(const std::vector<std::string>& arguments,
                  const Environment& environment = NoEnvironment) {
  Outcome outcome;
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  outcome.exit_code = RunStatusCommand(arguments, environment);
  outcome.output = testing::internal::GetCapturedStdout();
  outcome.errors = testing::internal::GetCapturedStderr();
  return outcome;
}

TEST(StatusCommandTest, WritesOneLine) {
  FakeCoordinator coordinator(Training());
  const Outcome outcome = RunStatus({coordinator.address()});
  EXPECT_EQ(outcome.exit_code, kExitDone);
  EXPECT_TRUE(absl::StartsWith(outcome.output, "step 120/600 20%"))
      << outcome.output;
  EXPECT_TRUE(absl::EndsWith(outcome.output, " | workers 2 | servers 1\n"))
      << outcome.output;
  EXPECT_EQ(outcome.errors, "");
}

TEST(StatusCommandTest, NamesTheModel) {
  StatusReply training = Training();
  training.set_model("external factorization");
  FakeCoordinator coordinator(training);
  const Outcome line = RunStatus({coordinator.address()});
  EXPECT_TRUE(absl::EndsWith(line.output,
                             " | servers 1 | model external factorization\n"))
      << line.output;
  const Outcome json = RunStatus({coordinator.address(), "--json"});
  EXPECT_TRUE(
      absl::StrContains(json.output, "\"model\":\"external factorization\""))
      << json.output;
}

TEST(StatusCommandTest, WritesJson) {
  FakeCoordinator coordinator(Training());
  const Outcome outcome = RunStatus({coordinator.address(), "--json"});
  EXPECT_EQ(outcome.exit_code, kExitDone);
  EXPECT_EQ(outcome.output.front(), '{');
  EXPECT_TRUE(absl::EndsWith(outcome.output, "}\n")) << outcome.output;
  EXPECT_TRUE(absl::StrContains(outcome.output, "\"step\":120"))
      << outcome.output;
}

TEST(StatusCommandTest, AsksTheServerOfTheEnvironment) {
  FakeCoordinator coordinator(Training());
  const Outcome outcome = RunStatus({"--ready"}, [&](const std::string& name) {
    return name == "MASTER_PORT"
               ? absl::optional<std::string>(coordinator.port())
               : absl::nullopt;
  });
  EXPECT_EQ(outcome.exit_code, kExitDone) << outcome.errors;
  EXPECT_EQ(outcome.output, "");
}

TEST(StatusCommandTest, FailsWhenNobodyAnswers) {
  FakeCoordinator coordinator(Training());
  coordinator.Stop();
  const Outcome outcome =
      RunStatus({coordinator.address(), "--ready", "--timeout", "10"});
  EXPECT_EQ(outcome.exit_code, kExitFailed);
  EXPECT_TRUE(absl::StartsWith(
      outcome.errors, absl::StrCat("error: no response from a server at ",
                                   coordinator.address(), " (")))
      << outcome.errors;
}

TEST(StatusCommandTest, RefusesWhatIsNoAddress) {
  const Outcome outcome = RunStatus({"node1:x"});
  EXPECT_EQ(outcome.exit_code, kExitUsage);
  EXPECT_TRUE(
      absl::StartsWith(outcome.errors, "error: 'node1:x' is not an address"))
      << outcome.errors;
}

TEST(CheckReadyTest, IsReadyWhileWorkersMayJoin) {
  StatusReply status;
  for (const StatusReply::Phase phase :
       {StatusReply::WAITING, StatusReply::TRAINING, StatusReply::EVALUATING}) {
    status.set_phase(phase);
    EXPECT_TRUE(CheckReady(status).ok()) << phase;
  }
}

TEST(CheckReadyTest, IsNotReadyWhenTheJobIsOver) {
  StatusReply status;
  for (const StatusReply::Phase phase :
       {StatusReply::FINISHING, StatusReply::DONE}) {
    status.set_phase(phase);
    EXPECT_EQ(CheckReady(status),
              absl::FailedPreconditionError("the job has ended"));
  }
  status.set_phase(StatusReply::FAILED);
  status.set_failure("worker 1: disk full");
  EXPECT_EQ(CheckReady(status), absl::FailedPreconditionError(
                                    "the job has failed: worker 1: disk full"));
}

TEST(FormatProcessesTest, SaysWhoHangsAndWhy) {
  StatusReply status;
  EXPECT_EQ(FormatProcesses(status), "");
  ProcessStatus* process = status.add_process();
  process->set_role("server");
  process->set_step(12);
  process->set_phase("ready");
  process->set_silent_ms(-1);
  process->set_waits_for("worker 1: backward");
  process = status.add_process();
  process->set_role("worker");
  process->set_number(1);
  process->set_place("alpha, process 4711");
  process->set_step(-1);
  process->set_silent_ms(4060);
  EXPECT_EQ(
      FormatProcesses(status),
      "\nprocess            step  phase       silent  waits for           "
      "         at"
      "\nserver 0             12  ready            -  worker 1: backward  "
      "         "
      "\nworker 1              -  starting     4.1 s  -                   "
      "         alpha, process 4711");
}

}  // namespace
}  // namespace tributary
