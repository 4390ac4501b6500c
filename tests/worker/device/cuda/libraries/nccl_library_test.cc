// The real NCCL, on this machine's GPUs.
#include "worker/device/cuda/libraries/nccl_library.h"

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/device/device.h"

namespace tributary {
namespace {

constexpr size_t kCount = 100003;
constexpr size_t kBytes = kCount * sizeof(float);

absl::Status AwaitReady(NcclCommunicator* communicator) {
  while (true) {
    const absl::StatusOr<bool> ready = communicator->Ready();
    if (!ready.ok()) return ready.status();
    if (*ready) return absl::OkStatus();
    std::this_thread::yield();
  }
}

// Sends `sent` to the other side and receives as many values from it.
absl::Status Exchange(NcclLibrary* nccl, const std::string& id, int rank,
                      int ordinal, const std::vector<float>& sent,
                      std::vector<float>* received) {
  const auto device = CreateCudaDevice(ordinal);
  if (!device.ok()) return device.status();
  const auto out = (*device)->Allocate(kBytes);
  const auto in = (*device)->Allocate(kBytes);
  const auto stream = (*device)->copies()->CreateStream();
  if (!out.ok() || !in.ok() || !stream.ok()) {
    return absl::InternalError("no memory");
  }
  const auto communicator = nccl->Begin(id, rank, (*device)->bus_id());
  if (!communicator.ok()) return communicator.status();
  absl::Status status = AwaitReady(communicator->get());
  if (!status.ok()) return status;
  (*stream)->CopyFromHost(out->get(), sent.data(), kBytes);
  status = (*communicator)
               ->Exchange(out->get(), kBytes, in->get(), kBytes,
                          (*stream)->handle());
  if (status.ok()) status = AwaitReady(communicator->get());
  if (!status.ok()) return status;
  (*stream)->CopyToHost(received->data(), in->get(), kBytes);
  EXPECT_TRUE((*stream)->Synchronize().ok());
  return (*communicator)->Ready().status();
}

// On one GPU, NCCL says that it takes no two members there.
TEST(NcclLibrary, BringsMessagesFromGpuToGpu) {
  const absl::StatusOr<int> gpus = CountCudaDevices();
  if (!gpus.ok()) GTEST_SKIP() << gpus.status().message();
  const absl::StatusOr<NcclLibrary*> nccl = LoadNccl();
  ASSERT_TRUE(nccl.ok()) << nccl.status();
  const absl::StatusOr<std::string> id = (*nccl)->MakeId();
  ASSERT_TRUE(id.ok()) << id.status();
  std::vector<float> sent[2], received[2];
  for (int rank = 0; rank < 2; ++rank) {
    received[rank].resize(kCount);
    for (size_t i = 0; i < kCount; ++i) {
      sent[rank].push_back(static_cast<float>(i) + 0.5f * rank);
    }
  }
  absl::Status statuses[2];
  std::thread other([&] {
    statuses[1] = Exchange(*nccl, *id, /*rank=*/1, *gpus > 1 ? 1 : 0, sent[1],
                           &received[1]);
  });
  statuses[0] =
      Exchange(*nccl, *id, /*rank=*/0, /*ordinal=*/0, sent[0], &received[0]);
  other.join();
  for (const absl::Status& status : statuses) {
    if (*gpus > 1) {
      EXPECT_TRUE(status.ok()) << status;
    } else {
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable,
                                   testing::HasSubstr("NCCL, ")));
    }
  }
  if (*gpus > 1) {
    EXPECT_EQ(received[0], sent[1]);
    EXPECT_EQ(received[1], sent[0]);
  }
}

}  // namespace
}  // namespace tributary
