#include "tests/worker/exchange/mesh/fake_nccl.h"

#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "gtest/gtest.h"
#include "tests/worker/device/cuda/emulation/emulated_devices.h"
#include "tests/worker/device/cuda/emulation/emulated_streams.h"
#include "tests/worker/exchange/mesh/local_meshes.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/exchange/mesh/nccl_mesh.h"

namespace tributary {

struct FakeNccl::Hub {
  // A message that its sender has begun to send.
  struct Message {
    std::string bytes;
    bool taken = false;
  };
  struct Pair {
    bool joined[2] = {};
    std::deque<std::shared_ptr<Message>> messages[2];  // By their sender.
  };

  absl::Mutex mu;
  int ids ABSL_GUARDED_BY(mu) = 0;
  std::map<std::string, Pair> pairs ABSL_GUARDED_BY(mu);
  absl::Status broken ABSL_GUARDED_BY(mu);
  int64_t messages ABSL_GUARDED_BY(mu) = 0;
  int64_t communicators ABSL_GUARDED_BY(mu) = 0;
};

namespace {

// How often it must be asked until something is queued.
constexpr int kAnswersInProgress = 3;

class Communicator final : public NcclCommunicator {
 public:
  Communicator(std::shared_ptr<FakeNccl::Hub> hub, std::string id, int rank)
      : hub_(std::move(hub)), id_(std::move(id)), rank_(rank) {
    absl::MutexLock lock(&hub_->mu);
    hub_->pairs[id_].joined[rank_] = true;
    ++hub_->communicators;
  }
  ~Communicator() override {
    Abort();
    absl::MutexLock lock(&hub_->mu);
    --hub_->communicators;
  }

  absl::StatusOr<bool> Ready() override {
    absl::MutexLock lock(&hub_->mu);
    if (!hub_->broken.ok()) return hub_->broken;
    if (*aborted_) return absl::AbortedError("aborted");
    if (!hub_->pairs[id_].joined[1 - rank_]) return false;
    return ++answers_ > kAnswersInProgress;
  }

  absl::Status Exchange(const void* send, size_t send_bytes, void* receive,
                        size_t receive_bytes, void* stream) override {
    const auto sent = std::make_shared<FakeNccl::Hub::Message>();
    return Queue(
        stream, [=, hub = hub_, id = id_, rank = rank_, begun = send_bytes == 0,
                 received = receive_bytes == 0]() mutable {
          absl::MutexLock lock(&hub->mu);
          FakeNccl::Hub::Pair& pair = hub->pairs[id];
          if (!std::exchange(begun, true)) {
            sent->bytes.assign(static_cast<const char*>(send), send_bytes);
            pair.messages[rank].push_back(sent);
          }
          auto& incoming = pair.messages[1 - rank];
          if (!received && !incoming.empty()) {
            // As in NCCL, both sides must mean the same message.
            EXPECT_EQ(incoming.front()->bytes.size(), receive_bytes);
            std::memcpy(receive, incoming.front()->bytes.data(), receive_bytes);
            incoming.front()->taken = true;
            incoming.pop_front();
            received = true;
            ++hub->messages;
          }
          // Large messages are not buffered: the sender waits for the receiver.
          return received && (send_bytes == 0 || sent->taken);
        });
  }
  void Abort() override {
    absl::MutexLock lock(&hub_->mu);
    *aborted_ = true;
  }

 private:
  absl::Status Queue(void* stream, std::function<bool()> work) {
    {
      absl::MutexLock lock(&hub_->mu);
      answers_ = 0;
    }
    emulated_gpu::Enqueue(
        static_cast<emulated_gpu::Stream*>(stream),
        [hub = hub_, aborted = aborted_, work = std::move(work)] {
          {
            absl::MutexLock lock(&hub->mu);
            if (*aborted) return true;
          }
          const emulated_gpu::Running running;
          return work();
        });
    return absl::OkStatus();
  }

  const std::shared_ptr<FakeNccl::Hub> hub_;
  const std::string id_;
  const int rank_;
  // Guarded by the hub's lock. Work that is queued may outlive this.
  const std::shared_ptr<bool> aborted_ = std::make_shared<bool>(false);
  int answers_ = 0;
};

}  // namespace

FakeNccl::FakeNccl() : hub_(std::make_shared<Hub>()) {}
FakeNccl::~FakeNccl() = default;

absl::StatusOr<std::string> FakeNccl::MakeId() {
  absl::MutexLock lock(&hub_->mu);
  std::string id = absl::StrCat("communicator ", hub_->ids++);
  id.resize(128);
  return id;
}

absl::StatusOr<std::unique_ptr<NcclCommunicator>> FakeNccl::Begin(
    const std::string& id, int rank, const std::string& /*bus_id*/) {
  return std::make_unique<Communicator>(hub_, id, rank);
}

void FakeNccl::Break(const absl::Status& status) {
  absl::MutexLock lock(&hub_->mu);
  hub_->broken = status;
}

int64_t FakeNccl::messages() const {
  absl::MutexLock lock(&hub_->mu);
  return hub_->messages;
}

int64_t FakeNccl::communicators() const {
  absl::MutexLock lock(&hub_->mu);
  return hub_->communicators;
}

int EmulatedGpuOf(int rank) { return rank % emulated_gpu::kDevices; }

std::vector<std::unique_ptr<DeviceMesh>> MakeNcclMeshes(
    int size, FakeNccl* nccl, absl::Duration timeout) {
  emulated_gpu::ProtectMemory();
  std::vector<std::unique_ptr<PeerMesh>> controls = MakeLocalMeshes(size);
  std::vector<std::unique_ptr<DeviceMesh>> meshes(size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      absl::StatusOr<std::unique_ptr<Device>> device =
          CreateCudaDevice(EmulatedGpuOf(rank));
      ASSERT_TRUE(device.ok()) << device.status();
      NcclMeshOptions options;
      options.library = nccl;
      options.device = device->get();
      options.timeout = timeout;
      auto mesh = ConnectNcclMesh(options, std::move(controls[rank]));
      ASSERT_TRUE(mesh.ok()) << mesh.status();
      meshes[rank] = *std::move(mesh);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return meshes;
}

}  // namespace tributary
