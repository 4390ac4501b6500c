// `tributary status`.
#include <grpcpp/grpcpp.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "deploy/commands/subcommands.h"
#include "deploy/flags/exit_code.h"
#include "deploy/tools/status/status_client.h"
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

struct StatusCommandOutcome {
  int exit_code = 0;
  std::string output;
  std::string errors;
};

StatusCommandOutcome RunStatus(const std::vector<std::string>& arguments,
                               const Environment& environment = NoEnvironment) {
  StatusCommandOutcome outcome;
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  outcome.exit_code = RunStatusCommand(arguments, environment);
  outcome.output = testing::internal::GetCapturedStdout();
  outcome.errors = testing::internal::GetCapturedStderr();
  return outcome;
}

TEST(StatusCommandTest, WritesOneLine) {
  FakeCoordinator coordinator(Training());
  const StatusCommandOutcome outcome = RunStatus({coordinator.address()});
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
  const StatusCommandOutcome line = RunStatus({coordinator.address()});
  EXPECT_TRUE(absl::EndsWith(line.output,
                             " | servers 1 | model external factorization\n"))
      << line.output;
  const StatusCommandOutcome json =
      RunStatus({coordinator.address(), "--json"});
  EXPECT_TRUE(
      absl::StrContains(json.output, "\"model\":\"external factorization\""))
      << json.output;
}

TEST(StatusCommandTest, WritesJson) {
  FakeCoordinator coordinator(Training());
  const StatusCommandOutcome outcome =
      RunStatus({coordinator.address(), "--json"});
  EXPECT_EQ(outcome.exit_code, kExitDone);
  EXPECT_EQ(outcome.output.front(), '{');
  EXPECT_TRUE(absl::EndsWith(outcome.output, "}\n")) << outcome.output;
  EXPECT_TRUE(absl::StrContains(outcome.output, "\"step\":120"))
      << outcome.output;
}

TEST(StatusCommandTest, AsksTheServerOfTheEnvironment) {
  FakeCoordinator coordinator(Training());
  const StatusCommandOutcome outcome =
      RunStatus({"--ready"}, [&](const std::string& name) {
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
  const StatusCommandOutcome outcome =
      RunStatus({coordinator.address(), "--ready", "--timeout", "10"});
  EXPECT_EQ(outcome.exit_code, kExitFailed);
  EXPECT_TRUE(absl::StartsWith(
      outcome.errors, absl::StrCat("error: no response from a server at ",
                                   coordinator.address(), " (")))
      << outcome.errors;
}

TEST(StatusCommandTest, RefusesWhatIsNoAddress) {
  const StatusCommandOutcome outcome = RunStatus({"node1:x"});
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

TEST(StatusCommandTest, WatchesUntilTheJobHasEnded) {
  StatusReply reply;
  reply.set_phase(StatusReply::DONE);
  reply.set_step(12);
  reply.set_steps(12);
  const FakeCoordinator done(reply);
  int code = -1;
  testing::internal::CaptureStdout();
  code = RunStatusCommand({done.address(), "--watch", "--interval", "0.05"},
                          [](const std::string&) { return absl::nullopt; });
  const std::string text = testing::internal::GetCapturedStdout();
  EXPECT_EQ(code, kExitDone);
  EXPECT_TRUE(absl::StrContains(text, "[####")) << text;
  EXPECT_TRUE(absl::StrContains(text, "step 12/12")) << text;

  reply.set_phase(StatusReply::FAILED);
  reply.set_failure("the disk is full");
  const FakeCoordinator failed(reply);
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  code = RunStatusCommand({failed.address(), "--watch", "--interval", "0.05"},
                          [](const std::string&) { return absl::nullopt; });
  testing::internal::GetCapturedStdout();
  EXPECT_EQ(code, kExitFailed);
  EXPECT_TRUE(absl::StrContains(testing::internal::GetCapturedStderr(),
                                "the job has failed: the disk is full"));
}

TEST(StatusCommandTest, RefusesToWatchForScripts) {
  for (const std::string flag : {"--json", "--ready"}) {
    testing::internal::CaptureStderr();
    const int code =
        RunStatusCommand({"127.0.0.1:1", "--watch", flag},
                         [](const std::string&) { return absl::nullopt; });
    EXPECT_TRUE(absl::StrContains(
        testing::internal::GetCapturedStderr(),
        absl::StrCat("cannot be used with ", flag, ": leave one of them out")));
    EXPECT_EQ(code, kExitUsage);
  }
}

TEST(StatusCommandTest, FindsTheAddressInTheFolderOfARun) {
  StatusReply reply;
  reply.set_phase(StatusReply::TRAINING);
  reply.set_step(5);
  reply.set_steps(12);
  const FakeCoordinator coordinator(reply);
  const std::string folder = testing::TempDir();
  const std::string path = absl::StrCat(folder, "/server.json");
  std::ofstream(path) << "{\"address\":\"" << coordinator.address() << "\"}";
  const StatusCommandOutcome outcome = RunStatus({folder});
  EXPECT_EQ(outcome.exit_code, kExitDone);
  EXPECT_TRUE(absl::StrContains(outcome.output, "step 5/12"));
  std::remove(path.c_str());
  const StatusCommandOutcome none = RunStatus({folder});
  EXPECT_EQ(none.exit_code, kExitUsage);
  EXPECT_TRUE(absl::StrContains(none.errors,
                                "has no server.json: its job does not run"));
}

// The folder of a run that has ended.
class EndedRunTest : public ::testing::Test {
 protected:
  EndedRunTest()
      : folder_(absl::StrCat(
            testing::TempDir(), "/",
            testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::create_directories(folder_);
  }

  void Write(const std::string& name, const std::string& text) {
    std::ofstream(absl::StrCat(folder_, "/", name)) << text;
  }

  const std::string folder_;
};

TEST_F(EndedRunTest, SaysThatTheJobIsDone) {
  Write("summary.json",
        R"({"status":"done","steps":12,"final_loss":0.5,"seconds":61})");
  // A server that was killed when it had written the summary.
  Write("server.json", "{\"address\":\"127.0.0.1:1\"}");
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{folder_}, {folder_, "--watch"}}) {
    const StatusCommandOutcome outcome = RunStatus(arguments);
    EXPECT_EQ(outcome.exit_code, kExitDone) << outcome.errors;
    EXPECT_TRUE(absl::StartsWith(outcome.output, "the job is done: step 12\n"))
        << outcome.output;
    EXPECT_TRUE(absl::StrContains(outcome.output, "final loss   0.5000\n"))
        << outcome.output;
  }
  const StatusCommandOutcome json = RunStatus({folder_, "--json"});
  EXPECT_EQ(json.exit_code, kExitDone);
  EXPECT_TRUE(absl::StartsWith(json.output, "{\"phase\":\"DONE\","))
      << json.output;
  EXPECT_TRUE(absl::StrContains(json.output, "\"final_loss\":0.5"))
      << json.output;
  const StatusCommandOutcome ready = RunStatus({folder_, "--ready"});
  EXPECT_EQ(ready.exit_code, kExitFailed);
  EXPECT_EQ(ready.errors, "error: the job has ended\n");
}

TEST_F(EndedRunTest, SaysWhyTheJobHasFailed) {
  Write("summary.json",
        R"({"status":"failed","steps":3,"failure":"the disk\u001b is full"})");
  const StatusCommandOutcome outcome = RunStatus({folder_});
  EXPECT_EQ(outcome.exit_code, kExitDone);
  EXPECT_EQ(outcome.output,
            "the job has failed after step 3: the disk\\x1b is full\n");
  const StatusCommandOutcome watched = RunStatus({folder_, "--watch"});
  EXPECT_EQ(watched.exit_code, kExitFailed);
  EXPECT_TRUE(absl::StrContains(watched.errors, "the job has failed: the disk"))
      << watched.errors;
}

TEST_F(EndedRunTest, SaysThatTheJobWasStoppedOrInterrupted) {
  Write("metrics.jsonl", "{\"step\":7,\"loss\":0.25}\n");
  const StatusCommandOutcome interrupted = RunStatus({folder_});
  EXPECT_EQ(interrupted.exit_code, kExitFailed);
  EXPECT_TRUE(absl::StrContains(interrupted.errors,
                                "was interrupted after step 7 (`tributary "
                                "train --resume "))
      << interrupted.errors;
  Write("summary.json", R"({"status":"stopped","steps":8})");
  const StatusCommandOutcome stopped = RunStatus({folder_});
  EXPECT_EQ(stopped.exit_code, kExitDone);
  EXPECT_TRUE(absl::StartsWith(stopped.output,
                               "the job was stopped after step 8; `tributary "
                               "train --resume "))
      << stopped.output;
}

}  // namespace
}  // namespace tributary
