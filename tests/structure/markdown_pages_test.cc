#include "tests/structure/markdown_pages.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

bool NoFile(const std::string&) { return false; }

TEST(MarkdownPagesTest, AnchorsAreGitHubs) {
  EXPECT_EQ(HeadingAnchor(" Who can open it"), "who-can-open-it");
  EXPECT_EQ(HeadingAnchor("Predicting a cluster: `tributary plan`"),
            "predicting-a-cluster-tributary-plan");
  EXPECT_EQ(HeadingAnchor("See [the page](page.md), 2"), "see-the-page-2");
}

TEST(MarkdownPagesTest, AcceptsLinksToFilesAndHeadings) {
  const MarkdownPages pages = {
      {"README.md",
       "# Title\n[a](docs/a.md#part-one), [b](#title), ![c](docs/c.png)\n"
       "[other host](https://example.org/none#here)"},
      {"docs/a.md", "## Part one\n[up](../README.md) and [folder](../common)"},
  };
  EXPECT_THAT(CheckPages(pages,
                         [](const std::string& path) {
                           return path == "docs/c.png" || path == "common";
                         }),
              IsEmpty());
}

TEST(MarkdownPagesTest, NamesMissingFilesAndHeadings) {
  EXPECT_THAT(
      CheckPages({{"docs/a.md", "## One\n[x](b.md)\n[y](#two) [z](#one)"},
                  {"docs/c.md", "[y](a.md#three)"}},
                 NoFile),
      ElementsAre("docs/a.md:2: no file b.md", "docs/a.md:3: no heading #two",
                  "docs/c.md:1: no heading a.md#three"));
}

TEST(MarkdownPagesTest, NamesMergeConflicts) {
  EXPECT_THAT(
      CheckPages({{"a.md", "<<<<<<< HEAD\none\n=======\ntwo\n>>>>>>> other"}},
                 NoFile),
      ElementsAre("a.md:1: a merge conflict", "a.md:3: a merge conflict",
                  "a.md:5: a merge conflict"));
}

TEST(MarkdownPagesTest, IgnoresCode) {
  EXPECT_THAT(CheckPages({{"a.md",
                           "`[x](none)`\n```sh\n# comment\n[y](none)\n```\n"
                           "[z](#comment)"}},
                         NoFile),
              ElementsAre("a.md:6: no heading #comment"));
}

}  // namespace
}  // namespace tributary
