// What every mesh promises.
#include "worker/exchange/mesh/peer_mesh.h"

#include <csignal>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/device/cuda/emulation/emulated_streams.h"
#include "tests/worker/exchange/mesh/fake_nccl.h"
#include "tests/worker/exchange/mesh/gloo_meshes.h"
#include "tests/worker/exchange/mesh/local_meshes.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/device/device.h"
#include "worker/exchange/mesh/device_mesh.h"
#include "worker/exchange/mesh/gloo_mesh.h"
#include "worker/exchange/mesh/nccl_mesh.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;
using Transfers = std::vector<std::unique_ptr<PeerMesh::Transfer>>;

// Sends messages through the memory of a member's emulated GPU, which it copies
// there as late as CUDA allows.
class DeviceMemoryMesh final : public PeerMesh {
 public:
  explicit DeviceMemoryMesh(std::unique_ptr<DeviceMesh> mesh)
      : device_(*CreateCudaDevice(EmulatedGpuOf(mesh->rank()))),
        stream_(*device_->copies()->CreateStream()),
        mesh_(std::move(mesh)) {}

  int rank() const override { return mesh_->rank(); }
  int size() const override { return mesh_->size(); }
  std::unique_ptr<Transfer> Send(int to, uint64_t tag, const void* data,
                                 size_t bytes) override {
    if (bytes == 0) return mesh_->Send(to, tag, data, bytes);
    auto message = std::make_unique<Message>(this, bytes);
    std::shared_ptr<Event> ready = *device_->copies()->CreateEvent();
    stream_->CopyFromHost(message->memory.get(), data, bytes);
    stream_->Record(ready.get());
    message->transfer =
        mesh_->SendFromDevice(to, tag, message->memory.get(), bytes, ready);
    return message;
  }
  std::unique_ptr<Transfer> Receive(int from, uint64_t tag, void* data,
                                    size_t bytes) override {
    if (bytes == 0) return mesh_->Receive(from, tag, data, bytes);
    auto message = std::make_unique<Message>(this, bytes);
    message->to = data;
    message->transfer =
        mesh_->ReceiveOnDevice(from, tag, message->memory.get(), bytes);
    return message;
  }
  void Abort() override { mesh_->Abort(); }

 private:
  struct Message final : Transfer {
    Message(DeviceMemoryMesh* mesh, size_t bytes)
        : mesh(mesh), bytes(bytes), memory(*mesh->device_->Allocate(bytes)) {}
    absl::Status Wait() override {
      const absl::Status status = transfer->Wait();
      if (!status.ok() || to == nullptr) return status;
      return mesh->device_->CopyToHost(to, memory.get(), bytes);
    }

    DeviceMemoryMesh* const mesh;
    const size_t bytes;
    const Device::Memory memory;
    void* to = nullptr;  // Of a message to receive.
    std::unique_ptr<Transfer> transfer;
  };

  const std::unique_ptr<Device> device_;
  const std::unique_ptr<CopyStream> stream_;
  const std::unique_ptr<DeviceMesh> mesh_;
};

std::vector<std::unique_ptr<PeerMesh>> MakeDeviceMemoryMeshes(
    int size, FakeNccl* nccl, absl::Duration timeout = absl::Minutes(10)) {
  std::vector<std::unique_ptr<PeerMesh>> meshes;
  for (auto& mesh : MakeNcclMeshes(size, nccl, timeout)) {
    meshes.push_back(std::make_unique<DeviceMemoryMesh>(std::move(mesh)));
  }
  return meshes;
}

std::vector<std::unique_ptr<PeerMesh>> MakeMeshes(const std::string& kind,
                                                  int size) {
  static auto* const nccl = new FakeNccl;
  if (kind == "gloo") return MakeGlooMeshes(size);
  if (kind == "nccl") return MakeDeviceMemoryMeshes(size, nccl);
  if (kind == "nccl_host") {
    std::vector<std::unique_ptr<PeerMesh>> meshes;
    for (auto& mesh : MakeNcclMeshes(size, nccl)) {
      meshes.push_back(std::move(mesh));
    }
    return meshes;
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

// In an all-reduce, a member that reduces no chunk sends no sums of squares.
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
  EXPECT_THAT(waiting->Wait(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("member 1")));
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
                         testing::Values("local", "gloo", "nccl", "nccl_host"),
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

// Gloo may write to a member that has exited.
TEST(GlooMeshTest, ABrokenPipeDoesNotEndTheProcess) {
  std::signal(SIGPIPE, SIG_DFL);
  const auto meshes = MakeGlooMeshes(2);
  EXPECT_EQ(std::raise(SIGPIPE), 0);
  // The handler of a program stays.
  const auto handle = [](int) {};
  std::signal(SIGPIPE, handle);
  const auto more = MakeGlooMeshes(2);
  EXPECT_EQ(std::signal(SIGPIPE, SIG_IGN), static_cast<void (*)(int)>(handle));
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
  EXPECT_THAT(ConnectGlooMesh(options),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("no-such-host.invalid")));
}

TEST(NcclMeshTest, AnErrorOfNcclsEndsWaitsAndNamesTheMember) {
  FakeNccl nccl;
  auto meshes = MakeDeviceMemoryMeshes(2, &nccl);
  std::vector<char> memory(100);
  const auto waiting = meshes[0]->Receive(1, 7, memory.data(), memory.size());
  nccl.Break(absl::UnavailableError("NCCL, of a message: unhandled"));
  const auto sent = meshes[1]->Send(0, 7, memory.data(), memory.size());
  for (const auto& transfer : {waiting.get(), sent.get()}) {
    EXPECT_THAT(transfer->Wait(), StatusIs(absl::StatusCode::kUnavailable,
                                           HasSubstr("of the all-reduce")));
  }
}

TEST(NcclMeshTest, MessagesInHostMemoryDoNotGoByNccl) {
  FakeNccl nccl;
  {
    auto meshes = MakeNcclMeshes(2, &nccl);
    const int64_t before = nccl.messages();
    std::string sent(100000, 's'), received(100000, 0);
    const auto send = meshes[0]->Send(1, 1, sent.data(), sent.size());
    const auto receive =
        meshes[1]->Receive(0, 1, received.data(), received.size());
    EXPECT_EQ(send->Wait(), absl::OkStatus());
    EXPECT_EQ(receive->Wait(), absl::OkStatus());
    EXPECT_EQ(received, sent);
    EXPECT_EQ(nccl.messages(), before);
    EXPECT_EQ(nccl.communicators(), 2);
  }
  EXPECT_EQ(nccl.communicators(), 0);
}

// A message that its receiver does not wait for yet has no place to go.
TEST(NcclMeshTest, SendsAMessageOnceItsReceiverWaitsForIt) {
  FakeNccl nccl;
  auto meshes = MakeDeviceMemoryMeshes(2, &nccl);
  std::string first = "first", second = "other", received(5, 0);
  const auto early = meshes[0]->Send(1, 1, first.data(), 5);
  const auto late = meshes[0]->Send(1, 2, second.data(), 5);
  EXPECT_EQ(meshes[1]->Receive(0, 2, received.data(), 5)->Wait(),
            absl::OkStatus());
  EXPECT_EQ(received, second);
  EXPECT_EQ(late->Wait(), absl::OkStatus());
  EXPECT_EQ(meshes[1]->Receive(0, 1, received.data(), 5)->Wait(),
            absl::OkStatus());
  EXPECT_EQ(received, first);
  EXPECT_EQ(early->Wait(), absl::OkStatus());
}

TEST(NcclMeshTest, AMessageOfAnotherSizeThanExpectedEndsWaits) {
  FakeNccl nccl;
  auto meshes = MakeDeviceMemoryMeshes(2, &nccl);
  std::string sent(6, 's'), received(5, 0);
  const auto send = meshes[0]->Send(1, 1, sent.data(), sent.size());
  const auto receive = meshes[1]->Receive(0, 1, received.data(), 5);
  EXPECT_THAT(send->Wait(), StatusIs(absl::StatusCode::kUnavailable,
                                     HasSubstr("member 1 of 2 ")));
}

TEST(NcclMeshTest, ConnectsInBothDirectionsBeforeTheFirstMessage) {
  FakeNccl nccl;
  const auto meshes = MakeNcclMeshes(3, &nccl);
  EXPECT_EQ(nccl.messages(), 6);
}

// Both members send before they receive, on GPUs that run everything in the
// order of its calls.
TEST(NcclMeshTest, TwoDirectionsMayShareAHardwareQueue) {
  for (const int queues : {1, 8}) {
    SCOPED_TRACE(queues);
    FakeNccl nccl;
    emulated_gpu::SetConnections(queues);
    auto meshes = MakeDeviceMemoryMeshes(2, &nccl,
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
               HasSubstr("CUDA_DEVICE_MAX_CONNECTIONS")));
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
