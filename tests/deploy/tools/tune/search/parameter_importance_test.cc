#include "deploy/tools/tune/search/parameter_importance.h"

#include <numeric>
#include <vector>

#include "absl/types/optional.h"
#include "deploy/tools/tune/search/search_file.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

// The space of make_importance_golden.py.
constexpr char kEveryKind[] = R"(
  parameter { path: "lr" number { low: 1e-4 high: 1e-1 log: true } }
  parameter { path: "drop" number { low: 0 high: 0.5 step: 0.05 } }
  parameter { path: "x" number { low: -1 high: 1 } }
  parameter { path: "width" integer { low: 16 high: 512 log: true } }
  parameter { path: "half" integer { low: 0 high: 64 step: 8 } }
  parameter { path: "many" integer { low: 1 high: 1000 } }
  parameter { path: "rule" choice { value: "sgd" value: "adam" } }
  parameter { path: "momentum" number { low: 0 high: 0.99 }
              when { path: "rule" value: "sgd" } }
  parameter { path: "beta" number { low: 0.9 high: 0.999 }
              when { path: "rule" value: "adam" } }
  parameter { path: "only" choice { value: "one" } }
)";

SearchSpace SpaceOf(const char* text) {
  return SearchSpace(*ParseSearch(text, "space"));
}

struct GoldenCase {
  std::vector<ScoredPoint> trials;
  std::vector<double> importances;
};

TEST(ParameterImportanceTest, EqualsThatOfOptuna) {
  const std::vector<GoldenCase> cases = {
#include "tests/deploy/tools/tune/search/importance_golden.inc"
  };
  const SearchSpace space = SpaceOf(kEveryKind);
  for (const GoldenCase& golden : cases) {
    const std::vector<double> found =
        ParameterImportances(space, golden.trials);
    ASSERT_EQ(found.size(), golden.importances.size());
    for (size_t i = 0; i < found.size(); ++i) {
      // Both sum up in double precision, in different orders.
      EXPECT_NEAR(found[i], golden.importances[i], 1e-9)
          << golden.trials.size() << " trials, " << space.parameter(i).path();
    }
  }
}

TEST(ParameterImportanceTest, FindsTheParameterThatDecides) {
  const SearchSpace space = SpaceOf(R"(
    parameter { path: "a" number { low: 0 high: 1 } }
    parameter { path: "b" number { low: 0 high: 1 } })");
  std::vector<ScoredPoint> trials;
  for (int i = 0; i < 100; ++i) {
    const double a = (i % 10) / 10.0 + 0.05;
    const double b = (i / 10) / 10.0 + 0.05;
    trials.push_back({{a, b}, (b - 0.5) * (b - 0.5)});
  }
  const std::vector<double> found = ParameterImportances(space, trials);
  EXPECT_GT(found[1], 0.9);
  EXPECT_NEAR(found[0] + found[1], 1, 1e-12);
}

TEST(ParameterImportanceTest, IsEqualWithoutADifference) {
  const SearchSpace space = SpaceOf(R"(
    parameter { path: "a" number { low: 0 high: 1 } }
    parameter { path: "b" number { low: 2 high: 2 } })");
  const std::vector<double> equal = {0.5, 0.5};
  EXPECT_EQ(ParameterImportances(space, {}), equal);
  EXPECT_EQ(ParameterImportances(space, {{{0.5, 2.0}, 1}}), equal);
  // All trials are the best ones.
  EXPECT_EQ(ParameterImportances(space, {{{0.1, 2.0}, 1}, {{0.9, 2.0}, 1}}),
            equal);
}

}  // namespace
}  // namespace tributary
