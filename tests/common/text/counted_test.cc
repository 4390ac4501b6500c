#include "common/text/counted.h"

#include "gtest/gtest.h"

namespace tributary {
namespace {

TEST(CountedTest, OnlyOneIsSingular) {
  EXPECT_EQ(Counted(0, "column"), "0 columns");
  EXPECT_EQ(Counted(1, "column"), "1 column");
  EXPECT_EQ(Counted(2, "column"), "2 columns");
}

TEST(CountedTest, TakesAnotherPlural) {
  EXPECT_EQ(Counted(0, "leaf", "leaves"), "0 leaves");
  EXPECT_EQ(Counted(1, "leaf", "leaves"), "1 leaf");
  EXPECT_EQ(Counted(3, "leaf", "leaves"), "3 leaves");
}

}  // namespace
}  // namespace tributary
