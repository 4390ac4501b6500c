// What every mesh promises.
#include "worker/exchange/mesh/peer_mesh.h"

#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/device/cuda/emulation/emulated_streams.h"
#include "tests/worker/exchange/mesh/fake_nccl.h"
#include "tests/worker/exchange/mesh/gloo_meshes.h"
#include "tests/worker/exchange/mesh/local_mesh.h"
#include "worker/exchange/mesh/gloo_mesh.h"
#include "worker/exchange/mesh/hardware_queues.h"
#include "worker/exchange/mesh/nccl_mesh.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;
using Transfers = std::vector<std::unique_ptr<PeerMesh::Transfer>>;

std::vector<std::unique_ptr<PeerMesh>> MakeMeshes(const std::string& kind,
                                                  int size) {
  static auto* const nccl = new FakeNccl;
  if (kind == "gloo") return MakeGlooMeshes(size);
  if (kind == "nccl") return MakeNcclMeshes(size, nccl, /*least_bytes=*/1);
  if (kind == "nccl_and_small") {
    return MakeNcclMeshes(size, nccl, /*least_bytes=*/100000);
  }
  return MakeLocalMeshes(size);
}

class PeerMeshTest : public testing::TestWithParam<std::string> {};

TEST_P(PeerMeshTest, BringsEveryMessageToItsPlace) {
  constexpr int kMembers = 3;
  constexpr int kTags = 20;
  const auto meshes = MakeMeshes(GetParam(), kMembers);
  ASSERT_EQ(meshes.size(), size_t{kMembers});
  // Sizes from a byte to more than a socket holds.
  const auto size_of = [](int tag) { return 1 + tag * tag * tag * 300; };
  const auto fill = [](int from, int to, int tag) {
    return static_cast<char>(17 * from + 5 * to + tag);
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kMembers; ++rank) {
    threads.emplace_back([&, rank] {
      std::vector<std::string> sent, received;
      sent.reserve(kMembers * kTags);
      received.reserve(kMembers * kTags);
      Transfers sends, receives;
      for (int tag = 0; tag < kTags; ++tag) {
        for (int peer = 0; peer < kMembers; ++peer) {
          if (peer == rank) continue;
          sent.emplace_back(size_of(tag), fill(rank, peer, tag));
          received.emplace_back(size_of(tag), 0);
          const auto receive = [&] {
            receives.push_back(meshes[rank]->Receive(
                peer, tag, received.back().data(), received.back().size()));
          };
          // Either end may be first.
          if (tag % 2 == 0) receive();
          sends.push_back(meshes[rank]->Send(peer, tag, sent.back().data(),
                                             sent.back().size()));
          if (tag % 2 == 1) receive();
        }
      }
      for (const auto& transfer : receives) EXPECT_TRUE(transfer->Wait().ok());
      for (const auto& transfer : sends) EXPECT_TRUE(transfer->Wait().ok());
      size_t i = 0;
      for (int tag = 0; tag < kTags; ++tag) {
        for (int peer = 0; peer < kMembers; ++peer) {
          if (peer == rank) continue;
          EXPECT_EQ(received[i],
                    std::string(size_of(tag), fill(peer, rank, tag)));
          ++i;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// In an all-reduce, a member that reduces no chunk sends no facts.
TEST_P(PeerMeshTest, BringsEmptyMessages) {
  const auto meshes = MakeMeshes(GetParam(), 2);
  ASSERT_EQ(meshes.size(), 2u);
  for (uint64_t tag = 0; tag < 3; ++tag) {
    const auto sent = meshes[0]->Send(1, tag, nullptr, 0);
    const auto received = meshes[1]->Receive(0, tag, nullptr, 0);
    EXPECT_EQ(received->Wait(), absl::OkStatus());
    EXPECT_EQ(sent->Wait(), absl::OkStatus());
  }
}

TEST_P(PeerMeshTest, AMemberThatIsGoneEndsWaits) {
  auto meshes = MakeMeshes(GetParam(), 2);
  ASSERT_EQ(meshes.size(), 2u);
  std::vector<char> memory(100);
  const auto waiting = meshes[0]->Receive(1, 7, memory.data(), memory.size());
  meshes[1].reset();
  const absl::Status status = waiting->Wait();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("member 1"));
  const auto late = meshes[0]->Receive(1, 8, memory.data(), memory.size());
  EXPECT_THAT(late->Wait(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("member 1")));
  meshes[0]->Abort();
}

TEST_P(PeerMeshTest, AbortEndsWaits) {
  auto meshes = MakeMeshes(GetParam(), 2);
  ASSERT_EQ(meshes.size(), 2u);
  std::vector<char> memory(100);
  const auto waiting = meshes[0]->Receive(1, 7, memory.data(), memory.size());
  std::thread abort([&] { meshes[0]->Abort(); });
  EXPECT_TRUE(absl::IsAborted(waiting->Wait()));
  abort.join();
  const auto late = meshes[0]->Receive(1, 8, memory.data(), memory.size());
  EXPECT_TRUE(absl::IsAborted(late->Wait()));
}

INSTANTIATE_TEST_SUITE_P(All, PeerMeshTest,
                         testing::Values("local", "gloo", "nccl",
                                         "nccl_and_small"),
                         [](const auto& info) { return info.param; });

TEST(GlooMeshTest, AMemberThatSaysNothingEndsWaits) {
  auto meshes = MakeGlooMeshes(2, absl::Milliseconds(200));
  ASSERT_EQ(meshes.size(), 2u);
  char byte = 0;
  const auto waiting = meshes[0]->Receive(1, 7, &byte, 1);
  EXPECT_TRUE(absl::IsUnavailable(waiting->Wait()));
}

// Depending on their addresses, a member waits for the connection of the other
// one, or finds that the other one refuses its own. The tries include both. A
// simulated history has found that the first wait took ten minutes.
TEST(GlooMeshTest, AMemberThatIsLostBeforeItConnectsEndsTheConnecting) {
  for (int tries = 0; tries < 12; ++tries) {
    std::map<std::string, std::string> published;
    GlooMeshOptions options;
    options.size = 2;
    options.connect_timeout = absl::Milliseconds(100);
    options.publish = [&](const std::string& name, const std::string& bytes) {
      published[name] = bytes;
      return absl::OkStatus();
    };
    options.find = [&](const std::string& name) {
      return absl::StatusOr<std::string>(published[name]);
    };
    GlooMeshOptions lost = options;
    lost.rank = 1;
    lost.find = [](const std::string& name) -> absl::StatusOr<std::string> {
      // Gloo asks for the name of the other's host before it publishes its
      // address.
      if (absl::StrContains(name, "rank")) return std::string("host");
      return absl::CancelledError("lost");
    };
    EXPECT_TRUE(absl::IsCancelled(ConnectGlooMesh(lost).status()));
    EXPECT_THAT(ConnectGlooMesh(options).status(),
                StatusIs(absl::StatusCode::kUnavailable,
                         HasSubstr("member 0 of 2 of the all-reduce cannot "
                                   "connect")));
  }
}

TEST(GlooMeshTest, SaysWhyItCannotConnect) {
  GlooMeshOptions options;
  options.size = 2;
  options.publish = [](const std::string&, const std::string&) {
    return absl::OkStatus();
  };
  options.find = [](const std::string&) -> absl::StatusOr<std::string> {
    return absl::CancelledError("the job is over");
  };
  EXPECT_EQ(ConnectGlooMesh(options).status(),
            absl::CancelledError("the job is over"));
  options.host = "no-such-host.invalid";
  const absl::Status status = ConnectGlooMesh(options).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("cannot connect from no-such-host.invalid"));
}

TEST(NcclMeshTest, AnErrorOfNcclsEndsWaitsAndNamesTheMember) {
  FakeNccl nccl;
  auto meshes = MakeNcclMeshes(2, &nccl, /*least_bytes=*/1);
  std::vector<char> memory(100);
  const auto waiting = meshes[0]->Receive(1, 7, memory.data(), memory.size());
  nccl.Break(absl::UnavailableError("NCCL, of a message: unhandled"));
  const auto sent = meshes[1]->Send(0, 7, memory.data(), memory.size());
  for (const auto& transfer : {waiting.get(), sent.get()}) {
    const absl::Status status = transfer->Wait();
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("of the all-reduce"));
  }
}

TEST(NcclMeshTest, LargeMessagesAloneGoByNccl) {
  FakeNccl nccl;
  {
    auto meshes = MakeNcclMeshes(2, &nccl, /*least_bytes=*/100);
    const int64_t before = nccl.messages();
    std::string small(99, 's'), large(100, 'l'), got_small(99, 0),
        got_large(100, 0);
    Transfers transfers;
    transfers.push_back(meshes[0]->Send(1, 1, small.data(), small.size()));
    transfers.push_back(meshes[0]->Send(1, 2, large.data(), large.size()));
    transfers.push_back(meshes[1]->Receive(0, 2, got_large.data(), 100));
    transfers.push_back(meshes[1]->Receive(0, 1, got_small.data(), 99));
    for (const auto& transfer : transfers) EXPECT_TRUE(transfer->Wait().ok());
    EXPECT_EQ(got_small, small);
    EXPECT_EQ(got_large, large);
    EXPECT_EQ(nccl.messages() - before, 1);
    EXPECT_EQ(nccl.communicators(), 2);
  }
  EXPECT_EQ(nccl.communicators(), 0);
}

TEST(NcclMeshTest, ConnectsInBothDirectionsBeforeTheFirstMessage) {
  FakeNccl nccl;
  const auto meshes = MakeNcclMeshes(3, &nccl, /*least_bytes=*/1);
  EXPECT_EQ(nccl.messages(), 6);
}

// Both members send before they receive, on GPUs that run everything in the
// order of its calls.
TEST(NcclMeshTest, TwoDirectionsMayShareAHardwareQueue) {
  for (const int queues : {1, 8}) {
    SCOPED_TRACE(queues);
    FakeNccl nccl;
    emulated_gpu::SetConnections(queues);
    auto meshes = MakeNcclMeshes(2, &nccl, /*least_bytes=*/1,
                                 /*timeout=*/absl::Seconds(30));
    emulated_gpu::SetConnections(0);
    constexpr int kTags = 10;
    std::string sent[2], received[2];
    std::vector<std::unique_ptr<PeerMesh::Transfer>> transfers;
    for (int rank = 0; rank < 2; ++rank) {
      ASSERT_NE(meshes[rank], nullptr);
      sent[rank] = std::string(kTags, static_cast<char>('a' + rank));
      received[rank] = std::string(kTags, 0);
      for (int tag = 0; tag < kTags; ++tag) {
        transfers.push_back(
            meshes[rank]->Send(1 - rank, tag, &sent[rank][tag], 1));
        transfers.push_back(
            meshes[rank]->Receive(1 - rank, tag, &received[rank][tag], 1));
      }
    }
    for (const auto& transfer : transfers) {
      EXPECT_EQ(transfer->Wait(), absl::OkStatus());
    }
    EXPECT_EQ(received[0], sent[1]);
    EXPECT_EQ(received[1], sent[0]);
  }
}

TEST(NcclMeshTest, RefusesMoreMembersThanTheGpuHasHardwareQueuesFor) {
  FakeNccl nccl;
  nccl.SetHardwareQueues(9);
  NcclMeshOptions options;
  options.library = &nccl;
  options.other_streams = 8;
  EXPECT_THAT(
      ConnectNcclMesh(options, std::move(MakeLocalMeshes(3)[0])).status(),
      StatusIs(absl::StatusCode::kInvalidArgument,
               "NCCL needs 10 hardware queues of the GPU, one for each of 2 "
               "other workers and 8 for the compute threads, but "
               "CUDA_DEVICE_MAX_CONNECTIONS permits 9: set it to 32, use fewer "
               "--threads, or set exchange.all_reduce.backend to GLOO"));
}

TEST(HardwareQueuesTest, LimitsTheMembersUnlessThereIsOnePeer) {
  EXPECT_EQ(CheckHardwareQueues(1, 40, 1), absl::OkStatus());
  EXPECT_EQ(CheckHardwareQueues(24, 8, 32), absl::OkStatus());
  EXPECT_THAT(CheckHardwareQueues(25, 8, 32),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("permits 32: use fewer --threads")));
}

}  // namespace
}  // namespace tributary
