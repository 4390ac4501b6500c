#include "worker/models/generate.h"

#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/model_harness.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

std::vector<float> Logits(float value) {
  return std::vector<float>(256, value);
}

int Draw(const std::vector<float>& logits, const GenerateOptions& options,
         double uniform) {
  const absl::StatusOr<int> token = DrawToken(logits, options, uniform);
  EXPECT_TRUE(token.ok()) << token.status();
  return token.ok() ? *token : -1;
}

TEST(DrawTokenTest, ZeroTemperatureTakesTheLikeliest) {
  std::vector<float> logits = Logits(0);
  logits[65] = 1;
  GenerateOptions options;
  options.temperature = 0;
  for (const double uniform : {0.0, 0.5, 0.999999}) {
    EXPECT_EQ(Draw(logits, options, uniform), 65);
  }
}

TEST(DrawTokenTest, EqualLogitsShareTheInterval) {
  GenerateOptions options;
  options.temperature = 1;
  EXPECT_EQ(Draw(Logits(3), options, 0), 0);
  EXPECT_EQ(Draw(Logits(3), options, 0.5), 128);
  EXPECT_EQ(Draw(Logits(3), options, std::nextafter(1.0, 0.0)), 255);
}

TEST(DrawTokenTest, FollowsTheProbabilities) {
  std::vector<float> logits = Logits(-1000);
  logits[10] = std::log(3.0f);
  logits[20] = 0;
  GenerateOptions options;
  options.temperature = 1;
  EXPECT_EQ(Draw(logits, options, 0.74), 10);
  EXPECT_EQ(Draw(logits, options, 0.76), 20);
  // Half the temperature squares the odds: 9 to 1.
  options.temperature = 0.5;
  EXPECT_EQ(Draw(logits, options, 0.89), 10);
  EXPECT_EQ(Draw(logits, options, 0.91), 20);
}

TEST(DrawTokenTest, TopKKeepsTheLikeliest) {
  std::vector<float> logits = Logits(0);
  logits[7] = 0.2f;
  logits[9] = 0.1f;
  GenerateOptions options;
  options.top_k = 2;
  std::set<int> drawn;
  for (int i = 0; i < 100; ++i) drawn.insert(Draw(logits, options, i / 100.0));
  EXPECT_EQ(drawn, (std::set<int>{7, 9}));
  options.top_k = 1000;
  EXPECT_EQ(Draw(logits, options, 0.9999), 255);
}

TEST(DrawTokenTest, SurvivesLargeLogits) {
  std::vector<float> logits = Logits(-3e38f);
  logits[5] = 3e38f;
  GenerateOptions options;
  EXPECT_EQ(Draw(logits, options, 0.99), 5);
}

TEST(DrawTokenTest, RefusesDamagedLogits) {
  std::vector<float> logits = Logits(0);
  logits[3] = std::numeric_limits<float>::quiet_NaN();
  const absl::Status status =
      DrawToken(logits, GenerateOptions(), 0.5).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("not a number"));
}

class GenerateTextTest : public testing::Test {
 protected:
  GenerateTextTest()
      : harness_(ParseModel("gpt { layers: 1 heads: 2 width: 16 context: 8 }"),
                 TokenInfo(8, 256), 1) {}

  absl::StatusOr<std::string> Generate(const std::string& prompt,
                                       const GenerateOptions& options) {
    return GenerateText(harness_.model(), harness_.weights(), prompt, options);
  }

  ModelHarness harness_;
};

TEST_F(GenerateTextTest, IsAFunctionOfSeedAndPrompt) {
  GenerateOptions options;
  options.bytes = 40;  // More than the context.
  const absl::StatusOr<std::string> text = Generate("abc", options);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(text->size(), 40u);
  EXPECT_EQ(*Generate("abc", options), *text);
  options.seed = 2;
  EXPECT_NE(*Generate("abc", options), *text);
}

TEST_F(GenerateTextTest, ShorterTextIsABeginning) {
  GenerateOptions options;
  options.bytes = 20;
  const std::string text = *Generate("x", options);
  options.bytes = 5;
  EXPECT_EQ(*Generate("x", options), text.substr(0, 5));
  options.bytes = 0;
  EXPECT_EQ(*Generate("x", options), "");
}

TEST_F(GenerateTextTest, EmptyPromptIsTheStartOfALine) {
  GenerateOptions options;
  options.bytes = 10;
  EXPECT_EQ(*Generate("", options), *Generate("\n", options));
}

TEST_F(GenerateTextTest, TakesAnyBytesAndLongPrompts) {
  GenerateOptions options;
  options.bytes = 3;
  EXPECT_TRUE(Generate(std::string(100, '\xff'), options).ok());
}

TEST_F(GenerateTextTest, RefusesOptionsThatMakeNoSense) {
  GenerateOptions options;
  options.temperature = -1;
  EXPECT_THAT(std::string(Generate("", options).status().message()),
              HasSubstr("temperature is -1"));
  options = GenerateOptions();
  options.bytes = -1;
  EXPECT_THAT(std::string(Generate("", options).status().message()),
              HasSubstr("bytes is -1"));
  options = GenerateOptions();
  options.top_k = -1;
  EXPECT_THAT(std::string(Generate("", options).status().message()),
              HasSubstr("top_k is -1"));
}

TEST(GenerateOtherModelsTest, RefusesThem) {
  ModelHarness harness(ParseModel("mlp { hidden: 4 }"), RowInfo(3, 2), 1);
  EXPECT_EQ(
      GenerateText(harness.model(), harness.weights(), "", GenerateOptions())
          .status()
          .code(),
      absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace tributary
