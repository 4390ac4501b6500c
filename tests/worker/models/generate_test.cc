#include "worker/models/generate.h"

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
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
}

TEST(DrawTokenTest, TopPKeepsTheSmallestLikeliestSet) {
  // Probabilities 0.5, 0.3, 0.15 and 0.05.
  const std::vector<float> logits = {std::log(0.15f), std::log(0.5f),
                                     std::log(0.05f), std::log(0.3f)};
  GenerateOptions options;
  options.temperature = 1;
  const auto drawn = [&](double top_p) {
    options.top_p = top_p;
    std::set<int> tokens;
    for (int i = 0; i < 1000; ++i) {
      tokens.insert(Draw(logits, options, i / 1000.0));
    }
    return tokens;
  };
  EXPECT_EQ(drawn(0.49), (std::set<int>{1}));
  EXPECT_EQ(drawn(0.51), (std::set<int>{1, 3}));
  EXPECT_EQ(drawn(0.79), (std::set<int>{1, 3}));
  EXPECT_EQ(drawn(0.81), (std::set<int>{0, 1, 3}));
  EXPECT_EQ(drawn(1), (std::set<int>{0, 1, 2, 3}));
  // 0.5 : 0.3 after the cut.
  options.top_p = 0.6;
  EXPECT_EQ(Draw(logits, options, 0.62), 1);
  EXPECT_EQ(Draw(logits, options, 0.63), 3);
  // After top_k, the probabilities are 0.625 and 0.375.
  options.top_k = 2;
  EXPECT_EQ(drawn(0.6), (std::set<int>{1}));
  EXPECT_EQ(drawn(0.63), (std::set<int>{1, 3}));
}

// A model of eight tokens in which token n + 1 follows token n.
absl::Status Next(absl::Span<const int32_t> tokens, absl::Span<float> logits) {
  for (float& logit : logits) logit = 0;
  logits[(tokens.back() + 1) % 8] = 100;
  return absl::OkStatus();
}

std::vector<int32_t> Generate(std::vector<int32_t> prompt,
                              const GenerateOptions& options,
                              size_t most = 100) {
  std::vector<int32_t> tokens;
  const absl::Status status = GenerateTokens(
      Next, /*vocabulary=*/8, std::move(prompt), options, [&](int32_t token) {
        tokens.push_back(token);
        return tokens.size() < most;
      });
  EXPECT_TRUE(status.ok()) << status;
  return tokens;
}

TEST(GenerateTokensTest, EndsAfterTheNumberOfTokens) {
  GenerateOptions options;
  options.tokens = 3;
  EXPECT_THAT(Generate({1, 5}, options), ElementsAre(6, 7, 0));
  options.tokens = 0;
  EXPECT_THAT(Generate({1}, options), ElementsAre());
}

TEST(GenerateTokensTest, EndsAtTheEndTokenAndWhenTheCallerHasEnough) {
  GenerateOptions options;
  options.end = 4;
  EXPECT_THAT(Generate({1}, options), ElementsAre(2, 3));
  EXPECT_THAT(Generate({4}, options, /*most=*/2), ElementsAre(5, 6));
}

TEST(GenerateTokensTest, DependsOnTheSeed) {
  const auto generate = [](uint64_t seed) {
    GenerateOptions options;
    options.temperature = 100;  // Nearly even.
    options.tokens = 40;
    options.seed = seed;
    return Generate({0}, options);
  };
  EXPECT_EQ(generate(1), generate(1));
  EXPECT_NE(generate(1), generate(2));
}

TEST(GenerateTokensTest, RefusesOptionsThatMakeNoSense) {
  const auto error = [](const std::function<void(GenerateOptions*)>& change) {
    GenerateOptions options;
    change(&options);
    const absl::Status status =
        GenerateTokens(Next, 8, {1}, options, [](int32_t) { return true; });
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(error([](GenerateOptions* o) { o->temperature = -1; }),
              HasSubstr("temperature is -1"));
  EXPECT_THAT(error([](GenerateOptions* o) { o->tokens = -1; }),
              HasSubstr("tokens is -1"));
  EXPECT_THAT(error([](GenerateOptions* o) { o->top_k = -1; }),
              HasSubstr("top_k is -1"));
  EXPECT_THAT(error([](GenerateOptions* o) { o->top_p = 0; }),
              HasSubstr("top_p is 0, expected above 0"));
}

TEST(GenerateTokensTest, PassesOnTheErrorOfTheModel) {
  const absl::Status status = GenerateTokens(
      [](absl::Span<const int32_t>, absl::Span<float>) {
        return absl::InternalError("the GPU failed");
      },
      8, {1}, GenerateOptions(), [](int32_t) { return true; });
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace tributary
