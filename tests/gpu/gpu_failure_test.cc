// Tests how the program handles a GPU that fails. The emulated GPU fails once;
// see FailAsFileAsks in emulated_failures.cc.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/command_runner.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kJob[] =
    "model { mlp { hidden: 8 } } data { random { shape: 4 classes: 3 samples: "
    "64 } } optimizer { sgd { learning_rate: 0.1 } } batch { global: 16 "
    "micro_batches: 2 } evaluation { disabled: true } steps: 6";

class GpuFailureTest : public testing::Test {
 protected:
  GpuFailureTest() { WriteWholeFile(Path("job.textproto"), kJob); }

  std::string Path(const std::string& name) const {
    return absl::StrCat(folder_, "/", name);
  }

  // Trains with one worker on `device`, whose GPU fails as `failure` says.
  CommandResult Train(const std::string& device, const std::string& output,
                      const std::string& failure) {
    if (!failure.empty()) WriteWholeFile(Path("failure"), failure);
    return RunCommand(
        {"tests/gpu/tributary_on_emulated_gpu", "train", Path("job.textproto"),
         "--workers", "1", "--device", device, "--output", Path(output)},
        {"EMULATED_GPU_FAILURE=" + Path("failure")});
  }

  std::string Digest(const std::string& output) const {
    return nlohmann::json::parse(ReadWholeFile(Path(output + "/summary.json")))
        .value("weights_sha256", "none");
  }

  const std::string folder_ = MakeTestFolder();
};

TEST_F(GpuFailureTest, AWorkerWhoseGpuFailsIsRestartedWithTheSameResult) {
  const CommandResult healthy = Train("cuda", "healthy", /*failure=*/"");
  EXPECT_EQ(healthy.exit_code, 0) << healthy.standard_error;
  EXPECT_THAT(healthy.standard_error, Not(HasSubstr("restart")));
  const CommandResult failed = Train("cuda", "failed", "product 5");
  EXPECT_EQ(failed.exit_code, 0) << failed.standard_error;
  EXPECT_THAT(failed.standard_error,
              HasSubstr("worker-0 failed: cublasLtMatmul on cuda:0"));
  EXPECT_THAT(failed.standard_error, HasSubstr("restarting it (restart 1 of"));
  EXPECT_EQ(Digest("failed"), Digest("healthy"));
}

TEST_F(GpuFailureTest, AutoIsTheCpuIfTheGpuIsFull) {
  const CommandResult full = Train("auto", "full", "allocation 0");
  EXPECT_EQ(full.exit_code, 0) << full.standard_error;
  EXPECT_THAT(full.standard_error, HasSubstr("warning: worker-0: cuda:0 "));
  const CommandResult asked = Train("cuda", "asked", "allocation 0");
  EXPECT_EQ(asked.exit_code, 1) << asked.standard_error;
  EXPECT_THAT(asked.standard_error, HasSubstr("--device cpu selects the CPU"));
}

}  // namespace
}  // namespace tributary
