#include "common/text/nearest.h"

#include <string>

#include "gtest/gtest.h"

namespace tributary {
namespace {

TEST(NearestTest, CountsInsertionsDeletionsAndReplacements) {
  EXPECT_EQ(EditDistance("", ""), 0);
  EXPECT_EQ(EditDistance("abc", ""), 3);
  EXPECT_EQ(EditDistance("", "abc"), 3);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3);
  EXPECT_EQ(EditDistance("Steps", "steps"), 0);
}

TEST(NearestTest, KnowsShortFormsAndFurtherWords) {
  EXPECT_EQ(NameDistance("lr", "learning_rate"), 1);
  EXPECT_EQ(NameDistance("eps", "Epsilon"), 1);
  EXPECT_EQ(NameDistance("max_steps", "steps"), 2);
  EXPECT_EQ(NameDistance("batch_size", "batch"), 2);
  EXPECT_EQ(NameDistance("steps", "steps"), 0);
  EXPECT_EQ(NameDistance("e", "epsilon"), 6);
  EXPECT_EQ(NameDistance("maxsteps", "steps"), 3);
  EXPECT_EQ(Nearest("lr", {"momentum", "learning_rate"}), "learning_rate");
  EXPECT_EQ(Nearest("worker", {"worker-command", "workers"}), "workers");
}

TEST(NearestTest, FindsWhatWasMeant) {
  EXPECT_EQ(Nearest("wokers", {"servers", "workers", "steps"}), "workers");
  EXPECT_EQ(DidYouMean("wokers", {"workers"}), "; did you mean workers?");
}

TEST(NearestTest, SaysNothingWhenNothingIsNear) {
  EXPECT_EQ(Nearest("xyz", {"servers", "workers"}), "");
  EXPECT_EQ(Nearest("xyz", {}), "");
  EXPECT_EQ(DidYouMean("xyz", {"workers"}), "");
  EXPECT_EQ(Nearest(std::string(1000000, 'w'), {"workers"}), "");
}

}  // namespace
}  // namespace tributary
