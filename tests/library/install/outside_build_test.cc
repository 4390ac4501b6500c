// Programs outside of this repository: they are built with CMake, and with
// pkg-config, as docs/cpp.md shows, and then trained.
#include <unistd.h>

#include <filesystem>
#include <regex>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/library/install/installation.h"
#include "tests/support/command_runner.h"

namespace tributary {
namespace {

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

// Before version 1, another minor version may have another interface.
TEST_F(OutsideBuildTest, CMakeFindsOnlyVersionsThatFit) {
  SKIP_WITHOUT("cmake");
  const std::string file =
      prefix_ + "/lib/cmake/tributary/tributary-config-version.cmake";
  const std::string text = ReadWholeFile(file);
  for (const char* version : {"0.4.2", "3.4.2"}) {
    for (const char* wanted : {"", "0.4", "0.4.2", "3.4", "3.4.2", "0.4.3", "0",
                               "3", "3.1", "3.5", "0.3", "0.40"}) {
      WriteWholeFile(
          file, std::regex_replace(text, std::regex("VERSION \"[0-9.]+\""),
                                   absl::StrCat("VERSION \"", version, "\"")));
      WriteWholeFile(
          home_ + "/ask.cmake",
          absl::StrCat("set(PACKAGE_FIND_VERSION \"", wanted, "\")\ninclude(",
                       file, ")\nmessage(${PACKAGE_VERSION_COMPATIBLE})\n"));
      const std::set<std::string> fitting =
          version[0] == '0'
              ? std::set<std::string>{"", "0.4", "0.4.2"}
              : std::set<std::string>{"", "3", "3.1", "3.4", "3.4.2"};
      EXPECT_EQ(Run("cmake -P ask.cmake").standard_error,
                fitting.count(wanted) > 0 ? "TRUE\n" : "FALSE\n")
          << version << " for " << wanted;
    }
  }
}

TEST_F(OutsideBuildTest, PkgConfigBuildsTheEngine) {
  SKIP_WITHOUT("pkg-config");
  ExpectDone("cp -r tributary/share/tributary/examples/own_engine app");
  ExpectDone(BuildBlocks("sh").at(2));
  ExpectDone(
      "tributary/bin/tributary train app/ratings.textproto --steps 5 "
      "--worker-command app/own_engine");
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
  ExpectDone("app/build/check_gradients\napp/build/classify outside 0.1 0.2");
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
