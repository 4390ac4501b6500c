#include "common/base/json.h"

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

TEST(JsonTest, ParsesValues) {
  EXPECT_EQ(ParseJson(R"({"step":3})")["step"], 3);
}

TEST(JsonTest, KeepsTheOrderOfMembersWhereAsked) {
  constexpr char kText[] = R"({"b":1,"a":2})";
  EXPECT_EQ(ParseOrderedJson(kText).dump(), kText);
  EXPECT_EQ(ParseJson(kText).dump(), R"({"a":2,"b":1})");
}

TEST(JsonTest, DiscardsWhatIsNotJson) {
  for (const char* text : {"", "{", "{\"step\":3} and more"}) {
    EXPECT_TRUE(ParseJson(text).is_discarded()) << text;
    EXPECT_TRUE(ParseOrderedJson(text).is_discarded()) << text;
    EXPECT_FALSE(ParseJson(text).is_object()) << text;
  }
}

}  // namespace
}  // namespace tributary
