// Runs the tests of a file of Python's unittest, each as a case of GoogleTest:
//   run_python_tests tests/python/NAME.py
// In the file, a line "class NAME(" precedes the lines "    def test_...".
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tests/support/command_runner.h"

namespace tributary {
namespace {

namespace fs = std::filesystem;

constexpr char kPython[] = "/usr/bin/python3";
// A case starts several processes, which import PyTorch.
constexpr absl::Duration kTimeout = absl::Minutes(10);

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitizer = true;
#else
constexpr bool kSanitizer = false;
#endif

struct Case {
  std::string suite;
  std::string name;
};

std::vector<Case> CasesIn(const std::string& file) {
  std::vector<Case> cases;
  std::string suite;
  const std::string text = ReadWholeFile(file);
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (absl::ConsumePrefix(&line, "class ")) {
      suite = std::string(line.substr(0, line.find('(')));
    } else if (absl::ConsumePrefix(&line, "    def ") &&
               absl::StartsWith(line, "test_")) {
      cases.push_back({suite, std::string(line.substr(0, line.find('(')))});
    }
  }
  return cases;
}

// Creates a folder with the package as it would be installed.
std::string Install() {
  const std::string site = MakeTestFolder();
  const fs::path package = site + "/tributary";
  fs::create_directories(package / "_native");
  for (const auto& entry : fs::directory_iterator("python/tributary")) {
    fs::create_symlink(fs::canonical(entry.path()),
                       package / entry.path().filename());
  }
  fs::create_symlink(fs::canonical("library/c_api/libtributary_c.so"),
                     package / "_native/libtributary_c.so");
  fs::create_symlink(fs::canonical("python/tributary_program"),
                     package / "_native/tributary");
  return site;
}

class PythonTest : public testing::Test {
 public:
  PythonTest(std::string file, Case test)
      : file_(std::move(file)), case_(std::move(test)) {}

  void TestBody() override {
    if (kSanitizer) GTEST_SKIP() << "Python itself is not instrumented";
    static const CommandResult numpy =
        RunCommand({kPython, "-c", "import numpy"});
    if (numpy.exit_code != 0) {
      GTEST_SKIP() << "needs Debian's package python3-numpy: "
                   << numpy.standard_error;
    }
    BackgroundCommand python(
        {kPython, file_, absl::StrCat(case_.suite, ".", case_.name)},
        {absl::StrCat("PYTHONPATH=", Install()), "PYTHONDONTWRITEBYTECODE=1",
         absl::StrCat("TEST_TMPDIR=", MakeTestFolder())});
    const CommandResult result = python.Wait(kTimeout);
    EXPECT_EQ(result.exit_code, 0)
        << result.standard_output << result.standard_error;
    if (absl::StrContains(result.standard_error, "(skipped=")) {
      GTEST_SKIP() << result.standard_error;
    }
  }

 private:
  const std::string file_;
  const Case case_;
};

}  // namespace
}  // namespace tributary

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 2) {
    std::fprintf(stderr, "usage: run_python_tests FILE\n");
    return 2;
  }
  const std::string file = argv[1];
  for (const tributary::Case& test : tributary::CasesIn(file)) {
    testing::RegisterTest(test.suite.c_str(), test.name.c_str(), nullptr,
                          nullptr, __FILE__, __LINE__,
                          [file, test]() -> testing::Test* {
                            return new tributary::PythonTest(file, test);
                          });
  }
  return RUN_ALL_TESTS();
}
