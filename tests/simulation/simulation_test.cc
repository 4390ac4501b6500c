// A few of the histories that `simulate` runs in large numbers, and tests of
// the checker itself.
#include <cstdint>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/simulation/history.h"
#include "tests/simulation/jobs/scenario.h"

namespace tributary::simulation {
namespace {

using ::testing::HasSubstr;

HistoryResult Simulate(uint64_t seed, const Sabotage& sabotage = {},
                       Jobs jobs = Jobs::kAll) {
  HistoryOptions options;
  options.seed = seed;
  options.jobs = jobs;
  options.sabotage = sabotage;
  options.folder = FastFolder();
  return RunHistory(options);
}

void ExpectAllHold(uint64_t seed) {
  EXPECT_EQ(Simulate(seed).violation, "")
      << "replay: simulate --seed " << seed << " --histories 1 --trace";
}

void ExpectAllHoldInPipeline(uint64_t seed) {
  EXPECT_EQ(Simulate(seed, {}, Jobs::kPipelines).violation, "")
      << "replay: simulate --seed " << seed
      << " --histories 1 --pipelines --trace";
}

void ExpectAllHoldWithTables(uint64_t seed) {
  EXPECT_EQ(Simulate(seed, {}, Jobs::kTables).violation, "")
      << "replay: simulate --seed " << seed
      << " --histories 1 --tables --trace";
}

TEST(SimulationTest, AllPropertiesHoldInEveryHistory) {
  for (uint64_t seed = 1; seed <= 300; ++seed) ExpectAllHold(seed);
}

TEST(SimulationTest, AllPropertiesHoldInPipelines) {
  for (uint64_t seed = 1; seed <= 100; ++seed) ExpectAllHoldInPipeline(seed);
}

TEST(SimulationTest, AllPropertiesHoldWithTables) {
  for (uint64_t seed = 1; seed <= 60; ++seed) ExpectAllHoldWithTables(seed);
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

// Returns a seed whose job evaluates and has a result that does not depend on
// timing.
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

TEST(SimulationTest, FindsOneWrongGradientInAPipeline) {
  Sabotage sabotage;
  sabotage.wrong_gradient = true;
  EXPECT_THAT(Simulate(1, sabotage, Jobs::kPipelines).violation,
              HasSubstr("P2"));
}

TEST(SimulationTest, FindsOneWrongGradientWithTables) {
  Sabotage sabotage;
  sabotage.wrong_gradient = true;
  EXPECT_THAT(Simulate(1, sabotage, Jobs::kTables).violation, HasSubstr("P2"));
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

// Regression tests for faults that simulated histories have found; the comment
// describes the fault. A change of the simulator changes the histories of its
// seeds.

// The callback of a snapshot used the writer during the writer's destruction.
TEST(SimulationRegressionTest, AServerEndsWithASnapshotStillQueued) {
  ExpectAllHold(710);
  ExpectAllHold(1225);
}

// The server received the order that the job is done.
TEST(SimulationRegressionTest, AServerEnlistsAfterTheAttemptHasFailed) {
  ExpectAllHold(431);
}

// Each coordinator had some of the servers and waited for the others.
TEST(SimulationRegressionTest, TwoCoordinatorsShareTheServers) {
  ExpectAllHold(214);
  ExpectAllHold(318);
}

// The worker looked for the servers for as long as in a running job.
TEST(SimulationRegressionTest, AWorkerConnectsWhenTheJobIsDone) {
  ExpectAllHold(11364);
}

// The other coordinator had removed the checkpoint.
TEST(SimulationRegressionTest, ACheckpointVanishesBeforeServersReadIt) {
  ExpectAllHold(16299);
}

// The coordinator was paused between the last step and reading the model. It
// then read the model from servers that had joined the other coordinator.
TEST(SimulationRegressionTest, AnOvertakenCoordinatorReadsTheModel) {
  ExpectAllHold(3237);
  ExpectAllHold(13451);
}

// The worker repeated the step before the last weights in an endless loop.
TEST(SimulationRegressionTest, AJobIsFinishedBeforeAWorkerHasTheLastWeights) {
  ExpectAllHold(48802);
}

// No checkpoint could be written, including the last one. The coordinator
// failed when all steps were done and the other server had ended.
TEST(SimulationRegressionTest, AFullDiskAndADeathWhileSayingGoodbye) {
  ExpectAllHold(72380);
}

// The server had removed the version that the all-reduce began with. The worker
// ended with an error instead of waiting for the next attempt.
TEST(SimulationRegressionTest, AWorkerJoinsAnAllReduceLate) {
  ExpectAllHold(300061);
  ExpectAllHold(300106);
  ExpectAllHold(300131);
  ExpectAllHold(300239);
}

// The other members waited ten minutes for its connection.
TEST(SimulationRegressionTest, AMemberIsLostBeforeItConnects) {
  ExpectAllHold(300118);
  ExpectAllHold(300157);
  ExpectAllHold(300221);
}

// It destroyed messages in flight before it aborted the mesh.
TEST(SimulationRegressionTest, AnAllReduceCannotSendItsNumbers) {
  ExpectAllHold(307350);
}

// Its transfers of the step were refused at once, again and again, until the
// next weights arrived.
TEST(SimulationRegressionTest, AStepIsCompleteBeforeAStageHasTheNextWeights) {
  ExpectAllHoldInPipeline(2);
  ExpectAllHoldInPipeline(12);
}

// The worker ended the step in the new assignment, too, and never repeated it.
TEST(SimulationRegressionTest, AStageEndsItsTaskInTheNextAssignment) {
  ExpectAllHoldInPipeline(1534);
  ExpectAllHoldInPipeline(1733);
}

// The workers of both attempts had the same incarnations. The receiver refused
// the secret, and the sender ended with an error.
TEST(SimulationRegressionTest, AStageSendsToAWorkerOfTheNextAttempt) {
  ExpectAllHoldInPipeline(399);
  ExpectAllHoldInPipeline(1215);
  ExpectAllHoldInPipeline(1394);
}

// A stage had learned that the evaluation was complete and skipped it, while
// the next stage waited for its values.
TEST(SimulationRegressionTest, AnEvaluationIsCompleteBeforeAllStagesBeginIt) {
  ExpectAllHold(102734);
}

// Each stage waited for another one, while parts of gradients filled queues.
TEST(SimulationRegressionTest, PartsOfGradientsArriveLate) {
  ExpectAllHoldInPipeline(329);
}

// A server without chunks refused the rows of an earlier assignment.
TEST(SimulationRegressionTest, AWorkerIsReassignedBeforeItSendsItsRows) {
  ExpectAllHoldWithTables(17);
  ExpectAllHoldWithTables(91);
}

}  // namespace
}  // namespace tributary::simulation
