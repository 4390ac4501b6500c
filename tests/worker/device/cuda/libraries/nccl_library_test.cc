// The real NCCL, on this machine's GPUs.
#include "worker/device/cuda/libraries/nccl_library.h"

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
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

// One side of a message: number 0 sends `values`, number 1 receives them.
absl::Status Exchange(NcclLibrary* nccl, const std::string& id, int rank,
                      int ordinal, std::vector<float>* values) {
  const auto device = CreateCudaDevice(ordinal);
  if (!device.ok()) return device.status();
  const auto memory = (*device)->Allocate(kBytes);
  const auto stream = (*device)->copies()->CreateStream();
  if (!memory.ok() || !stream.ok()) return absl::InternalError("no memory");
  const auto communicator = nccl->Begin(id, rank, (*device)->bus_id());
  if (!communicator.ok()) return communicator.status();
  absl::Status status = AwaitReady(communicator->get());
  if (!status.ok()) return status;
  if (rank == 0) {
    (*stream)->CopyFromHost(memory->get(), values->data(), kBytes);
    status = (*communicator)->Send(memory->get(), kBytes, (*stream)->handle());
  } else {
    status =
        (*communicator)->Receive(memory->get(), kBytes, (*stream)->handle());
  }
  if (status.ok()) status = AwaitReady(communicator->get());
  if (!status.ok()) return status;
  if (rank == 1) {
    (*stream)->CopyToHost(values->data(), memory->get(), kBytes);
  }
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
  std::vector<float> sent(kCount), received(kCount);
  for (size_t i = 0; i < kCount; ++i) sent[i] = static_cast<float>(i);
  absl::Status statuses[2];
  std::thread other([&] {
    statuses[1] =
        Exchange(*nccl, *id, /*rank=*/1, *gpus > 1 ? 1 : 0, &received);
  });
  statuses[0] = Exchange(*nccl, *id, /*rank=*/0, /*ordinal=*/0, &sent);
  other.join();
  for (const absl::Status& status : statuses) {
    EXPECT_EQ(status.ok(), *gpus > 1) << status;
  }
  if (*gpus > 1) {
    EXPECT_EQ(received, sent);
  }
}

}  // namespace
}  // namespace tributary
