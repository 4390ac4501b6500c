// Against the law's closed forms, and against an account of every message.
#include "common/plan/exchange_traffic.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;

// A model of one unit, float32 up and down, in so many equal chunks.
StepMessages EvenLoad(int chunks, int workers) {
  StepMessages load;
  load.chunks.assign(chunks, {1.0 / chunks, 1.0 / chunks});
  load.contributions.assign(workers, 1);
  return load;
}

std::vector<int> Iota(int begin, int count) {
  std::vector<int> values(count);
  std::iota(values.begin(), values.end(), begin);
  return values;
}

double BusiestBytes(const StepMessages& load, const ProcessHosts& placement) {
  const std::vector<HostTraffic> traffic = TrafficByHost(load, placement);
  return traffic[BusiestHost(traffic)].busier();
}

TEST(TrafficTest, FollowsTheLaw) {
  for (const int n : {2, 3, 4, 7, 8}) {
    const StepMessages load = EvenLoad(/*chunks=*/16 * n, n);
    // A server on a host of its own.
    EXPECT_NEAR(BusiestBytes(load, {Iota(0, n), {n}}), n, 1e-9);
    // One on each worker's host.
    EXPECT_NEAR(BusiestBytes(load, {Iota(0, n), Iota(0, n)}), AllReduceLaw(n),
                1e-9);
    // As many hosts with servers as with workers.
    EXPECT_NEAR(BusiestBytes(load, {Iota(0, n), Iota(n, n)}), 1, 1e-9);
    // The one server on a worker's host: that worker's part stays there.
    EXPECT_NEAR(BusiestBytes(load, {Iota(0, n), {0}}), n - 1, 1e-9);
    // Everything on one host.
    EXPECT_NEAR(BusiestBytes(load, {std::vector<int>(n), {0, 0}}), 0, 1e-9);
  }
}

TEST(TrafficTest, IsWhatEveryMessageAddsUpTo) {
  std::mt19937 random(1);
  const auto below = [&](int limit) {
    return static_cast<int>(random() % limit);
  };
  for (int round = 0; round < 50; ++round) {
    const int workers = 1 + below(6);
    const int servers = 1 + below(5);
    const int hosts = 1 + below(7);
    StepMessages load;
    const int chunks = 1 + below(30);
    for (int c = 0; c < chunks; ++c) {
      load.chunks.push_back({1.0 + below(1000), 1.0 + below(1000)});
    }
    load.rows = {1.0 * below(1000), 1.0 * below(1000)};
    ProcessHosts placement;
    for (int w = 0; w < workers; ++w) {
      load.contributions.push_back(below(4));
      placement.worker_hosts.push_back(below(hosts));
    }
    for (int s = 0; s < servers; ++s) {
      placement.server_hosts.push_back(below(hosts));
    }
    std::vector<HostTraffic> expected(hosts);
    for (int c = 0; c < chunks; ++c) {
      const int server = placement.server_hosts[c % servers];
      for (int w = 0; w < workers; ++w) {
        const int worker = placement.worker_hosts[w];
        if (worker == server) continue;
        for (int i = 0; i < load.contributions[w]; ++i) {
          expected[worker].up_out += load.chunks[c].up;
          expected[server].up_in += load.chunks[c].up;
        }
        expected[server].down_out += load.chunks[c].down;
        expected[worker].down_in += load.chunks[c].down;
      }
    }
    for (int w = 0; w < workers; ++w) {
      for (const int server : placement.server_hosts) {
        const int worker = placement.worker_hosts[w];
        if (worker == server || load.contributions[w] == 0) continue;
        expected[worker].up_out += load.rows.up / servers;
        expected[server].up_in += load.rows.up / servers;
        expected[server].down_out += load.rows.down / servers;
        expected[worker].down_in += load.rows.down / servers;
      }
    }
    const std::vector<HostTraffic> traffic = TrafficByHost(load, placement);
    ASSERT_LE(traffic.size(), expected.size());
    double busiest = 0;
    for (size_t host = 0; host < expected.size(); ++host) {
      const HostTraffic got =
          host < traffic.size() ? traffic[host] : HostTraffic();
      EXPECT_NEAR(got.up_out, expected[host].up_out, 1e-6);
      EXPECT_NEAR(got.up_in, expected[host].up_in, 1e-6);
      EXPECT_NEAR(got.down_out, expected[host].down_out, 1e-6);
      EXPECT_NEAR(got.down_in, expected[host].down_in, 1e-6);
      busiest =
          std::max({busiest, expected[host].up_out + expected[host].down_out,
                    expected[host].up_in + expected[host].down_in});
    }
    EXPECT_NEAR(traffic[BusiestHost(traffic)].busier(), busiest, 1e-6);
  }
}

TEST(ContributionsTest, AreOneEachForPowersOfTwo) {
  EXPECT_THAT(ContributionsByWorker(8, 1), ElementsAre(1));
  EXPECT_THAT(ContributionsByWorker(8, 2), ElementsAre(1, 1));
  EXPECT_THAT(ContributionsByWorker(8, 8), ElementsAre(1, 1, 1, 1, 1, 1, 1, 1));
}

TEST(ContributionsTest, AreMoreWhereRunsAreNoSubtrees) {
  // Leaves 0-1, 2-4, 5-7: {0,1}, {2,3} {4}, {5} {6,7}.
  EXPECT_THAT(ContributionsByWorker(8, 3), ElementsAre(1, 2, 2));
  // Spares send nothing.
  EXPECT_THAT(ContributionsByWorker(2, 3), ElementsAre(1, 1, 0));
}

}  // namespace
}  // namespace tributary
