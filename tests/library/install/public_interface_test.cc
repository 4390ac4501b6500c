// The public interface is the one that public_interface.txt records.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "tests/support/command_runner.h"

namespace tributary {
namespace {

std::vector<std::string> LinesOf(const std::string& path) {
  return absl::StrSplit(ReadWholeFile(path), '\n');
}

TEST(PublicInterfaceTest, IsTheRecordedOne) {
  const std::vector<std::string> recorded =
      LinesOf("tests/library/install/public_interface.txt");
  const std::vector<std::string> actual =
      LinesOf("library/install/public_interface.txt");
  ASSERT_GT(recorded.size(), 500u);
  const auto difference = std::mismatch(recorded.begin(), recorded.end(),
                                        actual.begin(), actual.end());
  if (difference.first == recorded.end() && difference.second == actual.end()) {
    return;
  }
  const auto line = [](const auto& at, const auto& lines) {
    return at == lines.end() ? "(end)" : *at;
  };
  ADD_FAILURE()
      << "The public interface or the version has changed. Recorded:\n  "
      << line(difference.first, recorded) << "\nActual:\n  "
      << line(difference.second, actual)
      << "\nIf this is intended, raise VERSION in version.bzl as docs/cpp.md "
         "describes, unless that version is not released yet. Then record the "
         "interface:\n"
         "  bazel build //library/install:public_interface.txt\n"
         "  cp --no-preserve=mode bazel-bin/library/install/"
         "public_interface.txt tests/library/install/";
}

}  // namespace
}  // namespace tributary
