// The installed files: what the library exports and needs, and what its headers
// include.
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/library/install/installation.h"
#include "tests/support/command_runner.h"

namespace tributary {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

class InstalledLibraryTest : public testing::Test {
 protected:
  // Returns the lines that a script prints in the installation's folder.
  std::vector<std::string> Lines(const std::string& script) const {
    const CommandResult result = RunScript(script, prefix_);
    EXPECT_EQ(result.exit_code, 0) << script << "\n" << result.standard_error;
    return absl::StrSplit(result.standard_output, '\n', absl::SkipEmpty());
  }

  const std::string prefix_ = UnpackInstallation();
};

// Symbols as the compiler names them: the length of each name precedes it.
bool IsPublic(absl::string_view symbol) {
  if (absl::StartsWith(symbol, "tributary_")) return true;
  for (const char* prefix : {"_ZN", "_ZNK", "_ZTVN", "_ZTIN", "_ZTSN"}) {
    if (absl::StartsWith(symbol, absl::StrCat(prefix, "9tributary"))) {
      return true;
    }
  }
  return false;
}

TEST_F(InstalledLibraryTest, ExportsOnlyItsInterface) {
  // "symbol@@version T ..."; the version itself is an absolute symbol.
  const std::vector<std::string> symbols = Lines(
      "nm --dynamic --defined-only --format=posix lib/libtributary.so | "
      "grep -v ' A ' | cut -d ' ' -f 1");
  EXPECT_GT(symbols.size(), 100u);
  for (const std::string& symbol : symbols) {
    EXPECT_TRUE(IsPublic(symbol)) << symbol;
    EXPECT_THAT(symbol, HasSubstr("@@TRIBUTARY_"));
    for (const char* hidden : {"9RunWorker", "11Coordinator", "7Trainer",
                               "14UpdateEngine", "13WorkerSession"}) {
      EXPECT_THAT(symbol, Not(HasSubstr(absl::StrCat("tributary", hidden))));
    }
  }
  for (const char* exported :
       {"_ZN9tributary4Main", "_ZN9tributary6Worker7ConnectEv@",
        "_ZN9tributary16EndWorkerProcess", "_ZN9tributary5GraphC1El@",
        "_ZTVN9tributary6LinearE@", "_ZNK9tributary10MicroBatch7indexes"}) {
    EXPECT_THAT(symbols, Contains(StartsWith(exported)));
  }
}

// Classes that are no templates, and functions of C.
TEST_F(InstalledLibraryTest, ExportsWhatThePublicHeadersDeclare) {
  const std::string symbols = absl::StrJoin(
      Lines("nm --dynamic --defined-only lib/libtributary.so"), "\n");
  const std::vector<std::string> classes = Lines(
      "awk '/^class [A-Za-z]+ [{]/ && !template { print $2 } "
      "{ template = /^template/ }' include/tributary/*.h");
  EXPECT_THAT(classes, Contains("Worker"));
  for (const std::string& name : classes) {
    EXPECT_THAT(symbols,
                HasSubstr(absl::StrCat("9tributary", name.size(), name)))
        << "does the library of " << name << " set alwayslink?";
  }
  for (const std::string& name :
       Lines("grep -hoE '^[a-z].*tributary_[a-z_]+\\(' include/tributary/*.h | "
             "sed -E 's/.*(tributary_[a-z_]+).*/\\1/'")) {
    EXPECT_THAT(symbols, HasSubstr(" T " + name)) << "is alwayslink missing?";
  }
}

TEST_F(InstalledLibraryTest, FindsTheLibrariesItNeeds) {
  for (const char* file : {"lib/libtributary.so", "bin/tributary"}) {
    for (const std::string& line :
         Lines(absl::StrCat("ldd -r ", file, " 2>&1"))) {
      EXPECT_THAT(line, AllOf(Not(HasSubstr("not found")),
                              Not(HasSubstr("undefined symbol"))))
          << file;
    }
  }
}

TEST_F(InstalledLibraryTest, HasTheNameOfItsMajorVersion) {
  const std::string version = Lines("bin/tributary --version").at(0);
  const std::vector<std::string> words = absl::StrSplit(version, ' ');
  const std::string number = words.at(1);
  const std::string name =
      absl::StrCat("libtributary.so.", number.substr(0, number.find('.')));
  EXPECT_THAT(Lines("readelf --dynamic lib/libtributary.so"),
              Contains(HasSubstr(absl::StrCat("soname: [", name, "]"))));
  EXPECT_EQ(
      Lines("basename -a $(readlink -f lib/libtributary.so lib/" + name + ")"),
      std::vector<std::string>(2, "libtributary.so." + number));
  EXPECT_THAT(Lines("cat lib/pkgconfig/tributary.pc"),
              Contains("Version: " + number));
  EXPECT_THAT(Lines("cat lib/cmake/tributary/tributary-config-version.cmake"),
              Contains(absl::StrCat("set(PACKAGE_VERSION \"", number, "\")")));
}

TEST_F(InstalledLibraryTest, ProgramFindsTheLibraryWhereverItIsMoved) {
  EXPECT_THAT(
      Lines("mv ../tributary ../moved\n../moved/bin/tributary --version"),
      Contains(StartsWith("tributary ")));
}

// All public headers compile with the headers of Abseil and the system only.
TEST_F(InstalledLibraryTest, HeadersNeedOnlyAbseil) {
  std::string includes;
  for (const std::string& header : Lines("cd include && ls tributary/*.h")) {
    absl::StrAppend(&includes, "#include \"", header, "\"\n");
  }
  EXPECT_THAT(includes, HasSubstr("tributary/worker.h"));
  WriteWholeFile(prefix_ + "/all.cc", includes);
  EXPECT_THAT(
      Lines("g++ -std=c++17 -Wall -Wextra -Werror -fsyntax-only -MD -MF list "
            "-I include all.cc\n"
            "tr -s ' \\\\' '\\n' <list | grep / | "
            "grep -vE '^include/tributary/|^/usr/include/absl/"
            "|^/usr/include/c\\+\\+/|^/usr/lib/gcc/|^/usr/include/[^/]*$"
            "|^/usr/include/[^/]*-linux-gnu/"
            "|^/usr/include/(asm-generic|linux)/' || true"),
      IsEmpty());
  EXPECT_THAT(Lines("ls include"), ElementsAre("tributary"));
  EXPECT_THAT(Lines("find include -type f ! -name '*.h'"), IsEmpty());
}

// Only what programs need not read is internal.
TEST_F(InstalledLibraryTest, WhatProgramsReadIsNotInternal) {
  for (const char* header :
       {"nn/graph.h", "nn/layers/layer.h", "nn/layers/loss.h", "data/batch.h",
        "data/data_set.h", "job/config.h", "models/model_registry.h",
        "device/device.h", "device/ops/elementwise_ops.h", "device/reals.h",
        "numerics/philox.h", "parameters/parameter_group.h"}) {
    EXPECT_THAT(Lines(absl::StrCat("ls include/tributary/", header)),
                SizeIs(1));
  }
  EXPECT_THAT(
      Lines("cd include/tributary/internal && find . -name '*.h' | sort"),
      ElementsAre("./common/base/device_memory_handle.h",
                  "./worker/device/capture.h", "./worker/device/copies.h",
                  "./worker/device/ops/node_sum_ops.h"));
}

}  // namespace
}  // namespace tributary
