// The example of docs/libtorch.md, which is built outside of this repository
// and trained as the page shows.
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "common/base/json.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/library/install/installation.h"
#include "tests/support/command_runner.h"

namespace tributary {
namespace {

constexpr char kPage[] = "docs/libtorch.md";
constexpr char kSection[] = "## Build and train it";

bool LibTorchIsInstalled() {
  return access("/usr/bin/cmake", X_OK) == 0 &&
         access("/usr/include/torch/csrc/api/include/torch/torch.h", R_OK) == 0;
}

class LibTorchTest : public testing::Test {
 protected:
  void ExpectDone(const std::string& script) const {
    const CommandResult result = RunScript(script, home_, {"HOME=" + home_});
    EXPECT_EQ(result.exit_code, 0)
        << script << "\n"
        << result.standard_output << result.standard_error;
  }
  nlohmann::json SummaryOf(const std::string& run) const {
    return ParseJson(ReadWholeFile(home_ + "/" + run + "/summary.json"));
  }

  const std::string prefix_ = UnpackInstallation();
  // The page installs to $HOME/tributary.
  const std::string home_ = std::filesystem::path(prefix_).parent_path();
};

// The network has dropout and batch norm, whose random numbers and running
// statistics must not depend on the worker.
TEST_F(LibTorchTest, LearnsTheSameWithOneAndTwoWorkers) {
  if (!LibTorchIsInstalled()) {
    GTEST_SKIP() << "needs Debian's packages cmake and libtorch-dev";
  }
  EXPECT_EQ(
      CodeBlocks(kPage, kSection, "cmake"),
      std::vector<std::string>{ReadWholeFile(
          prefix_ + "/share/tributary/examples/libtorch/CMakeLists.txt")});
  const std::vector<std::string> commands = CodeBlocks(kPage, kSection, "sh");
  ExpectDone(commands.at(1));
  ExpectDone(commands.at(2));  // Trains with two workers.
  const nlohmann::json two = SummaryOf("runs/digits");
  EXPECT_GT(two["evaluation"].value("accuracy", 0.0), 0.9);
  ExpectDone(
      "tributary/bin/tributary train app/digits.textproto --workers 1 "
      "--worker-command app/build/read_digits --output one");
  const nlohmann::json one = SummaryOf("one");
  EXPECT_EQ(one["weights_sha256"], two["weights_sha256"]);
  EXPECT_EQ(one["evaluation"], two["evaluation"]);
}

}  // namespace
}  // namespace tributary
