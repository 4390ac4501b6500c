// Programs outside of this repository: they are built with CMake, and with
// pkg-config, as docs/cpp.md shows, and then trained.
#include <unistd.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/library/install/installation.h"
#include "tests/support/command_runner.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

class OutsideBuildTest : public testing::Test {
 protected:
  CommandResult Run(const std::string& script) const {
    return RunScript(script, home_, {"HOME=" + home_});
  }
  void ExpectDone(const std::string& script) const {
    const CommandResult result = Run(script);
    EXPECT_EQ(result.exit_code, 0)
        << script << "\n"
        << result.standard_output << result.standard_error;
  }

  const std::string prefix_ = UnpackInstallation();
  // The page installs to $HOME/tributary.
  const std::string home_ = std::filesystem::path(prefix_).parent_path();
};

#define SKIP_WITHOUT(program)                                      \
  if (access("/usr/bin/" program, X_OK) != 0) {                    \
    GTEST_SKIP() << "/usr/bin/" program " is missing; install it"; \
  }

TEST_F(OutsideBuildTest, CMakeBuildsTheEngine) {
  SKIP_WITHOUT("cmake");
  EXPECT_EQ(
      BuildBlocks("cmake").at(0),
      ReadWholeFile(prefix_ +
                    "/share/tributary/examples/own_engine/CMakeLists.txt"));
  ExpectDone(BuildBlocks("sh").at(1));
  const CommandResult found = Run("ls runs/*/final/model.safetensors");
  EXPECT_EQ(found.exit_code, 0) << found.standard_error;
}

TEST_F(OutsideBuildTest, PkgConfigBuildsTheEngine) {
  SKIP_WITHOUT("pkg-config");
  ExpectDone("cp -r tributary/share/tributary/examples/own_engine app");
  ExpectDone(BuildBlocks("sh").at(2));
  // The program starts, and refuses its environment.
  const CommandResult result = Run("TRIBUTARY_RANK=none app/own_engine");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.standard_error, HasSubstr("TRIBUTARY_RANK"));
}

// Layers and data of a program work across the border of the library, and the
// result has the same bits as with the library inside the program.
TEST_F(OutsideBuildTest, CMakeBuildsTheNetworkWithTheSameResult) {
  SKIP_WITHOUT("cmake");
  ExpectDone(
      "cp -r tributary/share/tributary/examples/own_network app\n"
      "cmake -S app -B app/build -DCMAKE_PREFIX_PATH=$HOME/tributary\n"
      "cmake --build app/build");
  const std::string inside =
      std::filesystem::absolute("examples/cpp/own_network/own_network");
  const std::string arguments =
      " train app/spirals.textproto --steps 20 --output ";
  ExpectDone(absl::StrCat("app/build/own_network", arguments, "outside"));
  ExpectDone(absl::StrCat(inside, arguments, "inside"));
  const CommandResult sums =
      Run("sha256sum <inside/final/model.safetensors\n"
          "sha256sum <outside/final/model.safetensors");
  const size_t half = sums.standard_output.size() / 2;
  ASSERT_GT(half, 64u);
  EXPECT_EQ(sums.standard_output.substr(0, half),
            sums.standard_output.substr(half));
}

}  // namespace
}  // namespace tributary
