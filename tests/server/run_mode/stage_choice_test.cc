#include "server/run_mode/stage_choice.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/os/process.h"
#include "common/pipeline/pipeline_timeline.h"
#include "common/pipeline/stage_balance.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Segments with a chunk and a layer each.
Ready ModelOf(const std::vector<double>& seconds) {
  Ready ready;
  for (size_t i = 0; i < seconds.size(); ++i) {
    const int number = static_cast<int>(i);
    StageSegment* const segment = ready.add_segment();
    segment->set_first_layer(absl::StrCat("l", i));
    segment->set_last_layer(absl::StrCat("l", i));
    segment->set_forward_seconds(seconds[i] / 2);
    segment->set_backward_input_seconds(seconds[i] / 4);
    segment->set_backward_weights_seconds(seconds[i] / 4);
    StageParameters* const parameters = segment->mutable_parameters();
    parameters->set_layer_begin(number);
    parameters->set_layer_end(number + 1);
    parameters->set_chunk_begin(number);
    parameters->set_chunk_end(number + 1);
    ChunkRange* const read = parameters->add_read_chunk();
    read->set_begin(number);
    read->set_end(number + 1);
  }
  return ready;
}

// What a worker of this speed says about the model.
Ready At(double speed, Ready model) {
  for (StageSegment& segment : *model.mutable_segment()) {
    segment.set_forward_seconds(segment.forward_seconds() / speed);
    segment.set_backward_input_seconds(segment.backward_input_seconds() /
                                       speed);
    segment.set_backward_weights_seconds(segment.backward_weights_seconds() /
                                         speed);
  }
  return model;
}

class StageChoiceTest : public testing::Test {
 protected:
  StageChoiceTest() { spec_.set_schedule(PipelineSpec::ONE_F_ONE_B); }

  void AddWorker(const Ready& report) {
    reports_.push_back(report);
    workers_.push_back(
        {absl::StrCat("worker ", workers_.size()), &reports_.back()});
  }

  absl::StatusOr<StageChoice> Choose(int stages, const Ready& model,
                                     int micro_batches = 16) {
    spec_.set_stages(stages);
    StageMap::Stages segments;
    for (const StageSegment& segment : model.segment()) {
      *segments.Add() = segment.parameters();
    }
    const StageMap map =
        *StageMap::Create(segments, static_cast<int>(segments.size()));
    return ChooseStages(spec_, StageAssignment(stages, micro_batches), map,
                        model, workers_);
  }

  // The first layers of the stages.
  static std::vector<int> Begins(const StageChoice& choice) {
    std::vector<int> begins;
    for (const StageParameters& stage : choice.stages.stages()) {
      begins.push_back(stage.layer_begin());
    }
    return begins;
  }

  PipelineSpec spec_;
  std::deque<Ready> reports_;
  std::vector<StageWorker> workers_;
};

TEST_F(StageChoiceTest, EqualWorkersGetEqualStages) {
  const Ready model = ModelOf(std::vector<double>(8, 1));
  // Measurements differ.
  AddWorker(At(1, model));
  AddWorker(At(1.1, model));
  const StageChoice choice = Choose(2, model).value();
  EXPECT_THAT(Begins(choice), ElementsAre(0, 4));
  EXPECT_THAT(choice.order, ElementsAre(0, 1));
  EXPECT_THAT(choice.table[0],
              AllOf(HasSubstr("stage 0: layers l0 to l3 on worker 0; "),
                    Not(HasSubstr("speed"))));
}

TEST_F(StageChoiceTest, ASlowWorkerGetsFewerLayers) {
  const Ready model = ModelOf(std::vector<double>(9, 1));
  AddWorker(At(0.5, model));
  AddWorker(At(1, model));
  const StageChoice choice = Choose(2, model).value();
  EXPECT_THAT(Begins(choice), ElementsAre(0, 3));
  // Both take 6 s for a micro-batch.
  EXPECT_THAT(choice.table,
              ElementsAre(AllOf(HasSubstr("l0 to l2 on worker 0 at 0.50 of"),
                                HasSubstr("; 6000.000 ms"),
                                HasSubstr("forward 3000.000, backward 1500.000 "
                                          "+ 1500.000")),
                          AllOf(HasSubstr("l3 to l8 on worker 1 at 1.00 of"),
                                HasSubstr("; 6000.000 ms"),
                                HasSubstr("expected step 102000.000 ms"))));
}

// Of a part of the layers, a worker may have measured nothing.
TEST_F(StageChoiceTest, AWorkerThatHasMeasuredNothingHasTheMeanSpeed) {
  const Ready model = ModelOf(std::vector<double>(9, 1));
  AddWorker(At(0.5, model));
  workers_.push_back({"worker 1", nullptr});
  AddWorker(At(0.5, model));
  EXPECT_THAT(Begins(*Choose(3, model)), ElementsAre(0, 3, 6));
}

TEST_F(StageChoiceTest, WithoutMeasurementsStagesHaveAsManySegments) {
  const Ready model = At(std::numeric_limits<double>::infinity(),
                         ModelOf(std::vector<double>(6, 1)));
  for (int i = 0; i < 2; ++i) AddWorker(model);
  const StageChoice choice = Choose(2, model).value();
  EXPECT_THAT(Begins(choice), ElementsAre(0, 3));
  EXPECT_THAT(choice.table[0], Not(HasSubstr(" ms ")));
}

TEST_F(StageChoiceTest, NamedStagesStayAsTheyAre) {
  Ready model = ModelOf({1, 5});
  spec_.add_split("l1");
  model.mutable_segment(1)->set_parameter_bytes(1000);
  model.set_memory_bytes(10);
  AddWorker(At(1, model));
  AddWorker(At(0.5, model));
  const StageChoice choice = Choose(2, model).value();
  EXPECT_THAT(Begins(choice), ElementsAre(0, 1));
  EXPECT_THAT(choice.table, ElementsAre(HasSubstr("stage 0: layers l0 to l0"),
                                        HasSubstr("stage 1: layers l1 to l1")));
}

// Two replicas of two stages. With workers of similar speed in each stage, one
// division suits both replicas; with fast and slow ones in turn, as they came,
// it would suit none.
TEST_F(StageChoiceTest, OrdersWorkersSuchThatOneDivisionSuitsAllReplicas) {
  const Ready model = ModelOf(std::vector<double>(9, 1));
  for (const double speed : {1.0, 0.5, 0.5, 1.0}) AddWorker(At(speed, model));
  const StageChoice choice = Choose(2, model, /*micro_batches=*/32).value();
  // In each replica, the slow worker has a third of the layers.
  const bool slow_first = Begins(choice)[1] == 3;
  EXPECT_EQ(Begins(choice)[1], slow_first ? 3 : 6);
  for (size_t place = 0; place < 4; ++place) {
    const bool slow = choice.order[place] == 1 || choice.order[place] == 2;
    EXPECT_EQ(slow, (place % 2 == 0) == slow_first) << place;
  }
}

TEST_F(StageChoiceTest, TheSlowestWorkersAreSpares) {
  const Ready model = ModelOf(std::vector<double>(8, 1));
  for (const double speed : {0.2, 1.0, 1.0}) AddWorker(At(speed, model));
  const StageChoice choice = Choose(2, model).value();
  EXPECT_THAT(Begins(choice), ElementsAre(0, 4));
  EXPECT_EQ(choice.order[2], 0u);
}

TEST_F(StageChoiceTest, StagesFitIntoTheMemoryOfTheirWorkers) {
  Ready model = ModelOf(std::vector<double>(8, 1));
  for (StageSegment& segment : *model.mutable_segment()) {
    segment.set_parameter_bytes(100);
  }
  model.set_memory_bytes(1000);
  AddWorker(model);
  model.set_memory_bytes(250);
  AddWorker(model);
  EXPECT_THAT(Begins(*Choose(2, model)), ElementsAre(0, 6));
  // Both share 1000 bytes.
  for (Ready& report : reports_) {
    report.set_memory_bytes(1000);
    report.set_memory_pool("host");
    report.mutable_segment(0)->set_parameter_bytes(300);
  }
  model.mutable_segment(0)->set_parameter_bytes(300);
  EXPECT_THAT(Begins(*Choose(2, model)), ElementsAre(0, 3));
  // The parts are not equal, but together they fit.
  model.mutable_segment(0)->set_parameter_bytes(800);
  EXPECT_TRUE(Choose(2, model).ok());
  model.mutable_segment(0)->set_parameter_bytes(1001);
  EXPECT_THAT(Choose(2, model),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("parallel.pipeline: "),
                             HasSubstr("stage 0"), HasSubstr("1 more"))));
}

// The time of the call does not grow with the orders of the workers, of which
// there are 120, also if stages do not fit into memory in any of them.
TEST_F(StageChoiceTest, TriesNoMoreOrdersAfterASecond) {
  Ready model = ModelOf(std::vector<double>(kMostSegments, 1));
  for (StageSegment& segment : *model.mutable_segment()) {
    segment.set_parameter_bytes(100000);
  }
  // The time in which other programs compute does not count.
  const auto seconds = [&](bool differ) {
    reports_.clear();
    workers_.clear();
    for (int i = 0; i < 5; ++i) {
      model.set_memory_bytes(differ ? 1000 * (1 + i) : 1000);
      AddWorker(model);
    }
    const double began = ThreadCpuSeconds();
    EXPECT_THAT(Choose(/*stages=*/64, model),
                StatusIs(absl::StatusCode::kResourceExhausted));
    return ThreadCpuSeconds() - began;
  };
  const double one = seconds(/*differ=*/false);
  const double all = seconds(/*differ=*/true);
  EXPECT_LT(all, 1.5 + 3 * one);
}

// The smallest predicted time of a step over all divisions, for one replica
// whose workers have the given speeds in the given order.
double BestStep(const std::vector<double>& seconds,
                const std::vector<double>& speeds, int micro_batches) {
  const int segments = static_cast<int>(seconds.size());
  const int stages = static_cast<int>(speeds.size());
  std::vector<bool> cut(segments - 1);
  std::fill_n(cut.begin(), stages - 1, true);
  double best = std::numeric_limits<double>::infinity();
  do {
    PipelineStep step;
    step.schedule = PipelineSchedule::kOneForwardOneBackward;
    step.micro_batches = micro_batches;
    step.stages.resize(stages);
    int stage = 0;
    for (int i = 0; i < segments; ++i) {
      PassSeconds& pass = step.stages[stage];
      const double time = seconds[i] / speeds[stage];
      pass.forward += time / 2;
      pass.backward_input += time / 4;
      pass.backward_weights += time / 4;
      if (i + 1 < segments && cut[i]) ++stage;
    }
    best = std::min(best, SimulatePipeline(step).seconds);
  } while (std::prev_permutation(cut.begin(), cut.end()));
  return best;
}

// Compares with all divisions and all orders of the workers.
TEST_F(StageChoiceTest, IsNearlyAlwaysTheBestOfAllDivisionsAndOrders) {
  std::mt19937 random(7);
  constexpr int kTrials = 120;
  int best = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    SCOPED_TRACE(trial);
    const int stages = 2 + static_cast<int>(random() % 3);
    std::vector<double> seconds(6 + random() % 5);
    for (double& second : seconds) second = 1 + random() % 8;
    reports_.clear();
    workers_.clear();
    std::vector<double> speeds;
    const Ready model = ModelOf(seconds);
    for (int i = 0; i < stages; ++i) {
      // Far enough apart to count as different.
      speeds.push_back(std::vector<double>{0.3, 0.5, 1}[random() % 3]);
      AddWorker(At(speeds.back(), model));
    }
    const StageChoice choice = Choose(stages, model).value();
    std::vector<double> chosen;
    for (const size_t worker : choice.order) chosen.push_back(speeds[worker]);
    std::vector<double> of_stages;
    const std::vector<int> begins = Begins(choice);
    std::vector<double> sums(stages);
    for (int s = 0; s < stages; ++s) {
      const int end =
          s + 1 < stages ? begins[s + 1] : static_cast<int>(seconds.size());
      sums[s] = std::accumulate(seconds.begin() + begins[s],
                                seconds.begin() + end, 0.0);
    }
    const double predicted = BestStep(sums, chosen, /*micro_batches=*/16);
    std::sort(speeds.begin(), speeds.end());
    double least = std::numeric_limits<double>::infinity();
    do {
      least = std::min(least, BestStep(seconds, speeds, /*micro_batches=*/16));
    } while (std::next_permutation(speeds.begin(), speeds.end()));
    EXPECT_GE(predicted, least * (1 - 1e-9));
    EXPECT_LE(predicted, least * 1.1);
    // Another order must be faster by a margin.
    if (predicted <= least * 1.021) ++best;
  }
  EXPECT_GE(best, kTrials * 9 / 10);
}

}  // namespace
}  // namespace tributary
