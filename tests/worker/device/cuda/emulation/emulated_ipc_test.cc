// GPU memory that processes share: common/cuda/ipc_memory.h on the emulated
// GPU, and what the emulation promises about such memory. The other process is
// a child that fork has created.
#include <cuda_runtime.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <string>

#include "common/cuda/ipc_memory.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/device/cuda/emulation/emulated_failures.h"
#include "tests/worker/device/cuda/emulation/emulated_memory.h"

namespace tributary::cuda {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kBytes = 8192;

// Runs `work` in a child process, and returns its exit status (see waitpid).
// The child ends with exit code 0 if `work` returns true.
int InChild(const std::function<bool()>& work) {
  const pid_t child = fork();
  if (child == 0) _exit(work() ? 0 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

bool Succeeds(int status) {
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

float ReadElement(const float* memory) {
  const emulated_gpu::Running running;
  return *memory;
}
void WriteElement(float* memory, float value) {
  const emulated_gpu::Running running;
  *memory = value;
}

class EmulatedIpcTest : public testing::Test {
 protected:
  EmulatedIpcTest() {
    emulated_gpu::ProtectMemory();
    memory_ = *AllocateSharedMemory(/*ordinal=*/0, kBytes, &handle_);
  }
  ~EmulatedIpcTest() override {
    emulated_gpu::SetPeerAccess(true);
    emulated_gpu::SetOwnMapping(false);
    emulated_gpu::StopFailing();
  }

  DeviceMemoryHandle handle_;
  std::shared_ptr<float> memory_;
};

TEST_F(EmulatedIpcTest, BothProcessesSeeWhatEitherWrites) {
  WriteElement(memory_.get(), 3);
  EXPECT_TRUE(Succeeds(InChild([&] {
    const auto mapped = MapSharedMemory(/*ordinal=*/0, handle_);
    if (!mapped.ok() || ReadElement(mapped->get()) != 3) return false;
    if (!OwnsSharedMemory(0, mapped->get())) return false;
    WriteElement(mapped->get() + 1000, 5);
    return true;
  })));
  EXPECT_EQ(ReadElement(memory_.get() + 1000), 5);
  EXPECT_EQ(ReadElement(memory_.get() + 999), 0);
}

TEST_F(EmulatedIpcTest, AnotherGpuNeedsPeerAccess) {
  WriteElement(memory_.get(), 3);
  EXPECT_TRUE(Succeeds(InChild([&] {
    const auto mapped = MapSharedMemory(/*ordinal=*/1, handle_);
    return mapped.ok() && ReadElement(mapped->get()) == 3 &&
           !OwnsSharedMemory(1, mapped->get());
  })));
  emulated_gpu::SetPeerAccess(false);
  EXPECT_TRUE(Succeeds(InChild([&] {
    const absl::Status status = MapSharedMemory(1, handle_).status();
    return absl::IsFailedPrecondition(status) &&
           std::string(status.message()).find("cudaErrorPeerAccess") !=
               std::string::npos &&
           MapSharedMemory(0, handle_).ok();
  })));
}

TEST_F(EmulatedIpcTest, TheDriverMayRefuse) {
  EXPECT_TRUE(Succeeds(InChild([&] {
    emulated_gpu::FailNext(emulated_gpu::Failing::kMapping);
    const absl::Status status = MapSharedMemory(0, handle_).status();
    return absl::IsFailedPrecondition(status) &&
           std::string(status.message())
                   .find(
                       "the memory of the server's GPU cannot be mapped for "
                       "cuda:0") != std::string::npos &&
           cudaPeekAtLastError() == cudaSuccess;
  })));
}

TEST_F(EmulatedIpcTest, TheOwnerCannotMapItsMemory) {
  EXPECT_THAT(MapSharedMemory(0, handle_).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  cudaIpcMemHandle_t handle;
  handle_.handle.copy(handle.reserved, sizeof(handle.reserved));
  void* memory = nullptr;
  EXPECT_EQ(cudaIpcOpenMemHandle(&memory, handle, 0),
            cudaErrorDeviceUninitialized);
  cudaGetLastError();
}

TEST_F(EmulatedIpcTest, TheOwnerMapsItsMemoryIfTheTestAllowsIt) {
  emulated_gpu::SetOwnMapping(true);
  handle_.process = 0;  // Not this process.
  for (const int ordinal : {0, 1}) {
    const auto mapped = MapSharedMemory(ordinal, handle_);
    ASSERT_TRUE(mapped.ok()) << mapped.status();
    EXPECT_NE(mapped->get(), memory_.get());
    EXPECT_EQ(OwnsSharedMemory(ordinal, mapped->get()), ordinal == 0);
    WriteElement(memory_.get(), 3);
    EXPECT_EQ(ReadElement(mapped->get()), 3);
    WriteElement(mapped->get() + 1000, 5);
    EXPECT_EQ(ReadElement(memory_.get() + 1000), 5);
    WriteElement(memory_.get() + 1000, 0);
  }
}

TEST_F(EmulatedIpcTest, RefusesAHandleThatIsNone) {
  EXPECT_THAT(MapSharedMemory(0, {1, "abc", kBytes}).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("a handle of 3 bytes for 8192 bytes")));
}

TEST_F(EmulatedIpcTest, MemoryThatIsMappedTwiceIsClosedTwice) {
  WriteElement(memory_.get(), 3);
  EXPECT_TRUE(Succeeds(InChild([&] {
    auto first = *MapSharedMemory(0, handle_);
    const auto second = *MapSharedMemory(0, handle_);
    if (first != second) return false;
    first = nullptr;
    return ReadElement(second.get()) == 3;
  })));
}

TEST_F(EmulatedIpcTest, AnAccessAfterTheMappingIsClosedEndsTheProcess) {
  const int status = InChild([&] {
    auto mapped = *MapSharedMemory(0, handle_);
    const float* const place = mapped.get();
    mapped = nullptr;
    signal(SIGSEGV, SIG_DFL);  // The handler of sanitizers would exit.
    return ReadElement(place) == 0;
  });
  EXPECT_TRUE(WIFSIGNALED(status));
}

TEST_F(EmulatedIpcTest, MemoryThatIsFreedWhileItIsMappedTurnsToNan) {
  WriteElement(memory_.get(), 3);
  int mapped[2], freed[2];
  ASSERT_EQ(pipe(mapped), 0);
  ASSERT_EQ(pipe(freed), 0);
  const pid_t child = fork();
  char byte = 0;
  if (child == 0) {
    const auto memory = MapSharedMemory(0, handle_);
    bool right = memory.ok() && ReadElement(memory->get()) == 3;
    right &= write(mapped[1], &byte, 1) == 1;
    right &= read(freed[0], &byte, 1) == 1;
    const float after = ReadElement(memory->get());
    _exit(right && after != after ? 0 : 1);
  }
  ASSERT_EQ(read(mapped[0], &byte, 1), 1);
  testing::internal::CaptureStderr();
  memory_ = nullptr;
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("freed while"));
  ASSERT_EQ(write(freed[1], &byte, 1), 1);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(Succeeds(status));
}

TEST_F(EmulatedIpcTest, AProcessThatHasEndedMapsNothing) {
  EXPECT_TRUE(Succeeds(InChild([&] {
    new std::shared_ptr<float>(*MapSharedMemory(0, handle_));  // Never closed.
    return true;
  })));
  testing::internal::CaptureStderr();
  memory_ = nullptr;
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST_F(EmulatedIpcTest, GivesItsMemoryBack) {
  const size_t free = emulated_gpu::FreeMemoryBytes();
  memory_ = nullptr;
  // Whole pages of 2 MiB.
  EXPECT_EQ(emulated_gpu::FreeMemoryBytes(), free + (size_t{2} << 20));
  EXPECT_THAT(MapSharedMemory(0, handle_).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

}  // namespace
}  // namespace tributary::cuda
