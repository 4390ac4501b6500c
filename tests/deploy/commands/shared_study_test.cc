// Several processes of `tributary tune` that share a study.
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/json.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/deploy/commands/tune_command_fixture.h"
#include "tests/support/command_runner.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class SharedStudyTest : public TuneCommandFixture {};

// Each starts as soon as it can take over from a tuner that has died.
std::vector<std::string> SharedArguments(std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"--shared", "--lease", "2"});
  return arguments;
}

// Returns the tuners that have claimed segments of trials.
std::set<std::string> TunersOf(const std::string& journal) {
  using Json = nlohmann::ordered_json;
  std::set<std::string> tuners;
  std::vector<std::string> lines = absl::StrSplit(ReadWholeFile(journal), '\n');
  lines.pop_back();  // Empty, or not written yet.
  for (const std::string& line : lines) {
    const Json json = ParseOrderedJson(line);
    const Json attributes = json.value("system_attr", Json::object());
    if (!attributes.contains("tributary:claim")) continue;
    tuners.insert(attributes["tributary:claim"]["tuner"].get<std::string>());
  }
  return tuners;
}

TEST_F(SharedStudyTest, TunersShareAStudyAndTakeOverFromOneThatWasKilled) {
  WriteWholeFile(search_,
                 absl::StrCat(kTuneSearch, "final { best: 1 seeds: 3 }"));
  RunExpecting(0, TuneArguments("one", {}));
  const Json want = StatusOfStudy("one");
  const std::string journal = Folder("shared") + "/study.journal";
  WorkerGate gate(Folder("gate"));
  const std::vector<std::string> arguments =
      SharedArguments(TuneArguments("shared", gate.Arguments()));
  // The study, a trial and its claim. The trial has not ended yet.
  KillAfter(3, "shared", arguments);
  EXPECT_THAT(ReadWholeFile(journal), HasSubstr("tributary:claim"));
  EXPECT_TRUE(StatusOfStudy("shared")["trials"][0]["rungs"].empty());
  {
    BackgroundCommand first(arguments);
    BackgroundCommand second(arguments);
    BackgroundCommand third(arguments);
    // Some trials end, and enough are left for each tuner to claim one.
    gate.Admit(4);
    for (int i = 0; i < 12000 && TunersOf(journal).size() < 4; ++i) {
      usleep(5000);
    }
    ASSERT_EQ(TunersOf(journal).size(), 4u);
    // The others would wait for half a minute for a lock that it holds.
    while (std::filesystem::is_symlink(journal + ".lock")) usleep(1000);
    second.Signal(SIGKILL);
    second.Wait();
    gate.AdmitAll();
    EXPECT_EQ(first.Wait().exit_code, 0);
    EXPECT_EQ(third.Wait().exit_code, 0);
  }
  EXPECT_EQ(StatusOfStudy("shared"), want);
}

// tests/slurm tests the same with a real Slurm.
TEST_F(SharedStudyTest, APreemptedTaskOfSlurmIsRequeued) {
  const std::string scontrol = Folder("scontrol");
  WriteWholeFile(
      scontrol,
      absl::StrCat("#!/bin/sh\n", "echo \"$@\" >>", Folder("calls"), "\n",
                   "echo JobState=RUNNING PreemptTime=None Partition=low\n"));
  std::filesystem::permissions(scontrol, std::filesystem::perms::owner_all);
  WorkerGate gate(Folder("gate"));
  std::vector<std::string> arguments = {
      "/usr/bin/env", absl::StrCat("PATH=", folder_, ":/usr/bin:/bin"),
      "ENVIRONMENT=BATCH", "SLURM_JOB_ID=4711", "SLURM_JOB_NODELIST=n1"};
  for (const std::string& argument :
       SharedArguments(TuneArguments("array", gate.Arguments()))) {
    arguments.push_back(argument);
  }
  for (const int signal : {SIGTERM, SIGUSR1}) {
    gate.Admit(2);  // The search needs more.
    BackgroundCommand task(arguments);
    ASSERT_TRUE(AwaitLines(Folder("array") + "/study.journal",
                           signal == SIGTERM ? 4 : 12));
    task.Signal(signal);
    const CommandResult stopped = task.Wait();
    EXPECT_EQ(stopped.exit_code, 75);
    // SIGTERM without a preemption is scancel.
    const auto requeued = HasSubstr("requeued the job");
    if (signal == SIGTERM) {
      EXPECT_THAT(stopped.standard_error, Not(requeued));
    } else {
      EXPECT_THAT(stopped.standard_error, requeued);
    }
  }
  EXPECT_EQ(ReadWholeFile(Folder("calls")),
            "--oneliner show job 4711\n--oneliner show job 4711\n"
            "requeue 4711\n");
}

TEST_F(SharedStudyTest, ATunerThatWasSuspendedLetsGoOfWhatItHasLost) {
  RunExpecting(0, TuneArguments("one", {}));
  WorkerGate gate(Folder("gate"));
  const std::vector<std::string> arguments =
      SharedArguments(TuneArguments("shared", gate.Arguments()));
  BackgroundCommand suspended(arguments);
  ASSERT_TRUE(
      AwaitLines(Folder("shared") + "/trials/00000/logs/worker-0.log", 1));
  suspended.Signal(SIGSTOP);
  gate.AdmitAll();
  BackgroundCommand other(arguments);
  // Nothing is promoted before the result of trial 0 is known, which the other
  // tuner cannot train before the suspended one has let go of the folder.
  ASSERT_NE(other.AwaitStandardError("trial 8: step 3"), "");
  EXPECT_TRUE(StatusOfStudy("shared")["trials"][0]["rungs"].empty());
  suspended.Signal(SIGCONT);
  EXPECT_EQ(suspended.Wait().exit_code, 0);
  EXPECT_EQ(other.Wait().exit_code, 0);
  EXPECT_EQ(StatusOfStudy("shared"), StatusOfStudy("one"));
}

TEST_F(SharedStudyTest, ATunerDoesNotReportAFinalRunThatItHasLost) {
  WriteWholeFile(search_, R"(
    job: "job.textproto"
    parameter { path: "model.mlp.hidden" choice { value: "8" value: "16" } }
    objective { metric: "final_loss" goal: MINIMIZE }
    budget { trials: 1 }
    final { best: 1 seeds: 2 })");
  const std::string journal = Folder("shared") + "/study.journal";
  const std::string run = Folder("shared") + "/final-runs/00000-seed-1";
  WorkerGate gate(Folder("gate"));
  gate.Admit(1);  // The trial.
  BackgroundCommand tuner(
      SharedArguments(TuneArguments("shared", gate.Arguments())));
  ASSERT_TRUE(AwaitLines(run + "/logs/worker-0.log", 1));
  tuner.Signal(SIGSTOP);
  gate.AdmitAll();
  // The job needs its tuner no more.
  ASSERT_TRUE(AwaitLines(run + "/summary.json", 1));
  for (const pid_t process : ChildrenOf(tuner.pid())) {
    for (int i = 0; i < 4000 && IsAlive(process); ++i) usleep(5000);
    EXPECT_FALSE(IsAlive(process)) << CommandLineOf(process);
  }
  // What another tuner does when the lease has ended.
  WriteWholeFile(
      journal,
      absl::StrCat(ReadWholeFile(journal),
                   R"({"op_code":2,"worker_id":"other","study_id":0,)"
                   R"("user_attr":{"tributary:final:0:1":{"tuner":"other"}}})"
                   "\n"));
  tuner.Signal(SIGCONT);
  // It takes the run back, because the other one shows no sign of life.
  const CommandResult result = tuner.Wait();
  EXPECT_EQ(result.exit_code, 0);
  const std::vector<std::string> reports =
      absl::StrSplit(result.standard_error, "seed + 1: step");
  EXPECT_EQ(reports.size(), 2u) << result.standard_error;
  // Its claim, the other one's, its claim again, and the result.
  const std::vector<std::string> records =
      absl::StrSplit(ReadWholeFile(journal), "tributary:final:0:1");
  EXPECT_EQ(records.size(), 5u);
}

TEST_F(SharedStudyTest, AStudyIsEitherSharedOrNot) {
  WorkerGate gate(Folder("gate"));
  {
    BackgroundCommand alone(TuneArguments("alone", gate.Arguments()));
    ASSERT_TRUE(AwaitLines(Folder("alone") + "/study.journal", 2));
    RunExpecting(1, SharedArguments(TuneArguments("alone", {})));
    alone.Signal(SIGTERM);
    EXPECT_EQ(alone.Wait().exit_code, 75);
  }
  gate.AdmitAll();
  // It can be continued by several tuners, and then only by such.
  RunExpecting(
      0, SharedArguments({kTributary, "tune", "--resume", Folder("alone")}));
  EXPECT_THAT(RunExpecting(1, {kTributary, "tune", "--resume", Folder("alone")})
                  .standard_error,
              HasSubstr("--shared"));
  EXPECT_THAT(
      RunExpecting(2, {kTributary, "tune", search_, "--shared"}).standard_error,
      HasSubstr("--output"));
  RunExpecting(2, {kTributary, "tune", "--resume", Folder("no"), "--shared"});
}

// What happens between the steps with which a process enters a study.
TEST_F(SharedStudyTest, NoProcessEntersAloneWhileOthersJoin) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer's library must be the first that is loaded";
#endif
  WriteWholeFile(search_, kTuneTwoTrials);
  const std::string preload =
      "LD_PRELOAD=tests/deploy/commands/libjoin_witness.so";
  EXPECT_THAT(RunExpecting(1, TuneArguments("alone", {}),
                           {preload, "JOINED=" + Folder("alone/tuners")})
                  .standard_error,
              HasSubstr("--shared"));
  EXPECT_FALSE(std::filesystem::exists(Folder("alone") + "/study.journal"));
  // The witness sees a folder that is not claimed.
  constexpr char kFree[] = "not claimed";
  RunExpecting(0, {"/bin/mkdir", Folder("free")});
  EXPECT_THAT(RunExpecting(0, {"/bin/mkdir", Folder("free/tuners")}, {preload})
                  .standard_error,
              HasSubstr(kFree));
  const CommandResult shared =
      RunExpecting(0, SharedArguments(TuneArguments("shared", {})), {preload});
  EXPECT_THAT(shared.standard_error, Not(HasSubstr(kFree)));
}

}  // namespace
}  // namespace tributary
