// A Bazel workspace that uses this repository as docs/cpp.md shows. Building
// the whole library again would take minutes, so the test loads and analyzes
// the example, generates the code of the protocol, and compiles one small
// library.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "tests/library/install/installation.h"
#include "tests/support/command_runner.h"

namespace tributary {
namespace {

namespace fs = std::filesystem;

// The test's data are links into the source tree.
std::string RepositoryRoot() {
  return fs::canonical("WORKSPACE").parent_path();
}

TEST(OutsideBazelTest, BuildsTheEngine) {
  std::string bazel;
  for (const char* path : {"/usr/bin/bazel", "/usr/local/bin/bazel"}) {
    if (bazel.empty() && access(path, X_OK) == 0) bazel = path;
  }
  if (bazel.empty()) GTEST_SKIP() << "there is no bazel in /usr/bin";
  const std::string prefix = UnpackInstallation();
  const std::string home = fs::path(prefix).parent_path();
  const std::string app = prefix + "/share/tributary/examples/own_engine";
  WriteWholeFile(
      app + "/WORKSPACE",
      absl::StrReplaceAll(BuildBlocks("python").at(0),
                          {{"/path/to/tributary", RepositoryRoot()}}));
  WriteWholeFile(app + "/BUILD", BuildBlocks("python").at(1));
  WriteWholeFile(app + "/.bazelrc", BuildBlocks("").at(0));
  // A server of its own, which ends soon if the test does not end it.
  const std::string start = absl::StrCat(
      bazel,
      " --max_idle_secs=15 --host_jvm_args=-Xmx512m --output_user_root=", home,
      "/bazel ");
  const std::string build = absl::StrCat(
      start, "build --define=tributary_compile=separately --nosandbox_debug ");
  const CommandResult result =
      RunScript(absl::StrCat(build, "--nobuild //:own_engine\n", build,
                             "@tributary//proto:job_proto_generate "
                             "@tributary//common/text\n",
                             // How the files of a library are put together.
                             start,
                             "build --nosandbox_debug "
                             "@tributary//common/text:text_unit_1\n"),
                app, {"HOME=" + home});
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  // Bazel makes its folders read-only, and a test must leave none of those.
  RunScript(absl::StrCat(start, "shutdown\nchmod -R u+w ", home,
                         "/bazel && rm -rf ", home, "/bazel"),
            app, {"HOME=" + home});
}

}  // namespace
}  // namespace tributary
