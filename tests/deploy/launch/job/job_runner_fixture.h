// A JobRunner whose processes are shell scripts, for its tests.
#ifndef TRIBUTARY_TESTS_DEPLOY_LAUNCH_JOB_JOB_RUNNER_FIXTURE_H_
#define TRIBUTARY_TESTS_DEPLOY_LAUNCH_JOB_JOB_RUNNER_FIXTURE_H_

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "deploy/launch/job/coordinator_client.h"
#include "deploy/launch/job/job_runner.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tributary {

// Shell scripts play servers and workers. A server that is to end waits until
// the file `done` of the test's folder is there.
class JobRunnerTest : public testing::Test {
 protected:
  JobRunnerTest() : folder_(absl::StrCat(testing::TempDir(), "/job-XXXXXX")) {
    EXPECT_NE(mkdtemp(&folder_[0]), nullptr);
    options_.servers = 1;
    options_.workers = 2;
    options_.tick = absl::Milliseconds(10);
    options_.stop_timeout = absl::Seconds(20);
    options_.silence_timeout = absl::Minutes(1);
    options_.settle_timeout = options_.failure_timeout =
        absl::Milliseconds(200);
    options_.server = [this](int shard, const std::string& coordinator) {
      coordinators_.push_back(coordinator);
      return Shell(
          absl::StrCat("server-", shard),
          absl::StrCat("echo here:", shard, " >&3; ", servers_[shard]));
    };
    options_.worker = [this](int rank, const std::string& coordinator) {
      coordinators_.push_back(coordinator);
      return Shell(absl::StrCat("worker-", rank), workers_[rank]);
    };
    options_.on_message = [this](const std::string& text) {
      messages_.push_back(text);
    };
    options_.connect = [this](const std::string&) {
      return std::make_unique<FakeCoordinator>(this);
    };
  }

  // Says that it is in the phase `phase_`, and why the job fails.
  class FakeCoordinator final : public CoordinatorClient {
   public:
    explicit FakeCoordinator(JobRunnerTest* test) : test_(*test) {}
    void Poll() override {}
    StatusReply latest() const override {
      StatusReply reply;
      reply.set_phase(test_.phase_);
      reply.set_failure(test_.failure_);
      return reply;
    }
    absl::Time latest_asked() const override { return test_.asked_; }
    void Report(JobEvent event) override {
      test_.events_.push_back(absl::StrCat(event.kind(), " ", event.role(), " ",
                                           event.number(), ": ",
                                           event.message()));
    }

   private:
    JobRunnerTest& test_;
  };

  ProcessSpec Shell(const std::string& name, const std::string& script) {
    ProcessSpec spec;
    spec.name = name;
    spec.arguments = {"/bin/sh", "-c", script};
    spec.environment = {"PATH=/usr/bin:/bin", "DIR=" + folder_};
    spec.log_path = absl::StrCat(folder_, "/", name, ".log");
    return spec;
  }

  // A script that waits until another process has ended and its end is known:
  // until then, it exists. The script of the other one begins with WritePid.
  static std::string UntilEnded(const std::string& name) {
    const std::string pid = "$DIR/pid-" + name;
    return "while [ ! -e " + pid + " ] || kill -0 $(cat " + pid +
           "); do sleep 0.01; done; ";
  }
  static std::string WritePid(const std::string& name) {
    return "echo $$ > $DIR/new-" + name + "; mv $DIR/new-" + name +
           " $DIR/pid-" + name + "; ";
  }

  // Sends SIGINT to this process once the file `trapped` is there.
  void InterruptWhenTrapped() {
    options_.on_tick = [this, sent = false](const StatusReply&) mutable {
      if (sent || !Exists("trapped")) return;
      sent = true;
      kill(getpid(), SIGINT);
    };
  }

  // Returns once all processes have started and the file `trapped` is there.
  void RunUntilTrapped(JobRunner* job) {
    job->Start();
    const size_t all = options_.servers + options_.workers;
    while ((job->pids().size() < all || !Exists("trapped")) && job->Advance()) {
      signals_.Wait(job->Patience());
    }
  }

  bool Exists(const std::string& name) const {
    return access(absl::StrCat(folder_, "/", name).c_str(), F_OK) == 0;
  }
  // Returns whether a script writes the file within a minute.
  bool Await(const std::string& name) const {
    const absl::Time deadline = absl::Now() + absl::Minutes(1);
    while (!Exists(name) && absl::Now() < deadline) {
      absl::SleepFor(absl::Milliseconds(1));
    }
    return Exists(name);
  }
  void WriteFile(const std::string& name) const {
    EXPECT_EQ(system(absl::StrCat("touch ", folder_, "/", name).c_str()), 0);
  }

  JobEnd Run() { return JobRunner(options_).Wait(&signals_); }

  // Expects that the job fails with a message that contains `words`.
  void ExpectFailure(const std::string& words, int exit_code = 1) {
    const JobEnd end = Run();
    EXPECT_FALSE(end.status.ok());
    EXPECT_THAT(std::string(end.status.message()), testing::HasSubstr(words));
    EXPECT_EQ(end.exit_code, exit_code);
  }
  void ExpectSuccess() {
    const JobEnd end = Run();
    EXPECT_EQ(end.status, absl::OkStatus());
    EXPECT_EQ(end.exit_code, 0);
  }

  SignalQueue signals_{/*with_children=*/true};
  std::string folder_;
  JobRunnerOptions options_;
  std::vector<std::string> servers_ = std::vector<std::string>(2, kUntilDone);
  std::vector<std::string> workers_ = std::vector<std::string>(2, kUntilDone);
  std::vector<std::string> coordinators_;
  std::vector<std::string> messages_;
  std::vector<std::string> events_;
  StatusReply::Phase phase_ = StatusReply::TRAINING;
  std::string failure_;
  absl::Time asked_ = absl::InfinitePast();
  static constexpr const char* kUntilDone =
      "while [ ! -e $DIR/done ]; do sleep 0.01; done";
  static constexpr const char* kForever = "exec sleep 100";
};

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_DEPLOY_LAUNCH_JOB_JOB_RUNNER_FIXTURE_H_
