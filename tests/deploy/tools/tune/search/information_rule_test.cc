// Proposals, decisions and the best trial of a search do not depend on when
// results arrive.
#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/deploy/tools/tune/search/simulated_search.h"

namespace tributary {
namespace {

void ExpectSame(const SimulationOutcome& a, const SimulationOutcome& b) {
  EXPECT_EQ(a.points, b.points);
  EXPECT_EQ(a.parents, b.parents);
  EXPECT_EQ(a.best, b.best);
  ASSERT_EQ(a.results.size(), b.results.size());
  for (size_t t = 0; t < a.results.size(); ++t) {
    ASSERT_EQ(a.results[t].size(), b.results[t].size()) << "trial " << t;
    for (size_t r = 0; r < a.results[t].size(); ++r) {
      EXPECT_EQ(a.results[t][r].values, b.results[t][r].values);
    }
  }
}

class InformationRuleTest : public testing::TestWithParam<const char*> {};

// Speeds with sigma 1.2 differ by more than ten.
TEST_P(InformationRuleTest, ResultIsTheSameForEachParallelAndSpeed) {
  const SearchSpec search = SearchWith(GetParam());
  const SimulationOutcome one = Simulate(search, {});
  ASSERT_FALSE(one.best.empty());
  for (const int parallel : {1, 2, 4}) {
    for (uint64_t seed = 1; seed <= 10; ++seed) {
      SimulationOptions options;
      options.parallel = parallel;
      options.sigma = 1.2;
      options.speed_seed = seed;
      ExpectSame(Simulate(search, options), one);
    }
  }
}

TEST_P(InformationRuleTest, ResultIsTheSameAfterAKillAtEachOfFiftyMoments) {
  const SearchSpec search = SearchWith(GetParam());
  const SimulationOutcome one = Simulate(search, {});
  std::mt19937_64 random(7);
  for (int i = 0; i < 50; ++i) {
    SimulationOptions options;
    options.parallel = 4;
    options.sigma = 1.2;
    options.speed_seed = i + 1;
    options.kill_after = 1 + random() % one.events;
    ExpectSame(Simulate(search, options), one);
  }
}

TEST_P(InformationRuleTest, FailedTrialsKeepTheResultTheSame) {
  const SearchSpec search = SearchWith(GetParam());
  SimulationOptions options;
  options.fail_every = 4;
  const SimulationOutcome one = Simulate(search, options);
  ASSERT_FALSE(one.best.empty());
  options.parallel = 4;
  options.sigma = 1.2;
  ExpectSame(Simulate(search, options), one);
}

TEST_P(InformationRuleTest, ComputesNoStepTwice) {
  const SearchSpec search = SearchWith(GetParam());
  SimulationOptions options;
  options.parallel = 4;
  const SimulationOutcome outcome = Simulate(search, options);
  SimulationOptions one;
  EXPECT_EQ(outcome.steps, Simulate(search, one).steps);
}

INSTANTIATE_TEST_SUITE_P(
    Searches, InformationRuleTest,
    testing::Values(
        "sampler { random {} } budget { trials: 30 }",
        "sampler { sobol {} } budget { trials: 27 }"
        " scheduler { successive_halving {} }",
        "sampler { random {} } budget { trials: 44 } scheduler { hyperband {} "
        "}",
        "sampler { random {} } budget { trials: 30 } lookahead: 4"
        " scheduler { median_stopping { every_steps: 3 } }",
        "sampler { random {} } budget { steps: 400 } lookahead: 4"
        " scheduler { median_stopping { every_steps: 3 } }",
        "sampler { optuna {} } budget { trials: 30 } lookahead: 4",
        "sampler { optuna {} } budget { trials: 60 } lookahead: 4"
        " scheduler { successive_halving {} }",
        "sampler { optuna {} } budget { trials: 60 } lookahead: 5"
        " scheduler { hyperband {} }",
        "sampler { grid {} } scheduler { successive_halving { rungs: 3 } }",
        "scheduler { population_based { every_steps: 4 } }"));

TEST(LookaheadTest, ProposalsThatLearnDependOnTheLookahead) {
  const std::string lines = "sampler { optuna {} } budget { trials: 12 }";
  EXPECT_NE(Simulate(SearchWith(lines + " lookahead: 1"), {}).points,
            Simulate(SearchWith(lines + " lookahead: 4"), {}).points);
}

// The counter-proof of the simulation: with more slots than the lookahead,
// slots remain free instead of changing the result.
TEST(LookaheadTest, LimitsHowManyTrialsRun) {
  const SearchSpec search =
      SearchWith("sampler { optuna {} } budget { trials: 40 } lookahead: 2");
  SimulationOptions options;
  options.sigma = 0;
  options.parallel = 2;
  const SimulationOutcome two = Simulate(search, options);
  options.parallel = 8;
  const SimulationOutcome eight = Simulate(search, options);
  EXPECT_EQ(eight.seconds, two.seconds);
  ExpectSame(eight, two);
}

TEST(HalvingStepsTest, ComputesTheStepsOfTheRungs) {
  const SearchSpec search =
      SearchWith("budget { trials: 27 } scheduler { successive_halving {} }");
  for (const int parallel : {1, 4, 16}) {
    SimulationOptions options;
    options.parallel = parallel;
    const SimulationOutcome outcome = Simulate(search, options);
    // 27 trials of 1 step, 9 of 2 more, 3 of 6 more and 1 of 18 more.
    EXPECT_EQ(outcome.steps, 81);
    EXPECT_EQ(outcome.best.size(), 1u);
  }
}

// Successive halving that promotes with the results that have arrived, as a
// reference for the time that slots are idle: asynchronous halving (Li et al.,
// 2020), or `exact`, which promotes as many trials as ordered promotion does.
struct Reference {
  double seconds = 0;
  int64_t steps = 0;
};

class ReferenceSimulation {
 public:
  ReferenceSimulation(const SearchSpec& search, int64_t trials, bool exact,
                      const SimulationOptions& options)
      : space_(search),
        sampler_(*PointSampler::Create(search, &space_)),
        trials_(trials),
        exact_(exact),
        options_(options) {}

  Reference Run() {
    while (true) {
      while (static_cast<int>(running_.size()) < options_.parallel &&
             StartOne()) {
      }
      if (running_.empty()) return outcome_;
      outcome_.seconds = running_.begin()->first;
      const auto [trial, rung] = running_.begin()->second;
      running_.erase(running_.begin());
      done_[rung].insert(
          {SimulatedResult(sampler_.Propose(trial), kRungs[rung]).values[0],
           trial});
    }
  }

 private:
  static constexpr int64_t kRungs[] = {1, 3, 9, 27};

  // Starts a segment if one may start.
  bool StartOne() {
    for (int rung = 2; rung >= 0; --rung) {
      const size_t third = done_[rung].size() / 3;
      if (exact_ && promoted_[rung].size() == third) continue;
      size_t rank = 0;
      for (const auto& [result, trial] : done_[rung]) {
        if (!exact_ && rank++ == third) break;
        if (!promoted_[rung].insert(trial).second) continue;
        Start(trial, rung + 1);
        return true;
      }
    }
    if (next_ == trials_) return false;
    Start(next_++, 0);
    return true;
  }

  void Start(int64_t trial, int rung) {
    const int64_t steps = kRungs[rung] - (rung == 0 ? 0 : kRungs[rung - 1]);
    outcome_.steps += steps;
    running_.insert({outcome_.seconds + steps * SecondsOfStep(options_, trial),
                     {trial, rung}});
  }

  const SearchSpace space_;
  const PointSampler sampler_;
  const int64_t trials_;
  const bool exact_;
  const SimulationOptions options_;
  std::set<std::pair<double, int64_t>> done_[4];  // Results and trials.
  std::set<int64_t> promoted_[4];
  std::multimap<double, std::pair<int64_t, int>> running_;  // By their ends.
  int64_t next_ = 0;
  Reference outcome_;
};

struct IdleCase {
  int64_t trials;
  int parallel;
  double most;  // Time relative to asynchronous halving.
};

class IdleTimeTest : public testing::TestWithParam<IdleCase> {};

// Ordered promotion waits for trials that have entered a rung before.
// Asynchronous halving computes more steps, because it promotes some trials too
// early, so idle slots are compared by the time of the whole search.
TEST_P(IdleTimeTest, OrderCostsLittleTime) {
  const IdleCase& param = GetParam();
  // Of the speeds and of the trials' values.
  const uint64_t seeds = param.trials < 100 ? 400 : 40;
  double ordered = 0, asynchronous = 0, exact = 0;
  int64_t steps = 0, steps_of_asynchronous = 0;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    const SearchSpec search = SearchWith(
        absl::StrCat("seed: ", seed, " budget { trials: ", param.trials,
                     " } scheduler { successive_halving {} }"));
    SimulationOptions options;
    options.parallel = param.parallel;
    options.speed_seed = seed;
    const SimulationOutcome outcome = Simulate(search, options);
    ordered += outcome.seconds;
    steps += outcome.steps;
    const Reference reference =
        ReferenceSimulation(search, param.trials, /*exact=*/false, options)
            .Run();
    asynchronous += reference.seconds;
    steps_of_asynchronous += reference.steps;
    exact += ReferenceSimulation(search, param.trials, /*exact=*/true, options)
                 .Run()
                 .seconds;
  }
  RecordProperty("time_of_asynchronous", absl::StrCat(ordered / asynchronous));
  RecordProperty("time_of_exact", absl::StrCat(ordered / exact));
  RecordProperty("steps_of_asynchronous",
                 absl::StrCat(static_cast<double>(steps_of_asynchronous) /
                              static_cast<double>(steps)));
  EXPECT_LE(ordered, param.most * asynchronous);
  EXPECT_LE(ordered, 1.05 * exact);
}

INSTANTIATE_TEST_SUITE_P(
    Searches, IdleTimeTest,
    testing::Values(IdleCase{27, 4, 1.05}, IdleCase{27, 16, 1.06},
                    IdleCase{81, 4, 1.05}, IdleCase{81, 16, 1.05},
                    IdleCase{270, 4, 1.05}, IdleCase{270, 16, 1.05},
                    IdleCase{1000, 4, 1.05}, IdleCase{1000, 16, 1.05}));

}  // namespace
}  // namespace tributary
