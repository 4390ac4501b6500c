// The code that docs/cpp.md and docs/libtorch.md show is that of the examples,
// which are compiled.
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "tests/support/command_runner.h"

namespace tributary {
namespace {

// Returns the blocks of C++ in a page.
std::vector<std::string> CodeBlocks(const std::string& page) {
  std::vector<std::string> blocks;
  bool inside = false;
  for (const absl::string_view line : absl::StrSplit(page, '\n')) {
    if (line == "```cpp") {
      inside = true;
      blocks.emplace_back();
    } else if (line == "```") {
      inside = false;
    } else if (inside) {
      blocks.back().append(line.data(), line.size()).append("\n");
    }
  }
  return blocks;
}

std::vector<std::string> Sources() {
  std::vector<std::string> sources;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator("examples/cpp")) {
    const std::string extension = entry.path().extension();
    if (extension != ".cc" && extension != ".h") continue;
    sources.push_back(ReadWholeFile(entry.path()));
  }
  return sources;
}

TEST(CppPageTest, ShowsCodeOfTheExamples) {
  const std::vector<std::string> sources = Sources();
  ASSERT_FALSE(sources.empty());
  for (const char* page : {"docs/cpp.md", "docs/libtorch.md"}) {
    const std::vector<std::string> blocks = CodeBlocks(ReadWholeFile(page));
    ASSERT_GE(blocks.size(), 4u) << page;
    for (const std::string& block : blocks) {
      bool found = false;
      for (const std::string& source : sources) {
        found = found || absl::StrContains(source, block);
      }
      EXPECT_TRUE(found) << page << ": no example contains\n" << block;
    }
  }
}

}  // namespace
}  // namespace tributary
