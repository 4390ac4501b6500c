#include "deploy/launch/slurm/node_list.h"

#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

TEST(NodeListTest, ExpandsNamesRangesAndWidths) {
  EXPECT_THAT(*ExpandNodeList("gpu07"), ElementsAre("gpu07"));
  EXPECT_THAT(*ExpandNodeList("n[0-2,5],gpu07"),
              ElementsAre("n0", "n1", "n2", "n5", "gpu07"));
  EXPECT_THAT(*ExpandNodeList("n[08-11]"),
              ElementsAre("n08", "n09", "n10", "n11"));
  EXPECT_THAT(*ExpandNodeList("a,b-1,c[3]"), ElementsAre("a", "b-1", "c3"));
}

TEST(NodeListTest, ExpandsSeveralRangesAndTextAfterThem) {
  EXPECT_THAT(*ExpandNodeList("r[1-2]n[0-1]"),
              ElementsAre("r1n0", "r1n1", "r2n0", "r2n1"));
  EXPECT_THAT(*ExpandNodeList("n[1-2].example.org"),
              ElementsAre("n1.example.org", "n2.example.org"));
}

TEST(NodeListTest, RefusesMalformedLists) {
  for (const char* list : {"",
                           ",",
                           "n1,",
                           ",n1",
                           "n[",
                           "n]",
                           "n[]",
                           "n[1",
                           "n1]",
                           "n[1-]",
                           "n[-1]",
                           "n[2-1]",
                           "n[1-2-3]",
                           "n[a]",
                           "n[1,,2]",
                           "n[[1]]",
                           "n 1",
                           "(null)",
                           "n[1-9999999999]",
                           "n[0-99999999]",
                           "[1-300]x[1-300]"}) {
    const auto names = ExpandNodeList(list);
    EXPECT_THAT(names.status(), StatusIs(absl::StatusCode::kInvalidArgument,
                                         HasSubstr("is not a list of Slurm")))
        << list;
  }
}

TEST(NodeListTest, ExpandsCounts) {
  EXPECT_THAT(*ExpandNodeCounts("4"), ElementsAre(4));
  EXPECT_THAT(*ExpandNodeCounts("2(x3),1"), ElementsAre(2, 2, 2, 1));
  EXPECT_THAT(*ExpandNodeCounts("1(x1000)"), SizeIs(1000));
}

TEST(NodeListTest, RefusesMalformedCounts) {
  for (const char* list : {"", "x", "2(x", "2(x3", "2(3)", "2(x3)1", "2,,1",
                           "-1", "1(x-1)", "1(x99999999)", "2(x3)(x2)"}) {
    EXPECT_THAT(ExpandNodeCounts(list).status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("is not a list of numbers")))
        << list;
  }
}

}  // namespace
}  // namespace tributary
