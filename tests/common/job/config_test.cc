#include "common/job/config.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::StartsWith;

constexpr char kField[] = "model.external.config";

TEST(ConfigTest, ReturnsMembersOrTheirDefaults) {
  Config config(kField,
                R"({"rank": 8, "rate": 0.5, "whole": 2, "bias": false,
                    "kind": "wide", "hidden": [32, 16], "none": []})");
  EXPECT_EQ(config.Integer("rank", 1, 1, 8), 8);
  EXPECT_EQ(config.Integer("depth", 3, 1, 8), 3);
  EXPECT_EQ(config.Number("rate", 1, 0, 1), 0.5);
  EXPECT_EQ(config.Number("whole", 1, 0, 2), 2);
  EXPECT_EQ(config.Number("decay", 0.25, 0, 1), 0.25);
  EXPECT_FALSE(config.Flag("bias", true));
  EXPECT_TRUE(config.Flag("tied", true));
  EXPECT_EQ(config.Text("kind", "narrow"), "wide");
  EXPECT_EQ(config.Text("name", "none"), "none");
  EXPECT_THAT(config.Integers("hidden", {}, 1, 32), ElementsAre(32, 16));
  EXPECT_THAT(config.Integers("none", {1}, 1, 32), ElementsAre());
  EXPECT_THAT(config.Integers("strides", {2}, 1, 32), ElementsAre(2));
  EXPECT_TRUE(config.CheckAllRead().ok()) << config.CheckAllRead();
}

TEST(ConfigTest, NamesTheFirstValueThatDoesNotFit) {
  const struct {
    const char* json;
    void (*read)(Config*);
    const char* message;
  } kCases[] = {
      {R"({"a": 9})", [](Config* c) { EXPECT_EQ(c->Integer("a", 3, 1, 8), 3); },
       "a is 9"},
      {R"({"a": 1.5})", [](Config* c) { c->Integer("a", 3, 1, 8); },
       "a is 1.5"},
      {R"({"a": 18446744073709551615})",
       [](Config* c) { c->Integer("a", 3, -8, 8); },
       "a is 18446744073709551615"},
      {R"({"a": "1"})", [](Config* c) { c->Number("a", 0, 0, 0.5); },
       "a is \"1\", expected a number from 0 to 0.5"},
      {R"({"a": 0})", [](Config* c) { c->Flag("a", true); }, "a is 0"},
      {R"({"a": true})", [](Config* c) { c->Text("a", ""); }, "a is true"},
      {R"({"a": [1, 9]})", [](Config* c) { c->Integers("a", {}, 1, 8); },
       "a is [1,9]"},
      {R"({"a": 1})", [](Config* c) { c->Integers("a", {}, 1, 8); }, "a is 1"},
      {R"({"a": {"b": 1}})", [](Config* c) { c->Integers("a", {}, 1, 8); },
       "a is {\"b\":1}"},
      {"[1]", [](Config*) {}, ""},
      {"{", [](Config*) {}, ""},
  };
  for (const auto& test : kCases) {
    Config config(kField, test.json);
    test.read(&config);
    config.Flag("another", false);
    EXPECT_THAT(config.status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         StartsWith(absl::StrCat(kField, ": ", test.message))))
        << test.json;
    EXPECT_EQ(config.CheckAllRead(), config.status());
  }
}

TEST(ConfigTest, NamesAMemberThatWasNotRead) {
  Config config(kField, R"({"rnak": 8})");
  config.Integer("rank", 1, 1, 8);
  EXPECT_TRUE(config.status().ok());
  EXPECT_THAT(config.CheckAllRead(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       ContainsRegex("^model.external.config: .*rnak.*rank")));
}

TEST(ConfigTest, AProgramMayParseTheTextItself) {
  Config config(kField, R"({"rank": 8})");
  EXPECT_EQ(config.json(), R"({"rank": 8})");
  EXPECT_TRUE(config.CheckAllRead().ok());
}

}  // namespace
}  // namespace tributary
