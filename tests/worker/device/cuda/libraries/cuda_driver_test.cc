// Pinning memory by a driver that is played here.
#include "worker/device/cuda/libraries/cuda_driver.h"

#include <unistd.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr int kSuccess = 0, kNoDevice = 100, kNotPermitted = 800;

// The driver's functions know no caller: its state is global.
struct Driver {
  int init = kSuccess;
  int gpus = 2;
  bool read_only = false;                     // The memory cannot be written.
  bool full = false;                          // No memory can be pinned.
  std::vector<CudaDriver::Context> contexts;  // The thread's stack of contexts.
  std::map<void*, unsigned> pinned;           // Flags by address.
} driver;

char context_of_gpu[2];

CudaDriver Functions() {
  CudaDriver functions = {};
  functions.Init = [](unsigned) { return driver.init; };
  functions.GetErrorString = [](int result, const char** text) {
    *text =
        result == kNoDevice ? "no CUDA-capable device is detected" : nullptr;
    return kSuccess;
  };
  functions.DeviceGetCount = [](int* count) {
    *count = driver.gpus;
    return kSuccess;
  };
  functions.DeviceGet = [](CudaDriver::Gpu* gpu, int ordinal) {
    *gpu = ordinal;
    return kSuccess;
  };
  functions.DevicePrimaryCtxRetain = [](CudaDriver::Context* context,
                                        CudaDriver::Gpu gpu) {
    *context = &context_of_gpu[gpu];
    return kSuccess;
  };
  functions.CtxPushCurrent = [](CudaDriver::Context context) {
    driver.contexts.push_back(context);
    return kSuccess;
  };
  functions.CtxPopCurrent = [](CudaDriver::Context* context) {
    *context = driver.contexts.back();
    driver.contexts.pop_back();
    return kSuccess;
  };
  functions.MemHostRegister = [](void* memory, size_t, unsigned flags) {
    EXPECT_THAT(driver.contexts, ElementsAre(&context_of_gpu[1]));
    if (driver.full || (driver.read_only && (flags & 8) == 0)) {
      return kNotPermitted;
    }
    driver.pinned[memory] = flags;
    return kSuccess;
  };
  functions.MemHostUnregister = [](void* memory) {
    EXPECT_THAT(driver.contexts, ElementsAre(&context_of_gpu[1]));
    EXPECT_EQ(driver.pinned.erase(memory), 1u);
    return kSuccess;
  };
  return functions;
}

class CudaDriverTest : public testing::Test {
 protected:
  CudaDriverTest() { driver = Driver(); }
  ~CudaDriverTest() override {
    EXPECT_THAT(driver.pinned, IsEmpty());
    EXPECT_THAT(driver.contexts, IsEmpty());
  }

  const CudaDriver functions_ = Functions();
  char memory_[4096];
};

TEST_F(CudaDriverTest, PinsUntilTheHandleIsReleased) {
  const auto pin = PinForCuda(functions_, /*ordinal=*/1);
  ASSERT_TRUE(pin.ok()) << pin.status();
  const std::shared_ptr<void> pinned = (*pin)(memory_, sizeof(memory_));
  EXPECT_NE(pinned, nullptr);
  EXPECT_THAT(driver.pinned, ElementsAre(Pair(memory_, 1u)));
}

TEST_F(CudaDriverTest, PinsMemoryThatCannotBeWritten) {
  driver.read_only = true;
  const auto pin = PinForCuda(functions_, /*ordinal=*/1);
  ASSERT_TRUE(pin.ok()) << pin.status();
  const std::shared_ptr<void> pinned = (*pin)(memory_, sizeof(memory_));
  EXPECT_NE(pinned, nullptr);
  EXPECT_THAT(driver.pinned, ElementsAre(Pair(memory_, 9u)));
}

TEST_F(CudaDriverTest, ReturnsNullIfMemoryCannotBePinned) {
  driver.full = true;
  const auto pin = PinForCuda(functions_, /*ordinal=*/1);
  ASSERT_TRUE(pin.ok()) << pin.status();
  EXPECT_EQ((*pin)(memory_, sizeof(memory_)), nullptr);
}

TEST_F(CudaDriverTest, NamesAGpuThatIsMissing) {
  EXPECT_THAT(
      PinForCuda(functions_, /*ordinal=*/2),
      StatusIs(absl::StatusCode::kNotFound, HasSubstr("there is no cuda:2")));
}

TEST_F(CudaDriverTest, GivesTheReasonOfTheDriver) {
  driver.init = kNoDevice;
  EXPECT_THAT(PinForCuda(functions_, /*ordinal=*/0),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("CUDA-capable device")));
  driver = Driver();
  driver.gpus = 0;
  EXPECT_THAT(PinForCuda(functions_, /*ordinal=*/0),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("there is no GPU")));
  driver.init = 999;
  EXPECT_THAT(
      PinForCuda(functions_, /*ordinal=*/0),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("error 999")));
}

// The toolkit's stand-in for the driver has its functions, which do nothing.
TEST(BindCudaDriverTest, FindsEveryFunction) {
  const std::string stub = "/usr/local/cuda/lib64/stubs/libcuda.so";
  if (access(stub.c_str(), R_OK) != 0) GTEST_SKIP() << "needs " << stub;
  const auto functions = BindCudaDriver(stub);
  ASSERT_TRUE(functions.ok()) << functions.status();
  EXPECT_NE(functions->MemHostRegister, nullptr);
}

TEST(BindCudaDriverTest, NamesALibraryThatIsMissing) {
  EXPECT_THAT(BindCudaDriver("libnone.so.1"),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("cannot load libnone.so.1")));
}

}  // namespace
}  // namespace tributary
