#include "common/optimizer/update_recipe.h"

#include <cmath>
#include <limits>
#include <string>

#include "common/job/job.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(GradientScaleTest, DividesByTheWeightAndClipsTheNorm) {
  EXPECT_EQ(GradientScale(4, 0, 100), 0.25f);
  EXPECT_EQ(GradientScale(4, 1, 0.5), 0.25f);
  // PyTorch adds 1e-6 to the norm.
  EXPECT_NEAR(GradientScale(4, 1, 2), 0.125f, 1e-6);
  EXPECT_FLOAT_EQ(GradientScale(1, 1, 1e9), 1e-9f);
  EXPECT_TRUE(std::isnan(GradientScale(1, 1, kNan)));
}

JobSpec RecipeJob(const std::string& fields) {
  JobSpec job;
  for (const std::string& field :
       {std::string("optimizer={sgd {learning_rate: 0.5}}"),
        std::string("schedule={warmup_steps: 4}"), fields}) {
    EXPECT_EQ(SetField(&job, field), absl::OkStatus());
  }
  return job;
}

TEST(UpdateRecipeTest, AStatedRateTakesThePlaceOfTheSchedule) {
  const UpdateRecipe recipe(RecipeJob(""), /*steps=*/10,
                            /*statistics_rate=*/0.1);
  EXPECT_EQ(recipe.At(1, 8, 0, /*learning_rate=*/0.125).learning_rate, 0.125);
  EXPECT_EQ(recipe.At(1, 8, 0, /*learning_rate=*/0.0).learning_rate, 0);
}

TEST(UpdateRecipeTest, DividesClipsAndFollowsTheSchedule) {
  const UpdateRecipe recipe(RecipeJob("clip_norm=1"), /*steps=*/10,
                            /*statistics_rate=*/0.1);
  const UpdateStep step =
      recipe.At(/*number=*/1, /*sample_count=*/8, /*norm=*/2);
  EXPECT_EQ(step.gradient_scale, GradientScale(8, 1, 2));
  EXPECT_EQ(step.statistics_scale, 0.0125f);
  EXPECT_EQ(step.learning_rate, 0.25);
  EXPECT_EQ(step.number, 1);
  EXPECT_TRUE(recipe.clips());
}

TEST(UpdateRecipeTest, ABatchOfNothingCountsAsOneSample) {
  const UpdateRecipe recipe(RecipeJob("clip_norm=0"), /*steps=*/10,
                            /*statistics_rate=*/0.1);
  const UpdateStep step =
      recipe.At(/*number=*/5, /*sample_count=*/0, /*norm=*/0);
  EXPECT_EQ(step.gradient_scale, 1);
  EXPECT_EQ(step.statistics_scale, 0.1f);
  EXPECT_FALSE(recipe.clips());
}

TEST(UpdateRecipeTest, SkipsStepsWithoutAFiniteNormWhereTheJobSaysSo) {
  const UpdateRecipe stops(RecipeJob("on_nonfinite=STOP"), /*steps=*/10,
                           /*statistics_rate=*/0.1);
  const UpdateRecipe skips(RecipeJob("on_nonfinite=SKIP"), /*steps=*/10,
                           /*statistics_rate=*/0.1);
  EXPECT_FALSE(stops.Skips(kNan));
  EXPECT_TRUE(skips.Skips(kNan));
  EXPECT_FALSE(skips.Skips(1));
}

}  // namespace
}  // namespace tributary
