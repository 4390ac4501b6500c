#include "deploy/launch/slurm/slurm_placement.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Allocation Nodes(const std::vector<int>& tasks) {
  Allocation allocation;
  allocation.job_id = 4711;
  for (size_t i = 0; i < tasks.size(); ++i) {
    AllocatedNode node;
    node.name = "n" + std::to_string(i);
    node.tasks = tasks[i];
    allocation.nodes.push_back(node);
  }
  return allocation;
}

std::vector<int> NodesOfWorkers(const SlurmPlacement& placement) {
  std::vector<int> nodes;
  for (const WorkerPlace& place : placement.workers) {
    nodes.push_back(place.node);
  }
  return nodes;
}

std::vector<int> NodesOfServers(const SlurmPlacement& placement) {
  std::vector<int> nodes;
  for (const ServerPlace& place : placement.servers) {
    nodes.push_back(place.node);
  }
  return nodes;
}

TEST(SlurmPlacementTest, HasOneWorkerPerTaskAndOneServerPerNode) {
  const auto placement = PlaceProcesses(Nodes({2, 1, 2}), {});
  ASSERT_TRUE(placement.ok()) << placement.status();
  EXPECT_THAT(NodesOfWorkers(*placement), ElementsAre(0, 0, 1, 2, 2));
  EXPECT_EQ(placement->workers[1].local_rank, 1);
  EXPECT_EQ(placement->workers[2].local_rank, 0);
  EXPECT_THAT(NodesOfServers(*placement), ElementsAre(0, 1, 2));
  EXPECT_EQ(placement->servers[0].port, 20000 + 8 * 711);
  EXPECT_EQ(placement->WorkersOn(2), 2);
  EXPECT_EQ(placement->ServersOn(2), 1);
}

TEST(SlurmPlacementTest, SpreadsFewerWorkersOverTheNodes) {
  PlacementRequest request;
  request.fewest_workers = request.most_workers = 2;
  const auto placement = PlaceProcesses(Nodes({4, 4, 4}), request);
  ASSERT_TRUE(placement.ok()) << placement.status();
  EXPECT_THAT(NodesOfWorkers(*placement), ElementsAre(0, 1));
  // A server beside each worker, and none elsewhere.
  EXPECT_THAT(NodesOfServers(*placement), ElementsAre(0, 1));
}

TEST(SlurmPlacementTest, GivesTheServersOfANodeDifferentPorts) {
  PlacementRequest request;
  request.servers = 16;
  request.port = 30000;
  const auto placement = PlaceProcesses(Nodes({1, 1}), request);
  ASSERT_TRUE(placement.ok()) << placement.status();
  std::set<std::pair<int, int>> places;
  for (const ServerPlace& place : placement->servers) {
    EXPECT_GE(place.port, 30000);
    EXPECT_LT(place.port, 30000 + kSlurmPorts);
    places.insert({place.node, place.port});
  }
  EXPECT_EQ(places.size(), 16);
  request.port = 0;
  EXPECT_EQ(PlaceProcesses(Nodes({1, 1}), request)->servers[5].port, 0);
}

TEST(SlurmPlacementTest, DerivesDifferentPortsForNeighbouringJobs) {
  std::set<int> ports;
  for (int64_t job = 123456; job < 124456; ++job) {
    const int port = FirstPort(job);
    EXPECT_GE(port, 20000);
    EXPECT_LE(port + kSlurmPorts, 28000);
    ports.insert(port);
  }
  EXPECT_EQ(ports.size(), 1000);
}

TEST(SlurmPlacementTest, PutsServersOnTheFirstComponentOfAHeterogeneousJob) {
  Allocation allocation = Nodes({1, 1, 4});
  allocation.nodes[0].het_group = 0;
  allocation.nodes[1].het_group = 0;
  allocation.nodes[2].het_group = 1;
  const auto placement = PlaceProcesses(allocation, {});
  ASSERT_TRUE(placement.ok()) << placement.status();
  EXPECT_THAT(NodesOfServers(*placement), ElementsAre(0, 1));
  EXPECT_THAT(NodesOfWorkers(*placement), ElementsAre(2, 2, 2, 2));
}

TEST(SlurmPlacementTest, RefusesMoreWorkersThanTasks) {
  PlacementRequest request;
  request.fewest_workers = request.most_workers = 8;
  EXPECT_THAT(PlaceProcesses(Nodes({2, 1}), request).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("2 nodes and 3 tasks"),
                             HasSubstr("8 workers are requested"),
                             HasSubstr("sbatch --ntasks=8"))));
  request.fewest_workers = 2;  // 2:8
  EXPECT_EQ(PlaceProcesses(Nodes({2, 1}), request)->workers.size(), 3);
}

TEST(SlurmPlacementTest, RefusesAHeterogeneousJobWithoutTasksForWorkers) {
  Allocation allocation = Nodes({3});
  allocation.nodes[0].het_group = 0;
  EXPECT_THAT(PlaceProcesses(allocation, {}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("0 tasks for workers")));
}

TEST(SlurmPlacementTest, RefusesMoreServersThanPorts) {
  PlacementRequest request;
  request.servers = 17;
  EXPECT_THAT(PlaceProcesses(Nodes({1, 1}), request).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("17 servers on 2 nodes"),
                             HasSubstr("--servers"))));
}

}  // namespace
}  // namespace tributary
