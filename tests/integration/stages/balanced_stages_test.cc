// Stages that are balanced for a slow and a fast worker have the bits of the
// undivided job.
#include <cstdint>
#include <fstream>
#include <memory>
#include <regex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/job/job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/integration/stages/stages_fixture.h"
#include "tests/support/local_cluster.h"
#include "worker/training/training_setup.h"

namespace tributary {
namespace {

using ::testing::SizeIs;

// A line of the table of stages.
struct StageLine {
  int layers = 0;
  int worker = -1;
  double speed = 0;  // Relative to the fastest worker.
  int64_t step = -1;
};

class BalancedStagesTest : public StagesFixture {
 protected:
  int NumberOf(const std::string& layer) const {
    for (size_t i = 0; i < graph_->nodes().size(); ++i) {
      if (graph_->nodes()[i].name == layer) return static_cast<int>(i);
    }
    ADD_FAILURE() << "no layer " << layer;
    return 0;
  }

  // Returns the table that the run in `folder` has printed.
  std::vector<StageLine> TableOf(const std::string& folder) const {
    static const std::regex* const form = new std::regex(
        "stage \\d+: layers (\\S+) to (\\S+) on worker (\\d+) \\(.*\\) at "
        "([0-9.]+) of the highest speed; .* ms for a micro-batch .*");
    std::vector<StageLine> table;
    std::ifstream file(folder + "/events.jsonl");
    for (std::string line; std::getline(file, line);) {
      const nlohmann::json event = nlohmann::json::parse(line);
      if (event["kind"] != "stage") continue;
      const std::string message = event["message"];
      std::smatch parts;
      if (!std::regex_match(message, parts, *form)) {
        ADD_FAILURE() << message;
        continue;
      }
      table.push_back({NumberOf(parts[2]) + 1 - NumberOf(parts[1]),
                       std::stoi(parts[3]), std::stod(parts[4]),
                       event["step"].get<int64_t>()});
    }
    return table;
  }

  std::unique_ptr<Graph> graph_ = std::make_unique<Graph>(
      (*TrainingSetup::Create(ResolveJob(job_), /*threads=*/1))
          ->BuildGraph()
          .value());
};

TEST_P(BalancedStagesTest, ASlowWorkerGetsFewerLayersAndTheBitsStay) {
  const Result whole = Run(/*workers=*/1);
  Set("parallel.pipeline={ stages: 2 }");
  for (const bool all_reduce : {false, true}) {
    SCOPED_TRACE(all_reduce ? "all-reduce" : "parameter server");
    if (all_reduce) Set("exchange.all_reduce={}");
    const std::string folder = NewFolder();
    LocalCluster cluster(job_, /*servers=*/1, /*expected_workers=*/2, folder);
    cluster.StartWorker();
    // Slower than any other program makes the first worker.
    cluster.StartSlowWorker(/*slowness=*/20);
    EXPECT_TRUE(ResultOf(&cluster) == whole);
    const std::vector<StageLine> table = TableOf(folder);
    ASSERT_THAT(table, SizeIs(2));
    const int slow = table[0].speed < table[1].speed ? 0 : 1;
    EXPECT_LT(table[slow].speed, 0.5);
    EXPECT_EQ(table[1 - slow].speed, 1);
    EXPECT_LT(2 * table[slow].layers, table[1 - slow].layers);
    EXPECT_EQ(table[0].layers + table[1].layers,
              static_cast<int>(graph_->nodes().size()));
    EXPECT_NE(table[0].worker, table[1].worker);
    for (const StageLine& line : table) EXPECT_EQ(line.step, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, BalancedStagesTest, testing::Values("gpt"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace tributary
