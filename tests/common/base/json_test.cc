#include "common/base/json.h"

#include <string>
#include <utility>

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

std::string Nested(int depth, const std::string& open,
                   const std::string& close) {
  std::string text;
  for (int i = 0; i < depth; ++i) text += open;
  text += "1";
  for (int i = 0; i < depth; ++i) text += close;
  return text;
}

// A value of depth 100,000 overflows the stack when it is copied or printed.
TEST(JsonTest, DiscardsTextThatIsNestedTooDeeply) {
  for (const auto& [open, close] :
       {std::pair<const char*, const char*>{"[", "]"},
        {"{\"a\":", "}"},
        {"[\"\\\"]\",", "]"}}) {
    SCOPED_TRACE(open);
    const std::string deepest = Nested(kMaxJsonDepth, open, close);
    nlohmann::json accepted = ParseJson(deepest);
    EXPECT_EQ(nlohmann::json(accepted).dump(), deepest);
    for (const int depth : {kMaxJsonDepth + 1, 100000}) {
      const std::string text = Nested(depth, open, close);
      EXPECT_TRUE(nlohmann::json(ParseJson(text)).is_discarded());
      EXPECT_EQ(ParseOrderedJson(text).dump(), "<discarded>");
    }
    // Without its end, as in a line that a crash has cut.
    EXPECT_TRUE(
        ParseJson(Nested(100000, open, close).substr(0, 90000)).is_discarded());
  }
}

TEST(JsonTest, BracketsInTextAreNotNested) {
  const std::string brackets(1000, '[');
  EXPECT_EQ(ParseJson("[\"" + brackets + "\\\"[\"]")[0], brackets + "\"[");
}

}  // namespace
}  // namespace tributary
