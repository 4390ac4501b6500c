// Some of the histories that `simulate` runs by the thousand, and the checker's
// own tests.
#include <cstdint>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/simulation/history.h"
#include "tests/simulation/world/scenario.h"

namespace tributary::simulation {
namespace {

using ::testing::HasSubstr;

HistoryResult Simulate(uint64_t seed, const Sabotage& sabotage = {}) {
  HistoryOptions options;
  options.seed = seed;
  options.sabotage = sabotage;
  options.folder = FastFolder();
  return RunHistory(options);
}

void ExpectAllHold(uint64_t seed) {
  EXPECT_EQ(Simulate(seed).violation, "")
      << "replay: simulate --seed " << seed << " --histories 1 --trace";
}

TEST(SimulationTest, AllPropertiesHoldInEveryHistory) {
  for (uint64_t seed = 1; seed <= 300; ++seed) ExpectAllHold(seed);
}

TEST(SimulationTest, ASeedDecidesEverything) {
  for (uint64_t seed = 1000; seed < 1020; ++seed) {
    const HistoryResult once = Simulate(seed);
    const HistoryResult again = Simulate(seed);
    EXPECT_EQ(once.hash, again.hash) << seed;
    EXPECT_EQ(once.events, again.events) << seed;
    EXPECT_EQ(once.updates, again.updates) << seed;
  }
}

// Of a job whose result does not depend on timing, and which evaluates.
uint64_t OrderedSeed(uint64_t from) {
  while (!MakeScenario(from).ordered() ||
         MakeScenario(from).facts.evaluation_pieces() == 0) {
    ++from;
  }
  return from;
}

TEST(SimulationTest, FindsOneWrongGradient) {
  Sabotage sabotage;
  sabotage.wrong_gradient = true;
  EXPECT_THAT(Simulate(OrderedSeed(1), sabotage).violation, HasSubstr("P2"));
  EXPECT_THAT(Simulate(OrderedSeed(50), sabotage).violation, HasSubstr("P2"));
}

TEST(SimulationTest, FindsAnUpdateThatCountsTwice) {
  Sabotage sabotage;
  sabotage.counted_twice = true;
  EXPECT_THAT(Simulate(1, sabotage).violation, HasSubstr("P1"));
}

TEST(SimulationTest, FindsAJobThatHangs) {
  Sabotage sabotage;
  sabotage.lost_evaluation = true;
  const std::string violation = Simulate(OrderedSeed(1), sabotage).violation;
  EXPECT_THAT(violation, HasSubstr("P5"));
  EXPECT_THAT(violation, HasSubstr("evaluating"));
}

// What simulated histories have found, each by one of the seeds that did.

// The callback of a snapshot used the writer while this was being destroyed.
TEST(SimulationRegressionTest, AServerEndsWithASnapshotStillQueued) {
  ExpectAllHold(710);
  ExpectAllHold(1225);
}

// It was told that the job is done.
TEST(SimulationRegressionTest, AServerEnlistsAfterTheAttemptHasFailed) {
  ExpectAllHold(431);
}

// Each had some of the servers, and waited for the others.
TEST(SimulationRegressionTest, TwoCoordinatorsShareTheServers) {
  ExpectAllHold(214);
  ExpectAllHold(318);
}

// It looked for servers for as long as for those of a job that is not done.
TEST(SimulationRegressionTest, AWorkerConnectsWhenTheJobIsDone) {
  ExpectAllHold(11364);
}

// The other coordinator had removed it.
TEST(SimulationRegressionTest, ACheckpointVanishesBeforeServersReadIt) {
  ExpectAllHold(16299);
}

// It had stood still between the last step and reading the model, and read it
// from servers that had gone over to the other.
TEST(SimulationRegressionTest, AnOvertakenCoordinatorReadsTheModel) {
  ExpectAllHold(3237);
  ExpectAllHold(13451);
}

// It took the step before the last weights again and again, without a pause.
TEST(SimulationRegressionTest, AJobIsFinishedBeforeAWorkerHasTheLastWeights) {
  ExpectAllHold(48802);
}

// No checkpoint could be made, the last one neither; the coordinator died when
// all was computed and the other server had ended.
TEST(SimulationRegressionTest, AFullDiskAndADeathWhileSayingGoodbye) {
  ExpectAllHold(72380);
}

}  // namespace
}  // namespace tributary::simulation
