// Proposals, decisions and the best trial of a search do not depend on when
// results arrive.
#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <vector>

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

// Successive halving that promotes with the results that have arrived (Li et
// al., 2020), as a reference for the time that slots are idle.
struct Asynchronous {
  double seconds = 0;
  double busy_seconds = 0;
};

Asynchronous SimulateAsynchronous(const SearchSpec& search, int64_t trials,
                                  const SimulationOptions& options) {
  const SearchSpace space(search);
  const PointSampler sampler = *PointSampler::Create(search, &space);
  const std::vector<int64_t> rungs = {1, 3, 9, 27};
  std::vector<std::vector<std::pair<double, int64_t>>> done(4);
  std::vector<std::set<int64_t>> promoted(4);
  std::multimap<double, std::pair<int64_t, int>> running;
  Asynchronous outcome;
  int64_t next = 0;
  const auto start = [&](int64_t trial, int rung) {
    const int64_t steps = rungs[rung] - (rung == 0 ? 0 : rungs[rung - 1]);
    const double seconds = steps * SecondsOfStep(options, trial);
    outcome.busy_seconds += seconds;
    running.insert({outcome.seconds + seconds, {trial, rung}});
  };
  const auto start_one = [&] {
    for (int rung = 2; rung >= 0; --rung) {
      std::sort(done[rung].begin(), done[rung].end());
      for (size_t i = 0; i < done[rung].size() / 3; ++i) {
        const int64_t trial = done[rung][i].second;
        if (!promoted[rung].insert(trial).second) continue;
        start(trial, rung + 1);
        return true;
      }
    }
    if (next == trials) return false;
    start(next++, 0);
    return true;
  };
  while (true) {
    while (static_cast<int>(running.size()) < options.parallel && start_one()) {
    }
    if (running.empty()) return outcome;
    outcome.seconds = running.begin()->first;
    const auto [trial, rung] = running.begin()->second;
    running.erase(running.begin());
    done[rung].push_back(
        {SimulatedResult(sampler.Propose(trial), rungs[rung]).values[0],
         trial});
  }
}

// Ordered promotion waits for trials that have entered a rung before. It
// computes fewer steps than asynchronous halving, which promotes some trials
// too early, so idle slots are compared by the time of the whole search.
TEST(IdleTimeTest, TakesAtMostFivePercentLongerThanAsynchronousHalving) {
  constexpr int64_t kTrials = 270;
  constexpr int kSeeds = 40;
  const SearchSpec search =
      SearchWith("budget { trials: 270 } scheduler { successive_halving {} }");
  for (const int parallel : {4, 16}) {
    double ordered = 0, asynchronous = 0;
    for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
      SimulationOptions options;
      options.parallel = parallel;
      options.speed_seed = seed;
      ordered += Simulate(search, options).seconds;
      asynchronous += SimulateAsynchronous(search, kTrials, options).seconds;
    }
    EXPECT_LE(ordered, 1.05 * asynchronous) << parallel << " slots";
  }
}

}  // namespace
}  // namespace tributary
