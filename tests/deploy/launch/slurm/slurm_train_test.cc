// `tributary train` in a Slurm allocation. fake_srun.sh stands in for srun, so
// that all nodes are this machine; tests/slurm tests the same with a real
// Slurm.
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/json.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/command_runner.h"
#include "tests/support/run_until_it_hits.h"

namespace tributary {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kJob[] = R"(
name: "tiny"
model { gpt { layers: 1 heads: 2 width: 16 context: 16 } }
data { text { path: "examples/licenses.textproto" } }
batch { global: 8 micro_batches: 4 }
optimizer { adamw { learning_rate: 0.01 } }
exchange { parameter_server { chunk_bytes: 4096 } }
checkpoint { every_steps: 10 }
output { log_every_steps: 1 sample_bytes: 0 }
)";

constexpr int kSteps = 1000;
// So many that the job still runs when the test acts.
constexpr int kSlurmManySteps = 1000000;

class SlurmTrainTest : public testing::Test {
 protected:
  SlurmTrainTest() : folder_(MakeTestFolder()) {
    WriteWholeFile(Path("job.textproto"), kJob);
    std::filesystem::create_directory(Path("bin"));
    std::filesystem::copy_file("tests/deploy/launch/slurm/fake_srun.sh",
                               Path("bin/srun"));
  }

  std::string Path(const std::string& name) const {
    return absl::StrCat(folder_, "/", name);
  }

  // Returns the command `arguments` with the variables, which may replace PATH.
  static std::vector<std::string> In(
      const std::vector<std::string>& variables,
      const std::vector<std::string>& arguments) {
    std::vector<std::string> all = {"/usr/bin/env"};
    all.insert(all.end(), variables.begin(), variables.end());
    all.insert(all.end(), arguments.begin(), arguments.end());
    return all;
  }

  // The environment of a batch script on `nodes`, with one task on each.
  std::vector<std::string> Batch(const std::string& nodes, int count,
                                 std::vector<std::string> more = {}) const {
    std::vector<std::string> variables = {
        absl::StrCat("PATH=", Path("bin"), ":/usr/bin:/bin"),
        "SLURM_JOB_ID=4711", absl::StrCat("SLURM_JOB_NODELIST=", nodes),
        absl::StrCat("SLURM_TASKS_PER_NODE=1(x", count, ")"),
        absl::StrCat("FAKE_SRUN_PIDS=", Path("pids"))};
    variables.insert(variables.end(), more.begin(), more.end());
    return variables;
  }

  std::vector<std::string> Train(int steps,
                                 std::vector<std::string> more = {}) const {
    std::vector<std::string> arguments = {kTributary,
                                          "train",
                                          Path("job.textproto"),
                                          "--steps",
                                          absl::StrCat(steps),
                                          "--output",
                                          Path("out"),
                                          "--port",
                                          "0"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  nlohmann::json SummaryOf(const std::string& output) const {
    return ParseJson(ReadWholeFile(Path(output) + "/summary.json"));
  }

  std::string DigestOf(const std::string& output) const {
    return SummaryOf(output)["weights_sha256"].get<std::string>();
  }

  // The weights after `steps` steps of a run that is not disturbed.
  std::string ExpectedDigest(int steps) const {
    RunExpecting(0, {kTributary, "train", Path("job.textproto"), "--steps",
                     absl::StrCat(steps), "--output", Path("expected"),
                     "--workers", "1"});
    return DigestOf("expected");
  }

  // The processes of the agents, in the order of their start.
  std::vector<pid_t> Agents() const {
    std::vector<pid_t> agents;
    std::ifstream file(Path("pids"));
    std::string node;
    pid_t pid = 0;
    while (file >> node >> pid) agents.push_back(pid);
    return agents;
  }

  // The launcher, the agents, and the servers and workers of the agents.
  std::vector<pid_t> AllProcesses(pid_t launcher) const {
    std::vector<pid_t> all = {launcher};
    for (const pid_t agent : Agents()) {
      all.push_back(agent);
      for (const pid_t child : ChildrenOf(agent)) all.push_back(child);
    }
    return all;
  }

  static void ExpectAllEnd(const std::vector<pid_t>& processes) {
    for (const pid_t process : processes) {
      for (int i = 0; i < 4000 && IsAlive(process); ++i) usleep(5000);
      EXPECT_FALSE(IsAlive(process)) << CommandLineOf(process);
    }
  }

  const std::string folder_;
};

TEST_F(SlurmTrainTest, UsesAllNodesAndTrainsToTheSameBits) {
  const CommandResult result = RunCommand(In(Batch("n[0-2]", 3), Train(20)));
  ASSERT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_THAT(result.standard_error,
              HasSubstr("3 servers, 3 workers, 1 thread each; 3 nodes of Slurm "
                        "job 4711; "));
  EXPECT_EQ(DigestOf("out"), ExpectedDigest(20));
  for (const char* name : {"server-2", "worker-2", "node-n0", "node-n2"}) {
    EXPECT_TRUE(std::filesystem::exists(
        absl::StrCat(Path("out"), "/logs/", name, ".log")))
        << name;
  }
  EXPECT_EQ(Agents().size(), 3);
  ExpectAllEnd(Agents());
}

TEST_F(SlurmTrainTest, CreatesCredentialsThatAreInNoFileOrCommandLine) {
  BackgroundCommand launcher(In(Batch("n[0-1]", 2), Train(kSlurmManySteps)));
  ASSERT_TRUE(AwaitLines(Path("out/metrics.jsonl"), 1));
  const std::string server = ReadWholeFile(Path("out/logs/server-0.log"));
  EXPECT_THAT(server, Not(HasSubstr("not encrypted")));
  for (const pid_t process : AllProcesses(launcher.pid())) {
    EXPECT_THAT(CommandLineOf(process), Not(HasSubstr("BEGIN")));
    const std::string environment =
        ReadWholeFile(absl::StrCat("/proc/", process, "/environ"));
    EXPECT_THAT(environment, Not(HasSubstr("BEGIN")));
  }
  using Files = std::filesystem::recursive_directory_iterator;
  for (Files file(folder_); file != Files(); ++file) {
    const auto& entry = *file;
    // The job removes folders of old checkpoints.
    if (entry.path().filename() == "checkpoints") {
      file.disable_recursion_pending();
    }
    if (!entry.is_regular_file()) continue;
    std::error_code gone;  // A temporary file.
    if (!std::filesystem::exists(entry.path(), gone)) continue;
    EXPECT_NE(entry.path().extension(), ".pem");
    if (entry.path().extension() == ".log") {
      EXPECT_THAT(ReadWholeFile(entry.path()), Not(HasSubstr("PRIVATE KEY")));
    }
  }
  const std::vector<pid_t> all = AllProcesses(launcher.pid());
  EXPECT_EQ(all.size(), 1 + 2 + 4);
  // A peer without credentials is refused.
  std::string address;
  for (const absl::string_view line : absl::StrSplit(server, '\n')) {
    const size_t at = line.find("127.0.0.1:");
    if (at != absl::string_view::npos) {
      address =
          std::string(line.substr(at, line.find_first_of(", ;)", at) - at));
      break;
    }
  }
  ASSERT_NE(address, "") << server;
  const CommandResult stranger =
      RunExpecting(1, {kTributary, "status", address});
  EXPECT_THAT(stranger.standard_error,
              HasSubstr("the server requires TLS: add --tls-dir"));
  launcher.Signal(SIGKILL);
  // Nothing outlives the launcher, however it ends.
  ExpectAllEnd(all);
}

TEST_F(SlurmTrainTest, AStopOfAllProcessesAtOnceIsResumedOnFewerNodes) {
  BackgroundCommand first(In(Batch("n[0-2]", 3), Train(kSlurmManySteps)));
  ASSERT_TRUE(AwaitLines(Path("out/metrics.jsonl"), 30));
  const std::vector<pid_t> all = AllProcesses(first.pid());
  EXPECT_EQ(all.size(), 1 + 3 + 6);
  // Slurm sends SIGTERM to all processes of the job, and may repeat it.
  for (int i = 0; i < 2; ++i) {
    for (const pid_t process : all) kill(process, SIGTERM);
  }
  const CommandResult stopped = first.Wait();
  EXPECT_EQ(stopped.exit_code, 75) << stopped.standard_error;
  EXPECT_THAT(stopped.standard_error, AllOf(HasSubstr("stopped by SIGTERM"),
                                            HasSubstr("; resume from step ")));
  ExpectAllEnd(all);
  const int steps = SummaryOf("out").value("steps", 0) + 100;
  const CommandResult second = RunCommand(
      In(Batch("n[3-4]", 2, {"SLURM_RESTART_COUNT=1"}), Train(steps)));
  ASSERT_EQ(second.exit_code, 0) << second.standard_error;
  EXPECT_EQ(DigestOf("out"), ExpectedDigest(steps));
}

TEST_F(SlurmTrainTest, ANoticeStopsTheJobThatTheLauncherOrOnlyTheNodesGet) {
  for (const int signal : {SIGUSR1, SIGUSR2}) {
    BackgroundCommand launcher(In(Batch("n[0-1]", 2), Train(kSlurmManySteps)));
    ASSERT_TRUE(AwaitLines(Path("out/metrics.jsonl"), 20));
    const std::vector<pid_t> all = AllProcesses(launcher.pid());
    for (const pid_t process : all) {
      const bool is_launcher = process == launcher.pid();
      if (is_launcher == (signal == SIGUSR2)) kill(process, signal);
    }
    const CommandResult stopped = launcher.Wait();
    EXPECT_EQ(stopped.exit_code, 75) << stopped.standard_error;
    EXPECT_THAT(stopped.standard_error, HasSubstr("; resume from step "));
    ExpectAllEnd(all);
    std::filesystem::remove_all(Path("out"));
    std::filesystem::remove(Path("pids"));
  }
}

TEST_F(SlurmTrainTest, ALostNodeIsReplacedByTheOthers) {
  const std::string expected = ExpectedDigest(kSteps);
  RunUntilItHits([&] {
    std::filesystem::remove_all(Path("out"));
    std::filesystem::remove(Path("pids"));
    BackgroundCommand launcher(In(Batch("n[0-2]", 3), Train(kSteps)));
    EXPECT_TRUE(AwaitLines(Path("out/metrics.jsonl"), 30));
    EXPECT_EQ(Agents().size(), 3);
    // Not n0, where server 0 runs. Its server and worker end with it.
    for (const pid_t agent : Agents()) {
      std::vector<pid_t> node = ChildrenOf(agent);
      if (std::none_of(node.begin(), node.end(), [](pid_t child) {
            return absl::StrContains(CommandLineOf(child), "--shard 2");
          })) {
        continue;
      }
      node.push_back(agent);
      kill(agent, SIGKILL);
      ExpectAllEnd(node);
    }
    const CommandResult result = launcher.Wait();
    EXPECT_EQ(result.exit_code, 0) << result.standard_error;
    EXPECT_EQ(DigestOf("out"), expected);
    ExpectAllEnd(Agents());
    const std::string lost = "server-2 was lost with its node n2";
    return absl::StrContains(result.standard_error, lost) &&
           absl::StrContains(result.standard_error, "restarting it");
  });
}

// The path of the job's data is relative, and node n2 has a folder of its own.
TEST_F(SlurmTrainTest, ANodeWithoutTheDataDoesNotEndTheJob) {
  std::vector<std::string> arguments = Train(kSteps);
  arguments[0] = std::filesystem::absolute(kTributary);
  const CommandResult result =
      RunCommand(In(Batch("n[0-2]", 3, {"FAKE_SRUN_APART=n2"}), arguments));
  ASSERT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_THAT(result.standard_error,
              AllOf(HasSubstr("warning: worker-2 failed: "
                              "examples/licenses.textproto: cannot open"),
                    HasSubstr("; 2 workers continue\n")));
  EXPECT_EQ(DigestOf("out"), ExpectedDigest(kSteps));
  ExpectAllEnd(Agents());
}

TEST_F(SlurmTrainTest, MistakesAreOneClearLine) {
  const auto error = [this](const std::vector<std::string>& arguments,
                            const std::vector<std::string>& environment,
                            int exit_code) {
    const CommandResult result =
        RunExpecting(exit_code, In(environment, arguments));
    std::string found;
    for (const absl::string_view line :
         absl::StrSplit(result.standard_error, '\n')) {
      if (!absl::StartsWith(line, "error: ")) continue;
      EXPECT_EQ(found, "");
      found = std::string(line);
    }
    ExpectAllEnd(Agents());
    return found;
  };
  EXPECT_THAT(error(Train(5, {"--workers", "4"}), Batch("n[0-1]", 2), 2),
              HasSubstr("2 nodes and 2 tasks, but 4 workers"));
  EXPECT_THAT(error(Train(5), Batch("n[0-", 2), 2),
              HasSubstr("SLURM_JOB_NODELIST"));
  EXPECT_THAT(error(Train(5, {"--launcher", "slurm"}), {}, 2),
              HasSubstr("--launcher slurm "));
  EXPECT_THAT(
      error(Train(5, {"--tls-dir", Path("none")}), Batch("n[0-1]", 2), 2),
      HasSubstr("has no server.pem"));
  WriteWholeFile(Path("token"), std::string(32, 't'));
  EXPECT_THAT(
      error(Train(5, {"--token-file", Path("token")}), Batch("n[0-1]", 2), 2),
      HasSubstr("add --tls-dir DIR, or --insecure-network"));
  EXPECT_THAT(
      error(Train(5, {"--worker-command", "true"}), Batch("n[0-1]", 2), 2),
      HasSubstr("--worker-command in a Slurm allocation"));
  std::vector<std::string> no_srun = Batch("n[0-1]", 2);
  no_srun[0] = "PATH=/nowhere";
  EXPECT_THAT(error(Train(5), no_srun, 2), HasSubstr("srun is not in PATH"));
  EXPECT_THAT(error(Train(5), Batch("n[0-1]", 2, {"FAKE_SRUN_DOWN=n1"}), 1),
              AllOf(HasSubstr("on node n1: "), HasSubstr("Node n1 is down"),
                    HasSubstr("node-n1.log")));
}

// On the second node, the path of the output names another folder.
TEST_F(SlurmTrainTest, AnOutputThatIsNotSharedIsNamed) {
  std::filesystem::create_directory(Path("launcher"));
  std::vector<std::string> arguments = {
      "/usr/bin/env", "--chdir=" + Path("launcher"),
      std::filesystem::absolute(kTributary).string()};
  const std::vector<std::string> train = Train(5);
  arguments.insert(arguments.end(), train.begin() + 1, train.end());
  *std::find(arguments.begin(), arguments.end(), Path("out")) =
      "/proc/self/cwd/out";
  const CommandResult result = RunExpecting(
      1, In(Batch("n[0-1]", 2, {"FAKE_SRUN_APART=n1"}), arguments));
  EXPECT_THAT(result.standard_error,
              AllOf(HasSubstr("error: node n1: does not see "),
                    HasSubstr("--output ")));
  ExpectAllEnd(Agents());
}

TEST_F(SlurmTrainTest, APortThatIsInUseIsNamed) {
  const int taken = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(taken, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(taken, 1), 0);
  getsockname(taken, reinterpret_cast<sockaddr*>(&address), &size);
  const std::string port = absl::StrCat(ntohs(address.sin_port));
  const CommandResult result =
      RunCommand(In(Batch("n[0-1]", 2), Train(5, {"--port", port})));
  close(taken);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.standard_error,
              HasSubstr("node n0: port " + port +
                        " is in use; choose a different first port with "
                        "--port"));
  ExpectAllEnd(Agents());
}

TEST_F(SlurmTrainTest, ATaskOfSrunTrainsOnItsMachineOnly) {
  const CommandResult result =
      RunExpecting(0, In(Batch("n[0-2]", 3, {"SLURM_STEP_ID=0"}),
                         {kTributary, "train", Path("job.textproto"), "--steps",
                          "3", "--output", Path("out")}));
  EXPECT_THAT(result.standard_error, HasSubstr("1 server, 2 workers"));
  EXPECT_THAT(Agents(), IsEmpty());
}

}  // namespace
}  // namespace tributary
