// run_gpu.sh with programs that only pretend to test: its report, and that no
// part stops the others.
#include <sys/stat.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/command_runner.h"

namespace tributary {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Trains as the real program does, as far as the scripts can tell. The digest
// of the weights is $DIGEST.
constexpr char kBundledTributary[] = R"(
case $1 in
  --help) ;;
  devices) echo "cuda:0 of the test" ;;
  bench) [[ $3 == "$BROKEN" ]] && exit 3
    echo "{\"model\": \"$3\", \"median_ms\": 1.5}" ;;
  train)
    while (($# > 0)); do
      [[ $1 == --output ]] && mkdir -p "$2" && output=$2
      [[ $1 == --server-device ]] && server=$2
      shift
    done
    digest=$server
    [[ $DIGEST == same ]] && digest=0123abcd
    echo "{\"weights_sha256\": \"$digest\"}" >"$output/summary.json" ;;
esac
)";

// A bundle whose programs are scripts.
class RunGpuTest : public testing::Test {
 protected:
  RunGpuTest() {
    for (const char* file : {"run_gpu.sh", "report.sh", "parts.sh"}) {
      WriteWholeFile(bundle_ + "/" + file,
                     ReadWholeFile(absl::StrCat("tests/gpu/", file)));
    }
    WriteWholeFile(bundle_ + "/bundle.txt",
                   "revision: \"test\"\ndevice: emulated\n");
    mkdir((programs_ + "/bin").c_str(), 0755);
    AddProgram("tributary", kBundledTributary);
  }

  void AddProgram(const std::string& name, const std::string& script) {
    const std::string path = programs_ + "/bin/" + name;
    WriteWholeFile(path, "#!/bin/bash\n" + script);
    chmod(path.c_str(), 0755);
  }

  CommandResult Run(std::vector<std::string> arguments,
                    const std::vector<std::string>& environment = {}) {
    RunCommand({"/bin/tar", "-czf", bundle_ + "/programs.tar.gz", "-C",
                programs_, "bin"});
    arguments.insert(arguments.begin(), {"/bin/bash", bundle_ + "/run_gpu.sh",
                                         "--report", report_});
    return RunCommand(arguments, environment);
  }

  nlohmann::json Report() const {
    return nlohmann::json::parse(ReadWholeFile(report_ + "/report.json"));
  }
  std::string Page() const { return ReadWholeFile(report_ + "/report.md"); }

  const std::string bundle_ = MakeTestFolder();
  const std::string programs_ = MakeTestFolder();
  const std::string report_ = MakeTestFolder() + "/report";
};

TEST_F(RunGpuTest, AFailingOrHangingPartDoesNotStopTheOthers) {
  AddProgram("device_test",
             R"(printf 'says "no" \\ | \001 \xc3\xa9\n'
                echo '[  PASSED  ] 5 tests.'
                echo '[  FAILED  ] 2 tests, listed below:'
                exit 1)");
  AddProgram("passes_test", "echo begun\nsleep 1000\n");
  AddProgram("workers_test", "echo '[  PASSED  ] 3 tests.'\n");
  const CommandResult run =
      Run({"--limit", "2", "device", "passes", "workers"});
  EXPECT_EQ(run.exit_code, 1) << run.standard_error;
  const nlohmann::json parts = Report()["parts"];
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[0]["name"], "device");
  EXPECT_EQ(parts[0]["outcome"], "failed");
  EXPECT_EQ(parts[0]["reason"], "exit status 1, 2 cases failed");
  EXPECT_EQ(parts[0]["figures"]["cases passed"], 5);
  EXPECT_THAT(parts[0]["log_tail"].get<std::string>(),
              HasSubstr("says \"no\" \\ |"));
  EXPECT_EQ(parts[1]["outcome"], "failed");
  EXPECT_EQ(parts[1]["reason"], "stopped at its limit of 2 s");
  EXPECT_THAT(parts[1]["log_tail"].get<std::string>(), HasSubstr("begun"));
  EXPECT_EQ(parts[2]["outcome"], "passed");
  EXPECT_EQ(parts[2]["figures"]["cases passed"], 3);
  EXPECT_THAT(Page(),
              AllOf(HasSubstr("| passes | failed |"), HasSubstr("begun"),
                    HasSubstr("| workers | passed |")));
}

TEST_F(RunGpuTest, TestsThatAreAllSkippedAreNotPassed) {
  AddProgram("servers_test", "echo '[  SKIPPED ] 4 tests, listed below:'\n");
  EXPECT_EQ(Run({"servers", "workers"}).exit_code, 0);
  const nlohmann::json parts = Report()["parts"];
  EXPECT_EQ(parts[0]["outcome"], "skipped");
  EXPECT_THAT(parts[0]["reason"].get<std::string>(), HasSubstr("no GPU"));
  EXPECT_EQ(parts[1]["outcome"], "skipped");
  EXPECT_EQ(parts[1]["reason"], "the bundle has no workers_test");
}

TEST_F(RunGpuTest, DifferentWeightsFailTheComparison) {
  EXPECT_EQ(Run({"determinism"}, {"DIGEST=same"}).exit_code, 0);
  EXPECT_EQ(Report()["parts"][0]["outcome"], "passed");
  EXPECT_EQ(RunCommand({"/bin/rm", "-r", report_}).exit_code, 0);
  EXPECT_EQ(Run({"determinism"}).exit_code, 1);
  const nlohmann::json part = Report()["parts"][0];
  EXPECT_EQ(part["outcome"], "failed");
  EXPECT_THAT(part["reason"].get<std::string>(), HasSubstr("differ"));
  EXPECT_THAT(part["figures"].dump(), HasSubstr("\"cuda\""));
}

TEST_F(RunGpuTest, ABenchmarkThatFailsDoesNotStopTheOthers) {
  EXPECT_EQ(Run({"bench"}, {"BROKEN=gpt"}).exit_code, 1);
  const nlohmann::json part = Report()["parts"][0];
  EXPECT_EQ(part["reason"], "1 failed: tributary, gpt, batch 2, BFLOAT16");
  EXPECT_EQ(part["figures"]["tributary, gpt2, batch 2, BFLOAT16"]["median_ms"],
            1.5);
  EXPECT_EQ(part["figures"]["tributary, gpt, batch 2, BFLOAT16"],
            "failed with exit status 3");
  EXPECT_THAT(Page(),
              HasSubstr("| tributary, gpt2, batch 2, BFLOAT16 | 1.5 ms |"));
}

TEST_F(RunGpuTest, RefusesWrongArguments) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"nonsense"},
        {"--minutes", "0"},
        {"--limit"}}) {
    const CommandResult run = Run(arguments);
    EXPECT_EQ(run.exit_code, 2);
    EXPECT_THAT(run.standard_error, HasSubstr("see run_gpu.sh --help"));
  }
  EXPECT_EQ(Run({"--help"}).exit_code, 0);
}

TEST_F(RunGpuTest, KeepsAnOldReport) {
  EXPECT_EQ(Run({"facts"}).exit_code, 0);
  const std::string before = Page();
  EXPECT_EQ(Run({"facts"}).exit_code, 2);
  EXPECT_EQ(Page(), before);
}

}  // namespace
}  // namespace tributary
