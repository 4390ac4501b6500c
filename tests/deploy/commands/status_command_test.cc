// `tributary status`.
#include <grpcpp/grpcpp.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "common/base/json.h"
#include "deploy/commands/subcommands.h"
#include "deploy/flags/exit_code.h"
#include "deploy/tools/status/status_client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "proto/rendezvous.grpc.pb.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

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

TEST(StatusCommandTest, WritesOneLineOrJson) {
  StatusReply training = Training();
  training.set_model("external factorization");
  FakeCoordinator coordinator(training);
  const StatusCommandOutcome line = RunStatus({coordinator.address()});
  EXPECT_EQ(line.exit_code, kExitDone);
  EXPECT_THAT(line.output,
              AllOf(StartsWith("step 120/600 20%"),
                    EndsWith(" | workers 2 | servers 1 | model external "
                             "factorization\n")));
  EXPECT_EQ(line.errors, "");
  const StatusCommandOutcome json =
      RunStatus({coordinator.address(), "--json"});
  EXPECT_EQ(json.exit_code, kExitDone);
  const auto status = ParseJson(json.output);
  EXPECT_EQ(status["step"], 120);
  EXPECT_EQ(status["model"], "external factorization");
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
  EXPECT_THAT(outcome.errors,
              AllOf(StartsWith("error: "), HasSubstr(coordinator.address())));
}

TEST(CheckReadyTest, IsReadyWhileWorkersMayJoin) {
  StatusReply status;
  for (const StatusReply::Phase phase :
       {StatusReply::WAITING, StatusReply::TRAINING, StatusReply::EVALUATING}) {
    status.set_phase(phase);
    EXPECT_TRUE(CheckReady(status).ok()) << phase;
  }
  status.set_failure("worker 1: disk full");
  for (const StatusReply::Phase phase :
       {StatusReply::FINISHING, StatusReply::DONE, StatusReply::FAILED}) {
    status.set_phase(phase);
    EXPECT_THAT(CheckReady(status),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr(phase == StatusReply::FAILED ? "disk full"
                                                                : "ended")));
  }
}

TEST(StatusCommandTest, WatchesUntilTheJobHasEnded) {
  StatusReply reply;
  reply.set_phase(StatusReply::DONE);
  reply.set_step(12);
  reply.set_steps(12);
  const FakeCoordinator done(reply);
  const StatusCommandOutcome watched =
      RunStatus({done.address(), "--watch", "--interval", "0.05"});
  EXPECT_EQ(watched.exit_code, kExitDone);
  EXPECT_THAT(watched.output,
              AllOf(HasSubstr("[####"), HasSubstr("step 12/12")));

  reply.set_phase(StatusReply::FAILED);
  reply.set_failure("the disk is full");
  const FakeCoordinator failed(reply);
  const StatusCommandOutcome failure =
      RunStatus({failed.address(), "--watch", "--interval", "0.05"});
  EXPECT_EQ(failure.exit_code, kExitFailed);
  EXPECT_THAT(failure.errors, HasSubstr("the disk is full"));
}

TEST(StatusCommandTest, RefusesToWatchForScripts) {
  for (const std::string flag : {"--json", "--ready"}) {
    const StatusCommandOutcome outcome =
        RunStatus({"127.0.0.1:1", "--watch", flag});
    EXPECT_THAT(outcome.errors, HasSubstr(flag));
    EXPECT_EQ(outcome.exit_code, kExitUsage);
  }
}

// More in run_address_test.cc.
TEST(StatusCommandTest, FindsTheAddressInTheFolderOfARun) {
  const FakeCoordinator coordinator(Training());
  const std::string folder = testing::TempDir();
  const std::string path = absl::StrCat(folder, "/server.json");
  std::ofstream(path) << "{\"address\":\"" << coordinator.address() << "\"}";
  const StatusCommandOutcome outcome = RunStatus({folder});
  EXPECT_EQ(outcome.exit_code, kExitDone);
  EXPECT_THAT(outcome.output, HasSubstr("step 120/600"));
  std::remove(path.c_str());
  const StatusCommandOutcome none = RunStatus({folder});
  EXPECT_EQ(none.exit_code, kExitUsage);
  EXPECT_THAT(none.errors, HasSubstr("server.json"));
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
    EXPECT_THAT(outcome.output, StartsWith("the job is done: step 12\n"));
    EXPECT_THAT(outcome.output, HasSubstr("final loss   0.5000\n"));
  }
  const StatusCommandOutcome json = RunStatus({folder_, "--json"});
  EXPECT_EQ(json.exit_code, kExitDone);
  EXPECT_THAT(json.output, StartsWith("{\"phase\":\"DONE\","));
  EXPECT_THAT(json.output, HasSubstr("\"final_loss\":0.5"));
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
  EXPECT_THAT(watched.errors, HasSubstr("the disk"));
}

TEST_F(EndedRunTest, SaysThatTheJobWasStoppedOrInterrupted) {
  Write("metrics.jsonl", "{\"step\":7,\"loss\":0.25}\n");
  const StatusCommandOutcome interrupted = RunStatus({folder_});
  EXPECT_EQ(interrupted.exit_code, kExitFailed);
  EXPECT_THAT(interrupted.errors,
              ContainsRegex("after step 7 .*train --resume "));
  Write("summary.json", R"({"status":"stopped","steps":8})");
  const StatusCommandOutcome stopped = RunStatus({folder_});
  EXPECT_EQ(stopped.exit_code, kExitDone);
  EXPECT_THAT(
      stopped.output,
      ContainsRegex("^the job was stopped after step 8.*train --resume "));
}

}  // namespace
}  // namespace tributary
