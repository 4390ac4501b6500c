#include "tests/library/install/installation.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace tributary {

std::string UnpackInstallation() {
  const std::string prefix = MakeTestFolder() + "/tributary";
  RunExpecting(
      0, {"/bin/bash", "-c",
          absl::StrCat("mkdir ", prefix,
                       " && tar -xf library/install/package.tar -C ", prefix)});
  return prefix;
}

CommandResult RunScript(const std::string& script, const std::string& folder,
                        const std::vector<std::string>& environment) {
  BackgroundCommand command(
      {"/bin/bash", "-ec", absl::StrCat("cd ", folder, "\n", script)},
      environment);
  return command.Wait(absl::Minutes(10));
}

std::vector<std::string> CodeBlocks(const std::string& page,
                                    const std::string& section,
                                    const std::string& language) {
  std::vector<std::string> blocks;
  bool in_section = false;
  std::string block_language;  // Empty outside of blocks.
  const std::string text = ReadWholeFile(page);
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (absl::StartsWith(line, "## ")) {
      in_section = line == section;
    } else if (!block_language.empty() && line == "```") {
      block_language.clear();
    } else if (block_language == "```" + language) {
      absl::StrAppend(&blocks.back(), line, "\n");
    } else if (in_section && absl::StartsWith(line, "```") &&
               block_language.empty()) {
      block_language = std::string(line);
      if (line == "```" + language) blocks.emplace_back();
    }
  }
  return blocks;
}

std::vector<std::string> BuildBlocks(const std::string& language) {
  return CodeBlocks("docs/cpp.md", "## Use it from your own build", language);
}

}  // namespace tributary
