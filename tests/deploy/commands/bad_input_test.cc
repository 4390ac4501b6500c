// What a person can get wrong: flags, environment, job files, data files and
// peers. Each must end with the documented exit code and one line that says
// what is wrong, without a stack dump.
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/command_runner.h"

namespace tributary {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// A small valid job.
constexpr char kJob[] = R"(
model { mlp { hidden: 8 } }
data { csv { train: "DIR/train.csv" } }
batch { global: 4 }
optimizer { sgd { learning_rate: 0.1 } }
steps: 5
)";

// Returns a folder with job.textproto and its data.
std::string JobFolder() {
  const std::string folder = MakeTestFolder();
  WriteWholeFile(folder + "/job.textproto",
                 absl::StrReplaceAll(kJob, {{"DIR", folder}}));
  WriteWholeFile(folder + "/train.csv", "1,2,0\n3,4,1\n5,6,0\n7,8,1\n9,1,0\n");
  return folder;
}

// The arguments of the program, separated by spaces, and what the line on
// stderr must contain. DIR stands for a JobFolder.
struct BadInput {
  std::string arguments;
  std::string name;
  std::vector<std::string> environment = {};
};

constexpr char kTrain[] = "train DIR/job.textproto --output DIR/out ";
constexpr char kServer[] = "server DIR/job.textproto ";

// Expects this exit code of each command, and one line that names what is
// wrong.
void ExpectErrors(int exit_code, const std::vector<BadInput>& inputs) {
  const std::string folder = JobFolder();
  const auto place = [&](const std::string& text) {
    return absl::StrReplaceAll(text, {{"DIR", folder}});
  };
  for (const BadInput& input : inputs) {
    SCOPED_TRACE(input.arguments);
    std::vector<std::string> command =
        absl::StrSplit(place(input.arguments), ' ', absl::SkipEmpty());
    command.insert(command.begin(), kTributary);
    const CommandResult result =
        RunExpecting(exit_code, command, input.environment);
    EXPECT_EQ(result.standard_output, "");
    EXPECT_THAT(result.standard_error,
                Not(ContainsRegex("Check failure|terminate")));
    // The last line: after warnings and progress.
    const std::vector<std::string> lines =
        absl::StrSplit(result.standard_error, '\n', absl::SkipEmpty());
    ASSERT_FALSE(lines.empty());
    EXPECT_THAT(lines.back(),
                AllOf(StartsWith("error: "), HasSubstr(place(input.name))));
  }
}

TEST(BadInputTest, NamesFlagsAndVariables) {
  const std::string train = kTrain;
  const std::string server = kServer;
  ExpectErrors(
      2, {{"trian", "train?"},
          {"--verbose", "--verbose"},
          {"plan DIR/job.textproto --bandwidth 10Gb", "--bandwidth: \"10Gb\""},
          {"plan DIR/job.textproto --workers 5", "--workers 5: "},
          {train + "--worker 2", "--workers?"},
          {train + "--workers two", "--workers: \"two\""},
          {train + "--spares 1", "--spares 1: "},
          {train + "--steps -5", "--steps: '-5'"},
          {train + "--set seed=abc", "--set seed=abc: "},
          {train, "TRIBUTARY_WORKERS: \"many\"", {"TRIBUTARY_WORKERS=many"}},
          {train + "--device gpu", "\"gpu\""},
          {train + "--set exchange.all_reduce={} --server-device cuda",
           "--server-device cuda: "},
          {server + "--set batch.micro_batches=-1", "batch.micro_batches: -1 "},
          {server + "--listen 0.0.0.0:0", "--insecure-network"},
          {server + "--listen here", "'here'"},
          {server + "--resume auto", "output.directory"},
          {server + "--output DIR/run --set recovery.journal=true",
           "recovery.journal "},
          {"server --shard 2 --servers 2", "--shard 2 "},
          {"worker", "RANK is 'x'", {"RANK=x"}},
          {"worker --coordinator host:port", "'host:port'"},
          {"status node1:x", "'node1:x'"},
          {"export DIR", "--output"}});
}

TEST(BadInputTest, NamesDevicesThatAreNotThere) {
  const std::vector<std::string> none = {"CUDA_VISIBLE_DEVICES="};
  ExpectErrors(
      1, {{absl::StrCat(kTrain, "--device cuda"), "--device cuda: ", none},
          {absl::StrCat(kTrain, "--server-device cuda"), "--server-device cpu",
           none},
          {absl::StrCat(kServer, "--output DIR/out --device cuda:1"),
           "--device cuda:1: ", none},
          {"worker --device cuda:1", "--device cpu", none}});
}

TEST(BadInputTest, NamesFilesAndFields) {
  const std::string train = kTrain;
  ExpectErrors(
      2, {{"train DIR/none.textproto --output DIR/out", "DIR/none.textproto"},
          {train + "--set batch.global=0", "job.textproto: batch.global: 0 "},
          {train + "--set data.csv.train=DIR/none.csv",
           "data.csv.train: DIR/none.csv: "},
          {train + "--set model.initial_weights.path=DIR/none",
           "model.initial_weights.path: DIR/none: "},
          {"train --resume DIR/none", "--resume DIR/none: "},
          {"sample DIR/none", "DIR/none/job.textproto"},
          {"sample DIR", "gpt models"},
          {"export DIR/none --output DIR/x", "DIR/none/job.textproto"},
          {"export DIR --output DIR/x", "when a run ends"}});
  const std::string broken = MakeTestFolder() + "/job.textproto";
  WriteWholeFile(broken, "steps: }");
  ExpectErrors(2, {{"train " + broken, "job.textproto:1:8: "}});
}

// Refused before a process starts or a file is written.
TEST(BadInputTest, NamesStagesThatTheModelDoesNotHave) {
  const std::string set = "--set parallel.pipeline=";
  for (const std::string& command :
       {std::string(kTrain), std::string("plan DIR/job.textproto ")}) {
    ExpectErrors(2, {{command + set + "{stages:3}", "pipeline.stages is 3"},
                     {command + set + "{stages:2,split:'outptu'}", "output?"},
                     {command + set + "{stages:2,split:'hidden.0'}",
                      "hidden.0 is the model's first layer"}});
  }
  const std::string folder = JobFolder();
  const CommandResult train = RunExpecting(
      2, {kTributary, "train", folder + "/job.textproto", "--output",
          folder + "/out", "--set", "parallel.pipeline={stages:3}"});
  const std::vector<std::string> lines =
      absl::StrSplit(train.standard_error, '\n', absl::SkipEmpty());
  EXPECT_EQ(lines.size(), 1);
  EXPECT_FALSE(std::filesystem::exists(folder + "/out"));
}

TEST(BadInputTest, NamesAddresses) {
  const std::string nowhere = "no-such-host.invalid";
  ExpectErrors(
      1, {{"worker --coordinator 127.0.0.1:1 --connect-timeout 0.2",
           "127.0.0.1:1"},
          {absl::StrCat("worker --coordinator ", nowhere,
                        ":1 --connect-timeout 0.2"),
           nowhere + " does not resolve"},
          {"status no-such-host.invalid:1", nowhere + " does not resolve"},
          {absl::StrCat(kServer,
                        "--listen 192.0.2.1:0 --insecure-network "
                        "--output DIR/out"),
           "192.0.2.1:0"}});
}

// Each of the workers said it, and server 0 once more.
TEST(BadDataTest, IsSaidOnceAndBeforeAnythingIsWritten) {
  const std::string folder = JobFolder();
  WriteWholeFile(folder + "/train.csv", "1,2,0\n1,x,0\n");
  const CommandResult result =
      RunExpecting(2, {kTributary, "train", folder + "/job.textproto",
                       "--output", folder + "/run"});
  EXPECT_THAT(result.standard_error,
              StartsWith(absl::StrCat("error: data.csv.train: ", folder,
                                      "/train.csv:2: ")));
  EXPECT_EQ(result.standard_error.find('\n'), result.standard_error.size() - 1);
  EXPECT_FALSE(std::filesystem::exists(folder + "/run"));
}

TEST(TracedStepsTest, WarnsOfStepsThatDoNotCome) {
  const std::string folder = JobFolder();
  const CommandResult result = RunExpecting(
      0, {kTributary, "train", folder + "/job.textproto", "--output",
          folder + "/run", "--trace-steps", "3:9", "--quiet"});
  EXPECT_THAT(result.standard_error, ContainsRegex("warning: .*trace is 8,"));
}

// The second server said the address, but not which flag.
TEST(UsedPortTest, IsSaidWithItsFlag) {
  const std::string folder = JobFolder();
  const std::vector<std::string> server = {kTributary, "server",
                                           folder + "/job.textproto",
                                           "--listen", "127.0.0.1:0"};
  auto first = server;
  first.insert(first.end(), {"--metrics-listen", "127.0.0.1:0", "--output",
                             folder + "/first"});
  const BackgroundCommand running(first);
  const std::string kBefore = "metrics at http://";
  const std::string line = running.AwaitStandardError(kBefore);
  const size_t begin = line.find(kBefore) + kBefore.size();
  const std::string used = line.substr(begin, line.find('/', begin) - begin);
  auto second = server;
  second.insert(second.end(),
                {"--metrics-listen", used, "--output", folder + "/second"});
  for (const auto& [command, flag] :
       {std::make_pair(second, "--metrics-listen"),
        std::make_pair(std::vector<std::string>{kTributary, "dashboard", folder,
                                                "--listen", used},
                       "--listen")}) {
    const CommandResult result = RunExpecting(1, command);
    EXPECT_THAT(
        result.standard_error,
        HasSubstr(absl::StrCat("error: ", flag, ": cannot listen on ", used)));
  }
}

}  // namespace
}  // namespace tributary
