// Jobs on a network that holds, delays, cuts, replays and corrupts data: they
// end in bounded time with the bits of an undisturbed run.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/network_cluster.h"
#include "tests/support/command_runner.h"
#include "tests/support/run_until_it_hits.h"

namespace tributary {
namespace {

constexpr int64_t kSteps = 60;
// Longer than the lease of 2 s.
constexpr absl::Duration kBeyondTheLease = absl::Seconds(3);

using Direction = TcpProxy::Direction;
constexpr Direction kToServer = TcpProxy::kToServer;
constexpr Direction kToClient = TcpProxy::kToClient;

// At the begin, for each direction of each connection.
NetworkEvent ForAll(const std::function<void(TcpProxy*, Direction)>& change) {
  return {0, absl::ZeroDuration(), [change](ProxyNetwork* network) {
            for (TcpProxy* const proxy : network->all()) {
              for (const Direction direction : {kToServer, kToClient}) {
                change(proxy, direction);
              }
            }
          }};
}

class NetworkFaultsTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    job_ = new JobSpec(NetworkJob(MakeTestFolder(), kSteps));
    digest_ = new std::string(UndisturbedDigest(*job_));
    ASSERT_EQ(digest_->size(), 64u) << *digest_;
  }
  static void TearDownTestSuite() {
    delete job_;
    delete digest_;
  }

  // Expects that events do not change the result, in each run until all of them
  // happen and `hits` returns true.
  static void ExpectTheSameBits(
      const std::vector<NetworkEvent>& events,
      const std::function<bool(const NetworkResult&)>& hits = AlwaysHits,
      bool tls = false) {
    RunUntilItHits([&] {
      const NetworkResult result =
          RunOnNetwork(*job_, events, absl::Seconds(60), tls);
      EXPECT_TRUE(result.status.ok()) << result.status;
      EXPECT_EQ(result.weights_sha256, *digest_);
      EXPECT_EQ(result.killed, 0);
      return result.events == events.size() && hits(result);
    });
  }
  static bool AlwaysHits(const NetworkResult& /*result*/) { return true; }

  // Slows the network down, so that steps take some time and a process that was
  // disconnected returns while the job runs.
  static NetworkEvent Slowly() {
    return ForAll([](TcpProxy* proxy, Direction direction) {
      proxy->SetDelay(direction, absl::Milliseconds(20),
                      absl::Milliseconds(10));
    });
  }

  // Six changes, every few steps, of the connections to server 1 and from
  // worker 1 to the coordinator in turn.
  static std::vector<NetworkEvent> SixTimes(
      const std::function<void(TcpProxy*, int64_t)>& change) {
    std::vector<NetworkEvent> events = {Slowly()};
    for (int64_t i = 0; i < 6; ++i) {
      events.push_back(
          {5 + 8 * i, absl::ZeroDuration(), [=](ProxyNetwork* network) {
             change(i % 2 == 0 ? network->ToServer1()
                               : network->ToCoordinator("worker-1"),
                    i);
           }});
    }
    return events;
  }

  static bool HitSixTimes(const NetworkResult& result) {
    return result.faults == 6;
  }

  static JobSpec* job_;
  static std::string* digest_;
};

JobSpec* NetworkFaultsTest::job_ = nullptr;
std::string* NetworkFaultsTest::digest_ = nullptr;

// Row 9: partitions in one or both directions, which heal after `time`.
std::vector<NetworkEvent> Partition(
    const std::function<std::vector<TcpProxy*>(ProxyNetwork*)>& proxies,
    const std::vector<Direction>& directions, absl::Duration time) {
  const auto set = [=](bool held) {
    return [=](ProxyNetwork* network) {
      for (TcpProxy* const proxy : proxies(network)) {
        for (const Direction direction : directions) {
          proxy->SetHeld(direction, held);
        }
      }
    };
  };
  return {{10, absl::ZeroDuration(), set(true)}, {0, time, set(false)}};
}

struct PartitionCase {
  std::string name;
  std::vector<Direction> directions;
};

class PartitionTest : public NetworkFaultsTest,
                      public testing::WithParamInterface<PartitionCase> {};

TEST_P(PartitionTest, OfAWorkerBeyondItsLease) {
  std::vector<NetworkEvent> events = Partition(
      [](ProxyNetwork* network) -> std::vector<TcpProxy*> {
        return {network->ToCoordinator("worker-0")};
      },
      GetParam().directions, kBeyondTheLease);
  events.insert(events.begin(), Slowly());
  // The other processes continue meanwhile.
  ExpectTheSameBits(
      events, [](const NetworkResult& result) { return result.attempts == 1; });
}

TEST_P(PartitionTest, OfAServerFromItsWorkers) {
  ExpectTheSameBits(Partition(
      [](ProxyNetwork* network) -> std::vector<TcpProxy*> {
        return {network->ToServer1()};
      },
      GetParam().directions, kBeyondTheLease));
}

TEST_P(PartitionTest, OfAServerFromTheCoordinatorBeyondItsLease) {
  // Only a process that cannot send is removed.
  ExpectTheSameBits(Partition(
                        [](ProxyNetwork* network) -> std::vector<TcpProxy*> {
                          return {network->ToCoordinator("server-1")};
                        },
                        GetParam().directions, kBeyondTheLease),
                    [](const NetworkResult& result) {
                      return (result.attempts > 1) ==
                             (GetParam().directions[0] == kToServer);
                    });
}

TEST_P(PartitionTest, OfEverybody) {
  ExpectTheSameBits(
      Partition([](ProxyNetwork* network) { return network->all(); },
                GetParam().directions, kBeyondTheLease));
}

INSTANTIATE_TEST_SUITE_P(
    Ways, PartitionTest,
    testing::Values(PartitionCase{"Both", {kToServer, kToClient}},
                    PartitionCase{"ToServer", {kToServer}},
                    PartitionCase{"ToClient", {kToClient}}),
    [](const auto& info) { return info.param.name; });

// The keepalive closes a silent connection after 20 s, before the partition
// heals.
TEST_F(NetworkFaultsTest, APartitionBeyondTheKeepalive) {
  ExpectTheSameBits(Partition(
      [](ProxyNetwork* network) -> std::vector<TcpProxy*> {
        return {network->ToServer1()};
      },
      {kToServer, kToClient}, absl::Seconds(23)));
}

// Row 10. In a step of this job, each worker sends about 4 KB to each server.
TEST_F(NetworkFaultsTest, ConnectionsResetInTheMidstOfPushes) {
  for (const Direction direction : {kToServer, kToClient}) {
    ExpectTheSameBits(SixTimes([=](TcpProxy* proxy, int64_t i) {
                        proxy->ResetAfter(direction, 1500 + 700 * (i % 3));
                      }),
                      HitSixTimes);
  }
}

TEST_F(NetworkFaultsTest, ConnectionsCutAndRefusedForAWhile) {
  ExpectTheSameBits({{10, absl::ZeroDuration(),
                      [](ProxyNetwork* network) {
                        network->ToServer1()->SetRefusing(true);
                        network->ToServer1()->CutAfter(kToServer, 2000);
                      }},
                     {0, absl::Seconds(3), [](ProxyNetwork* network) {
                        network->ToServer1()->SetRefusing(false);
                      }}});
}

// Row 11: connections stall one after the other and recover in another order.
TEST_F(NetworkFaultsTest, SwizzleClog) {
  std::vector<NetworkEvent> events = {Slowly()};
  const auto set = [](size_t proxy, size_t connection, bool held) {
    return [=](ProxyNetwork* network) {
      const std::vector<int> open = network->all()[proxy]->OpenConnections();
      if (connection < open.size()) {
        network->all()[proxy]->SetConnectionHeld(open[connection], held);
      }
    };
  };
  for (int64_t round = 0; round < 2; ++round) {
    for (const size_t proxy : {2, 0, 3, 1}) {
      for (const size_t connection : {1, 0}) {
        events.push_back({10 + 20 * round, absl::Milliseconds(100),
                          set(proxy, connection, true)});
      }
    }
    for (const size_t proxy : {1, 3, 2, 0}) {
      for (const size_t connection : {1, 0}) {
        events.push_back(
            {0, absl::Milliseconds(300), set(proxy, connection, false)});
      }
    }
  }
  ExpectTheSameBits(events);
}

// Row 16: a third party replays a worker's bytes while the worker is connected,
// and after it was disconnected.
TEST_F(NetworkFaultsTest, AReplayedStreamChangesNothing) {
  // The connection with the most bytes is an exchange.
  const auto replay = [](TcpProxy* proxy) {
    std::string longest;
    const int connections = proxy->statistics().connections;
    for (int i = 0; i < connections; ++i) {
      const std::string said = proxy->Recorded(i);
      if (said.size() > longest.size()) longest = said;
    }
    EXPECT_GT(longest.size(), 10000u);
    EXPECT_GE(proxy->Replay(longest), 0);
  };
  std::vector<NetworkEvent> events = {Slowly()};
  events.push_back({0, absl::ZeroDuration(), [](ProxyNetwork* network) {
                      for (TcpProxy* const proxy : network->all()) {
                        proxy->Record();
                      }
                    }});
  for (int64_t step = 10; step < 50; step += 10) {
    events.push_back({step, absl::ZeroDuration(), [=](ProxyNetwork* network) {
                        replay(network->ToServer1());
                        replay(network->ToCoordinator("worker-0"));
                        if (step == 30) network->ToServer1()->ResetAll();
                      }});
  }
  ExpectTheSameBits(events);
}

// Row 33. Only TLS has a checksum for payloads.
TEST_F(NetworkFaultsTest, WithTlsASpoiledByteIsNoticed) {
  const auto flip = [](TcpProxy* proxy, int64_t i) {
    proxy->FlipAfter(i % 4 < 2 ? kToServer : kToClient, 1500 + 700 * (i % 3));
  };
  ExpectTheSameBits(SixTimes(flip), HitSixTimes, /*tls=*/true);
}

// Without TLS a changed byte may go unnoticed: the weights may differ, or a
// process ends with an error. No process crashes. If the byte makes a frame
// look much longer, the keepalive closes the connection after 20 s.
TEST_F(NetworkFaultsTest, WithoutTlsASpoiledByteCrashesNobody) {
  for (int64_t seed = 0; seed < 3; ++seed) {
    std::vector<NetworkEvent> events;
    for (int64_t i = 0; i < 2; ++i) {
      events.push_back(
          {5 + 15 * i, absl::ZeroDuration(), [=](ProxyNetwork* network) {
             TcpProxy* const proxy = network->all()[(i + seed) % 4];
             proxy->FlipAfter(i % 2 == 0 ? kToServer : kToClient,
                              (13 * i + 29 * seed) % 97);
           }});
    }
    // Both bytes may cause several such waits, one after the other.
    const NetworkResult result = RunOnNetwork(*job_, events, absl::Minutes(3));
    EXPECT_NE(result.status.code(), absl::StatusCode::kDeadlineExceeded)
        << result.status;
    EXPECT_EQ(result.killed, 0);
  }
}

// Runs `job` until no peer is removed: slowness alone does not remove one.
void ExpectThatSlownessChangesNothing(const JobSpec& job,
                                      const NetworkEvent& slowness) {
  const std::string digest = UndisturbedDigest(job);
  const auto run = [&] {
    const NetworkResult result =
        RunOnNetwork(job, {slowness}, absl::Minutes(2));
    EXPECT_TRUE(result.status.ok()) << result.status;
    EXPECT_EQ(result.events, 1u);
    EXPECT_EQ(result.weights_sha256, digest);
    return result.attempts == 1 && result.restarts == 0;
  };
  RunUntilItHits(run, /*most_runs=*/4);
}

// Row 14. See TcpProxy::SetDelay.
void ExpectThatDelaysChangeNothing(absl::Duration mean, absl::Duration jitter,
                                   int64_t steps) {
  ExpectThatSlownessChangesNothing(
      NetworkJob(MakeTestFolder(), steps),
      ForAll([=](TcpProxy* proxy, Direction direction) {
        proxy->SetDelay(direction, mean, jitter);
      }));
}

// Tests of their own, because both take long.
TEST(SlowNetworkTest, DelaysThatVary) {
  ExpectThatDelaysChangeNothing(absl::Milliseconds(75), absl::Milliseconds(50),
                                /*steps=*/25);
}

TEST(SlowNetworkTest, DelaysOfASecond) {
  ExpectThatDelaysChangeNothing(absl::Seconds(1), absl::ZeroDuration(),
                                /*steps=*/2);
}

// Row 13: at 10 Mbit/s a step's gradients and weights take longer than the
// heartbeat interval.
TEST(SlowNetworkTest, AThrottledLink) {
  JobSpec job = NetworkJob(MakeTestFolder(), 4);
  job.mutable_model()->mutable_mlp()->set_hidden(0, 768);
  job.mutable_model()->mutable_mlp()->set_hidden(1, 768);
  job.mutable_exchange()->mutable_parameter_server()->set_chunk_bytes(65536);
  ExpectThatSlownessChangesNothing(
      job, ForAll([](TcpProxy* proxy, Direction direction) {
        proxy->SetRate(direction, 10'000'000 / 8);
      }));
}

}  // namespace
}  // namespace tributary
