// What a person can get wrong: flags, environment, job files, data files and
// peers. Each must end with the documented exit code and one line that says
// what is wrong, without a stack dump.
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/command_runner.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// A small valid job; rows replace parts of it.
constexpr char kJob[] = R"(
model { mlp { hidden: 8 } }
data { csv { train: "DIR/train.csv" } }
batch { global: 4 }
optimizer { sgd { learning_rate: 0.1 } }
steps: 5
)";

constexpr char kGptJob[] = R"(
model { gpt { layers: 1 heads: 2 width: 8 context: 8 } }
data { text { path: "DIR/text.txt" } }
batch { global: 4 }
optimizer { adamw { learning_rate: 0.001 } }
steps: 5
)";

struct BadInput {
  std::string name;
  // Behind "tributary"; DIR stands for the test's folder, which holds
  // job.textproto (see `job`), train.csv (see `data`), gpt.textproto and
  // text.txt.
  std::vector<std::string> arguments;
  int exit_code = 2;
  // In the line on stderr.
  std::string message;
  std::vector<std::string> environment = {};
  std::string job = kJob;
  std::string data = "1,2,0\n3,4,1\n5,6,0\n7,8,1\n9,1,0\n";
  std::string text = "too short";
};

void PrintTo(const BadInput& input, std::ostream* out) { *out << input.name; }

class BadInputTest : public testing::TestWithParam<BadInput> {
 protected:
  // Where the last error line is: after warnings and progress.
  static std::string LastLine(const std::string& text) {
    const size_t end = text.find_last_not_of('\n');
    if (end == std::string::npos) return std::string();
    const size_t begin = text.rfind('\n', end);
    return text.substr(begin == std::string::npos ? 0 : begin + 1,
                       end - (begin == std::string::npos ? 0 : begin + 1) + 1);
  }
};

TEST_P(BadInputTest, SaysWhatIsWrong) {
  const BadInput& input = GetParam();
  const std::string folder = MakeTestFolder();
  const auto place = [&](const std::string& text) {
    return absl::StrReplaceAll(text, {{"DIR", folder}});
  };
  WriteWholeFile(folder + "/job.textproto", place(input.job));
  WriteWholeFile(folder + "/gpt.textproto", place(kGptJob));
  WriteWholeFile(folder + "/train.csv", input.data);
  WriteWholeFile(folder + "/text.txt", input.text);
  std::vector<std::string> arguments = {kTributary};
  for (const std::string& argument : input.arguments) {
    arguments.push_back(place(argument));
  }
  const CommandResult result = RunCommand(arguments, input.environment);
  EXPECT_EQ(result.exit_code, input.exit_code) << result.standard_error;
  const std::string line = LastLine(result.standard_error);
  EXPECT_THAT(line, StartsWith("error: "));
  EXPECT_THAT(line, HasSubstr(place(input.message)));
  EXPECT_THAT(result.standard_error,
              testing::Not(testing::ContainsRegex("Check failure|terminate")));
  EXPECT_EQ(result.standard_output, "");
}

// train with these arguments, in a folder of its own.
std::vector<std::string> Train(std::vector<std::string> more = {},
                               const std::string& job = "DIR/job.textproto") {
  std::vector<std::string> arguments = {"train", job, "--output", "DIR/out"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

std::vector<BadInput> BadFlags() {
  return {
      {"unknown_command",
       {"trian"},
       2,
       "unknown command trian; did you mean "
       "train?"},
      {"unknown_top_flag", {"--verbose"}, 2, "unknown flag --verbose"},
      {"bandwidth_of_unclear_unit",
       {"plan", "DIR/job.textproto", "--bandwidth", "10Gb"},
       2,
       "--bandwidth: \"10Gb\" has an unknown unit, \"Gb\"; write a link's "
       "speed "
       "as in 10Gbit"},
      {"plan_of_more_workers_than_micro_batches",
       {"plan", "DIR/job.textproto", "--workers", "5"},
       2,
       "--workers 5: the batch has 4 micro-batches"},
      {"unknown_flag", Train({"--worker", "2"}), 2,
       "unknown flag --worker; did you mean --workers?"},
      {"unknown_device", Train({"--device", "gpu"}), 2,
       "there is no device \"gpu\""},
      {"gpu_that_is_not_there",
       Train({"--device", "cuda"}),
       1,
       "--device cuda: ",
       {"CUDA_VISIBLE_DEVICES="}},
      {"worker_on_gpu_that_is_not_there",
       {"worker", "--device", "cuda:1"},
       1,
       "--device cpu selects the CPU",
       {"CUDA_VISIBLE_DEVICES="}},
      {"server_on_gpu_that_is_not_there",
       {"server", "DIR/job.textproto", "--output", "DIR/out", "--device",
        "cuda:1"},
       1,
       "--device cuda:1: ",
       {"CUDA_VISIBLE_DEVICES="}},
      {"servers_on_gpu_that_is_not_there",
       Train({"--server-device", "cuda"}),
       1,
       "--server-device cpu selects the CPU",
       {"CUDA_VISIBLE_DEVICES="}},
      {"server_on_gpu_in_all_reduce",
       Train({"--set", "exchange.all_reduce={}", "--server-device", "cuda"}), 2,
       "--server-device cuda: with exchange.all_reduce the server neither sums "
       "gradients nor updates weights"},
      {"server_that_is_to_find_micro_batches",
       {"server", "DIR/job.textproto", "--set", "batch.micro_batches=-1"},
       2,
       "batch.micro_batches: -1 is for `tributary train`"},
      {"no_number", Train({"--workers", "two"}), 2,
       "--workers: \"two\" is neither a number from 1 to 1024 nor two"},
      {"zero_workers", Train({"--workers=0"}), 2, "\"0\" is neither a number"},
      {"spares_that_would_compute", Train({"--spares", "1"}), 2,
       "--spares 1: 4 workers can compute at the same time, because "
       "batch.micro_batches is 4, and 2 are requested, so none would stand by; "
       "add --workers 4"},
      {"negative_steps", Train({"--steps", "-5"}), 2, "flag --steps: '-5'"},
      {"missing_value", Train({"--servers"}), 2,
       "flag --servers needs a value"},
      {"two_jobs", Train({"other.textproto"}), 2,
       "unexpected argument 'other.textproto'"},
      {"bad_choice", Train({"--log-format", "xml"}), 2,
       "'xml' is not one of text|json"},
      {"bad_variable",
       Train(),
       2,
       "TRIBUTARY_WORKERS: \"many\" is neither a number",
       {"TRIBUTARY_WORKERS=many"}},
      {"set_without_value", Train({"--set", "seed"}), 2, "--set seed: "},
      {"set_unknown_path", Train({"--set", "optimizer.sgd.momentun=0.5"}), 2,
       "momentum"},
      {"set_bad_value", Train({"--set", "seed=abc"}), 2, "--set seed=abc: "},
      {"bad_rank",
       {"worker"},
       2,
       "environment variable RANK is 'x', expected a whole number",
       {"RANK=x"}},
      {"rank_beyond_world",
       {"worker"},
       2,
       "SLURM_PROCID is 4, expected less than SLURM_NTASKS (4)",
       {"SLURM_PROCID=4", "SLURM_NTASKS=4"}},
      {"bad_coordinator",
       {"worker", "--coordinator", "host:port"},
       2,
       "'host:port' is not an address"},
      {"open_listen",
       {"server", "DIR/job.textproto", "--listen", "0.0.0.0:0"},
       2,
       "--insecure-network"},
      {"bad_listen",
       {"server", "DIR/job.textproto", "--listen", "here"},
       2,
       "'here' is not an address; write host:port"},
      {"ServerResumesNowhere",
       {"server", "DIR/job.textproto", "--resume", "auto"},
       2,
       "or output.directory in the job: the folder of the run"},
      {"ReplicasOfOneServer",
       {"server", "DIR/job.textproto", "--listen", "127.0.0.1:0", "--output",
        "DIR/run", "--set", "recovery.journal=true"},
       2,
       "recovery.journal keeps each server's state on another server, but the "
       "number of servers is 1: add --servers 2"},
      {"bad_shard",
       {"server", "--shard", "2", "--servers", "2"},
       2,
       "--shard 2 must be below --servers 2"},
      {"sample_without_folder", {"sample"}, 2, "missing "},
      {"sample_bad_temperature",
       {"sample", "DIR", "--temperature", "hot"},
       2,
       "'hot' is not a number"},
  };
}

std::vector<BadInput> BadJobs() {
  const auto with = [](const std::string& from, const std::string& to) {
    return absl::StrReplaceAll(kJob, {{from, to}});
  };
  const auto job = [](const std::string& name, const std::string& text,
                      const std::string& message) {
    BadInput input;
    input.name = name;
    input.arguments = Train();
    input.message = message;
    input.job = text;
    return input;
  };
  BadInput missing = job("no_job_file", kJob, "DIR/none.textproto");
  missing.arguments = Train({}, "DIR/none.textproto");
  return {
      missing,
      job("syntax", with("steps: 5", "steps: }"), "job.textproto:6:8: "),
      job("misspelled_field", with("steps", "stepz"), "job.textproto:6:"),
      job("no_model", with("model { mlp { hidden: 8 } }", ""),
          "job.textproto: model"),
      job("no_steps", with("steps: 5", ""), "job.textproto: steps"),
      job("steps_and_epochs", with("steps: 5", "steps: 5 epochs: 2"), "epochs"),
      job("zero_batch", with("global: 4", "global: 0"), "batch.global"),
      job("odd_micro_batches", with("global: 4", "global: 6 micro_batches: 3"),
          "batch.micro_batches"),
      job("negative_learning_rate", with("0.1", "-0.1"),
          "optimizer.sgd.learning_rate"),
      job("heads_do_not_divide",
          with("mlp { hidden: 8 }", "gpt { width: 10 heads: 4 }"), "model.gpt"),
  };
}

std::vector<BadInput> BadDataAndModels() {
  const auto data = [](const std::string& name, const std::string& csv,
                       int exit_code, const std::string& message) {
    BadInput input;
    input.name = name;
    input.arguments = Train();
    input.exit_code = exit_code;
    input.message = message;
    input.data = csv;
    return input;
  };
  BadInput missing =
      data("no_data_file", "", 2, "data.csv.train: DIR/none.csv: No such file");
  missing.arguments = Train({"--set", "data.csv.train=DIR/none.csv"});
  BadInput folder = data("data_is_a_folder", "", 2, "DIR");
  folder.arguments = Train({"--set", "data.csv.train=DIR"});
  BadInput text = data("text_too_short", "", 2, "DIR/text.txt");
  text.arguments = Train({}, "DIR/gpt.textproto");
  text.message = "text";
  return {
      missing,
      folder,
      text,
      data("empty_data", "", 2, "DIR/train.csv"),
      data("no_numbers", "a,b,c\n1,2,0\n1,x,0\n", 2,
           "data.csv.train: DIR/train.csv:3"),
      data("ragged_rows", "1,2,0\n1,2\n", 2, "DIR/train.csv:2"),
      data("label_not_whole", "1,2,0\n1,2,0.5\n", 2, "DIR/train.csv:2"),
      {"sample_no_run", {"sample", "DIR/none"}, 2, "DIR/none/job.textproto"},
      {"sample_unfinished", {"sample", "DIR"}, 2, "only gpt models"},
      {"export_no_run",
       {"export", "DIR/none", "--output", "DIR/x"},
       2,
       "DIR/none/job.textproto"},
      {"export_unfinished",
       {"export", "DIR", "--output", "DIR/x"},
       2,
       "the model is written when a run ends"},
      {"export_without_output", {"export", "DIR"}, 2, "--output is required"},
      {"no_initial_weights",
       Train({"--set", "model.initial_weights.path=DIR/none"}), 2,
       "model.initial_weights.path: DIR/none: contains no weights"},
  };
}

// Each of the workers said it, and server 0 once more.
TEST(BadDataTest, IsSaidOnceAndBeforeAnythingIsWritten) {
  const std::string folder = MakeTestFolder();
  WriteWholeFile(folder + "/job.textproto",
                 absl::StrReplaceAll(kJob, {{"DIR", folder}}));
  WriteWholeFile(folder + "/train.csv", "1,2,0\n1,x,0\n");
  const CommandResult result =
      RunCommand({kTributary, "train", folder + "/job.textproto", "--output",
                  folder + "/run"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.standard_error,
              StartsWith(absl::StrCat("error: data.csv.train: ", folder,
                                      "/train.csv:2: ")));
  EXPECT_EQ(result.standard_error.find('\n'), result.standard_error.size() - 1);
  EXPECT_FALSE(std::filesystem::exists(folder + "/run"));
}

TEST(TracedStepsTest, WarnsOfStepsThatDoNotCome) {
  const std::string folder = MakeTestFolder();
  WriteWholeFile(folder + "/job.textproto",
                 absl::StrReplaceAll(kJob, {{"DIR", folder}}));
  WriteWholeFile(folder + "/train.csv", "1,2,0\n3,4,1\n5,6,0\n7,8,1\n9,1,0\n");
  const CommandResult result =
      RunCommand({kTributary, "train", folder + "/job.textproto", "--output",
                  folder + "/run", "--trace-steps", "3:9", "--quiet"});
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_THAT(result.standard_error,
              HasSubstr("warning: the last step to trace is 8, but the job "
                        "ends after step 4"));
}

// The second server said the address, but not which flag.
TEST(UsedPortTest, IsSaidWithItsFlag) {
  const std::string folder = MakeTestFolder();
  WriteWholeFile(folder + "/job.textproto",
                 absl::StrReplaceAll(kJob, {{"DIR", folder}}));
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
    const CommandResult result = RunCommand(command);
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(
        result.standard_error,
        HasSubstr(absl::StrCat("error: ", flag, ": cannot listen on ", used)));
  }
}

std::vector<BadInput> BadPeers() {
  return {
      {"no_server",
       {"worker", "--coordinator", "127.0.0.1:1", "--connect-timeout", "0.2"},
       1,
       "127.0.0.1:1"},
      {"name_without_address",
       {"worker", "--coordinator", "no-such-host.invalid:1",
        "--connect-timeout", "0.2"},
       1,
       "the name no-such-host.invalid does not resolve"},
      {"status_of_a_name_without_address",
       {"status", "no-such-host.invalid:1"},
       1,
       "the name no-such-host.invalid does not resolve"},
      {"foreign_listen",
       {"server", "DIR/job.textproto", "--listen", "192.0.2.1:0",
        "--insecure-network", "--output", "DIR/out"},
       1,
       "cannot listen on 192.0.2.1:0"},
  };
}

std::string NameOf(const testing::TestParamInfo<BadInput>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(Flags, BadInputTest, testing::ValuesIn(BadFlags()),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(Jobs, BadInputTest, testing::ValuesIn(BadJobs()),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(Data, BadInputTest,
                         testing::ValuesIn(BadDataAndModels()), NameOf);
INSTANTIATE_TEST_SUITE_P(Peers, BadInputTest, testing::ValuesIn(BadPeers()),
                         NameOf);

}  // namespace
}  // namespace tributary
