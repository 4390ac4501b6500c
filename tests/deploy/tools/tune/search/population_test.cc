#include "deploy/tools/tune/search/population.h"

#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "deploy/tools/tune/search/search_file.h"
#include "deploy/tools/tune/search/study_plan.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::AnyOf;
using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A search of a job with 40 steps, in generations of 10.
SearchSpec PopulationSearch(const std::string& parameters,
                            const std::string& settings) {
  const SearchSpec search = *ParseSearch(
      absl::StrCat(parameters,
                   "objective { metric: \"final_loss\" goal: MINIMIZE }"
                   "scheduler { population_based { every_steps: 10 ",
                   settings, " } }"),
      "search");
  EXPECT_EQ(ValidateSearch(search), absl::OkStatus());
  return search;
}

constexpr char kRate[] =
    "parameter { path: \"rate\" number { low: 1 high: 1000 log: true } }";

class PopulationTest : public testing::Test {
 protected:
  void Begin(const std::string& parameters, const std::string& settings) {
    search_ = PopulationSearch(parameters, settings);
    space_ = std::make_unique<SearchSpace>(search_);
    study_ = std::make_unique<Study>(
        *MakeStudyPlan(search_, /*steps=*/40, /*multiple=*/1, absl::nullopt));
    population_ = std::make_unique<Population>(search_, space_.get());
  }
  // Proposes a first generation, all with this value of the first parameter.
  void ProposeFirst(const SearchPoint& point) {
    while (TakesQueued(*study_)) {
      study_->Propose(point);
    }
  }
  // Reports a result for each member of a generation; NaN: it fails.
  void Report(int64_t generation, const std::vector<double>& values) {
    const std::vector<int64_t> trials = GenerationOf(*study_, generation);
    // In another order than that of the members.
    for (size_t m = values.size(); m-- > 0;) {
      ASSERT_TRUE(study_->closed() || !study_->MayPropose());
      if (std::isnan(values[m])) {
        study_->Fail(trials[m]);
      } else {
        study_->Report(trials[m], {{values[m]}, {}});
      }
    }
  }
  std::vector<Descendant> ProposeGeneration() {
    std::vector<Descendant> generation;
    for (int64_t m = 0; m < study_->plan().population; ++m) {
      EXPECT_TRUE(study_->MayPropose());
      generation.push_back(population_->Next(*study_));
      study_->Propose(generation.back().point, true, generation.back().parent);
    }
    return generation;
  }

  SearchSpec search_;
  std::unique_ptr<SearchSpace> space_;
  std::unique_ptr<Study> study_;
  std::unique_ptr<Population> population_;
};

TEST_F(PopulationTest, TheWorstContinueTheBestWithOtherValues) {
  Begin(kRate, "population: 8 resample_probability: 0");
  ProposeFirst({100});
  EXPECT_FALSE(study_->MayPropose());
  // A quarter, two members, is replaced: 1 and 6, by 2 and 5.
  Report(0, {5, 9, 1, 6, 4, 2, 8, 7});
  const std::vector<Descendant> next = ProposeGeneration();
  for (const int64_t m : {0, 2, 3, 4, 5, 7}) {
    EXPECT_EQ(next[m].parent, m);
    EXPECT_THAT(next[m].point, ElementsAre(100));
  }
  for (const int64_t m : {1, 6}) {
    EXPECT_THAT(next[m].parent, AnyOf(2, 5));
    EXPECT_THAT(*next[m].point[0], AnyOf(DoubleEq(80), DoubleEq(125)));
  }
  EXPECT_EQ(study_->trials()[9].parent, next[1].parent);
  EXPECT_EQ(study_->Startable()[0].steps, 20);
}

TEST_F(PopulationTest, EqualResultsAreOrderedByMember) {
  Begin(kRate, "population: 4");
  ProposeFirst({100});
  Report(0, {3, 3, 3, 3});
  const std::vector<Descendant> next = ProposeGeneration();
  EXPECT_EQ(next[2].parent, 2);
  EXPECT_EQ(next[3].parent, 0);
}

TEST_F(PopulationTest, FailedMembersAreReplacedByTheBest) {
  Begin(kRate, "population: 6 quantile: 0.34");
  ProposeFirst({100});
  Report(0, {NAN, 3, NAN, NAN, 2, NAN});
  const std::vector<Descendant> next = ProposeGeneration();
  EXPECT_EQ(next[1].parent, 1);
  EXPECT_EQ(next[4].parent, 4);
  for (const int64_t m : {0, 2, 3, 5}) {
    EXPECT_THAT(next[m].parent, AnyOf(1, 4));
  }
}

TEST_F(PopulationTest, EndsIfAllMembersHaveFailed) {
  Begin(kRate, "population: 3");
  ProposeFirst({100});
  Report(0, {NAN, NAN, NAN});
  EXPECT_TRUE(study_->Done());
  EXPECT_THAT(study_->Best(), IsEmpty());
}

TEST_F(PopulationTest, OnlyTheLastGenerationIsComplete) {
  Begin(kRate, "population: 4");
  ProposeFirst({100});
  Report(0, {1, 2, 3, 4});
  for (int64_t g = 1; g < 4; ++g) {
    ASSERT_FALSE(study_->Done());
    ProposeGeneration();
    EXPECT_TRUE(MayBeContinued(*study_, 4 * (g - 1)));
    Report(g, {10.0 * g, 9.0 * g, 8.0 * g, 7.0 * g});
    EXPECT_FALSE(MayBeContinued(*study_, 4 * (g - 1)));
  }
  EXPECT_TRUE(study_->Done());
  EXPECT_EQ(study_->size(), 16);
  // Trial 0 has a better result, after fewer steps.
  EXPECT_THAT(study_->Best(), ElementsAre(15));
  EXPECT_EQ(study_->plan().StepsOf(16), 160);
}

TEST_F(PopulationTest, TrialsOfOtherProgramsAreNoMembers) {
  Begin(kRate, "population: 2");
  study_->AddForeign();
  ProposeFirst({100});
  study_->AddForeign();
  EXPECT_THAT(GenerationOf(*study_, 0), ElementsAre(1, 2));
  EXPECT_FALSE(TakesQueued(*study_));
  Report(0, {2, 1});
  EXPECT_EQ(population_->Next(*study_).parent, 2);
}

TEST_F(PopulationTest, LineagesListTheValuesByStep) {
  Begin(kRate, "population: 2 resample_probability: 0");
  ProposeFirst({100});
  Report(0, {2, 1});
  ProposeGeneration();
  Report(1, {1, 2});
  ProposeGeneration();
  // Trial 4 continues trial 2, which has continued trial 1.
  const std::vector<LineagePart> lineage = LineageOf(*study_, 4);
  ASSERT_EQ(lineage.size(), 2u);
  EXPECT_EQ(lineage[0].first_step, 1);
  EXPECT_EQ(lineage[0].last_step, 10);
  EXPECT_THAT(lineage[0].point, ElementsAre(100));
  EXPECT_EQ(lineage[1].first_step, 11);
  EXPECT_EQ(lineage[1].last_step, 30);
  EXPECT_EQ(LineageOf(*study_, 1).size(), 1u);
}

// Lets 500 populations of two replace a member, and returns its points.
std::set<SearchPoint> Replacements(const std::string& parameters,
                                   const std::string& settings,
                                   const SearchPoint& point) {
  std::set<SearchPoint> points;
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    SearchSpec search =
        PopulationSearch(parameters, "population: 2 " + settings);
    search.set_seed(seed);
    const SearchSpace space(search);
    Study study(*MakeStudyPlan(search, 40, 1, absl::nullopt));
    study.Propose(point);
    study.Propose(point);
    study.Report(0, {{2}, {}});
    study.Report(1, {{1}, {}});
    points.insert(Population(search, &space).Next(study).point);
    EXPECT_TRUE(space.Contains(*points.begin()));
  }
  return points;
}

TEST(PerturbationTest, MultipliesNumbersAndKeepsTheirRange) {
  const std::string number = "resample_probability: 0 factor: 0.5 factor: 2";
  EXPECT_THAT(Replacements(kRate, number, {100}),
              ElementsAre(SearchPoint{50}, SearchPoint{200}));
  EXPECT_THAT(Replacements(kRate, number, {600}),
              ElementsAre(SearchPoint{300}, SearchPoint{1000}));
}

TEST(PerturbationTest, KeepsTheDistanceOfNeighboringValues) {
  const std::string none = "resample_probability: 0";
  EXPECT_THAT(
      Replacements("parameter { path: \"n\" integer { low: 8 high: 80 step: 8 "
                   "} }",
                   none, {40}),
      ElementsAre(SearchPoint{32}, SearchPoint{48}));
  // A step, because 1.25 * 2 is nearer to 2 than to 4.
  EXPECT_THAT(
      Replacements("parameter { path: \"n\" integer { low: 0 high: 8 step: 2 } "
                   "}",
                   none, {2}),
      ElementsAre(SearchPoint{0}, SearchPoint{4}));
  EXPECT_THAT(
      Replacements("parameter { path: \"x\" number { low: 0 high: 0.5 step: "
                   "0.25 } }",
                   none, {0.25}),
      ElementsAre(SearchPoint{0}, SearchPoint{0.5}));
}

TEST(PerturbationTest, TakesANeighborOfAChoice) {
  const std::string four =
      "parameter { path: \"c\" choice { value: \"a\" value: \"b\" value: \"c\" "
      "value: \"d\" } }";
  const std::string none = "resample_probability: 0";
  EXPECT_THAT(Replacements(four, none, {2}),
              ElementsAre(SearchPoint{1}, SearchPoint{3}));
  EXPECT_THAT(Replacements(four, none, {3}), ElementsAre(SearchPoint{2}));
  EXPECT_THAT(Replacements("parameter { path: \"c\" choice { value: \"a\" } }",
                           none, {0}),
              ElementsAre(SearchPoint{0}));
}

TEST(PerturbationTest, ResamplesWithItsProbability) {
  EXPECT_EQ(Replacements(kRate, "resample_probability: 1", {100}).size(), 500u);
  // 500 draws: 125 expected, with a standard deviation below 10.
  const size_t some = Replacements(kRate, "", {100}).size();
  EXPECT_GT(some, 75u);
  EXPECT_LT(some, 175u);
}

TEST(PerturbationTest, AParameterBecomesActiveWithARandomValue) {
  const std::set<SearchPoint> points = Replacements(
      R"(parameter { path: "rule" choice { value: "a" value: "b" } }
         parameter { path: "x" number { low: 0 high: 1 }
                     when { path: "rule" value: "b" } })",
      "resample_probability: 0", {0, absl::nullopt});
  EXPECT_EQ(points.size(), 500u);
  for (const SearchPoint& point : points) EXPECT_EQ(point[0], 1);
}

}  // namespace
}  // namespace tributary
