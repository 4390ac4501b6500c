// Holds the source tree and docs/internals to rooms.txt, its folders, files
// and classes to a size in which a reader finds things, and its pages to links
// that lead somewhere.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/structure/class_check.h"
#include "tests/structure/hidden_names.h"
#include "tests/structure/markdown_pages.h"
#include "tests/structure/rooms_map.h"

namespace tributary {
namespace {

namespace fs = std::filesystem;
using ::testing::IsEmpty;

constexpr int kMaxFiles = 30;
constexpr int kMaxLines = 700;
constexpr int kMaxClassLines = 450;
constexpr int kMaxMethods = 25;

// Files of classes that are still too large, or that have no home of their own
// yet.
const char* const kExemptFiles[] = {
    "worker/exchange/mesh/nccl_mesh.cc",
    "worker/exchange/parameter_server/server_connection.h",
    "worker/state/work_state.h",
    "worker/training/training_setup.h",
    // Users' programs include these under their names.
    "worker/nn/layers/activation.h",
    "worker/nn/layers/loss.h",
    "worker/nn/layers/pool.h",
};

// Removes the sentences about exempt files; a sentence begins with its file.
std::vector<std::string> WithoutExempt(std::vector<std::string> errors) {
  const auto is_exempt = [](const std::string& error) {
    return std::any_of(
        std::begin(kExemptFiles), std::end(kExemptFiles),
        [&error](const char* file) { return absl::StartsWith(error, file); });
  };
  errors.erase(std::remove_if(errors.begin(), errors.end(), is_exempt),
               errors.end());
  return errors;
}

std::string ReadFile(const fs::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// The test's data are links into the source tree.
fs::path RepositoryRoot() {
  const fs::path workspace =
      fs::path(std::getenv("TEST_SRCDIR")) / "tributary" / "WORKSPACE";
  return fs::canonical(workspace).parent_path();
}

std::vector<SourceFile> ReadSources(const std::vector<std::string>& folders) {
  const fs::path root = RepositoryRoot();
  std::vector<SourceFile> files;
  for (const std::string& folder : folders) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      const std::string extension = entry.path().extension();
      if (extension != ".h" && extension != ".cc" && extension != ".cu") {
        continue;
      }
      files.push_back({fs::relative(entry.path(), root), ReadFile(entry)});
    }
  }
  return files;
}

// The pages of the source tree, except those in hidden folders and in what
// Bazel has written.
MarkdownPages ReadPages() {
  const fs::path root = RepositoryRoot();
  MarkdownPages pages;
  for (auto entry = fs::recursive_directory_iterator(root);
       entry != fs::recursive_directory_iterator(); ++entry) {
    const std::string name = entry->path().filename();
    if (entry->is_directory() &&
        (name[0] == '.' || name.rfind("bazel-", 0) == 0)) {
      entry.disable_recursion_pending();
    } else if (entry->path().extension() == ".md") {
      pages[fs::relative(entry->path(), root)] = ReadFile(entry->path());
    }
  }
  return pages;
}

absl::StatusOr<RoomsMap> ReadRoomsMap() {
  return ParseRoomsMap(
      ReadFile(RepositoryRoot() / "tests/structure/rooms.txt"));
}

TEST(StructureTest, IncludesFollowTheArrows) {
  const absl::StatusOr<RoomsMap> map = ReadRoomsMap();
  ASSERT_TRUE(map.ok()) << map.status();
  const std::vector<SourceFile> files = ReadSources(
      {"common", "server", "worker", "deploy", "library", "include"});
  ASSERT_GT(files.size(), 500u);
  EXPECT_THAT(CheckIncludes(*map, files), IsEmpty());
  EXPECT_THAT(FindCycle(*map), IsEmpty());
}

TEST(StructureTest, TheTableOfRoomsFollowsTheArrows) {
  const absl::StatusOr<RoomsMap> map = ReadRoomsMap();
  ASSERT_TRUE(map.ok()) << map.status();
  EXPECT_THAT(CheckRoomsTable(
                  *map, ReadFile(RepositoryRoot() / "docs/internals/rooms.md")),
              IsEmpty());
}

TEST(StructureTest, NoFileHidesNamesFromItsNeighbours) {
  EXPECT_THAT(FindHiddenNames(ReadSources({"common", "server", "worker",
                                           "deploy", "library", "tests"})),
              IsEmpty());
}

TEST(StructureTest, FoldersAndFilesStaySmall) {
  EXPECT_THAT(CheckSizes(ReadSources({"common", "server", "worker", "deploy",
                                      "library", "include", "tests"}),
                         kMaxFiles, kMaxLines),
              IsEmpty());
}

TEST(StructureTest, NoTypeIsDefinedTwice) {
  EXPECT_THAT(
      FindRepeatedTypes(ReadSources({"common", "server", "worker", "deploy",
                                     "library", "include", "tests"})),
      IsEmpty());
}

TEST(StructureTest, ClassesStaySmallAndLiveInOnePairOfFiles) {
  const std::vector<SourceFile> files = ReadSources(
      {"common", "server", "worker", "deploy", "library", "include"});
  EXPECT_THAT(
      WithoutExempt(CheckClassSizes(files, kMaxClassLines, kMaxMethods)),
      IsEmpty());
  EXPECT_THAT(WithoutExempt(CheckClassHomes(files)), IsEmpty());
}

TEST(StructureTest, PagesHaveNoBrokenLinks) {
  const MarkdownPages pages = ReadPages();
  ASSERT_GT(pages.size(), 30u);
  EXPECT_THAT(CheckPages(pages,
                         [](const std::string& path) {
                           return fs::exists(RepositoryRoot() / path);
                         }),
              IsEmpty());
}

}  // namespace
}  // namespace tributary
