#include "worker/device/factory/device_factory.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/device/reals.h"

namespace tributary {
namespace {

using testing::HasSubstr;
using Kind = DeviceName::Kind;

TEST(DeviceFactory, ParsesWhatItFormats) {
  for (const char* name : {"auto", "cpu", "cuda:0", "cuda:1", "cuda:15"}) {
    const absl::StatusOr<DeviceName> parsed = ParseDeviceName(name);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(FormatDeviceName(*parsed), name);
  }
}

TEST(DeviceFactory, TakesCudaAsTheFirstGpu) {
  const absl::StatusOr<DeviceName> parsed = ParseDeviceName("cuda");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->kind, Kind::kCuda);
  EXPECT_EQ(parsed->ordinal, 0);
}

TEST(DeviceFactory, SaysWhichNamesThereAre) {
  for (const char* name : {"", "gpu", "CPU", "cuda:", "cuda:-1", "cuda:+1",
                           "cuda: 1", "cuda:x", "cuda:99999999999", "cpu:0"}) {
    const absl::Status status = ParseDeviceName(name).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    for (const char* part : {name, "\"auto\"", "\"cpu\"", "\"cuda:N\""}) {
      EXPECT_THAT(std::string(status.message()), HasSubstr(part));
    }
  }
}

TEST(DeviceFactory, CreatesCpuEverywhere) {
  const auto device = CreateDevice({Kind::kCpu});
  ASSERT_TRUE(device.ok()) << device.status();
  float y = 1;
  const float x = 2;
  (*device)->ops().elementwise->Add({1, AsReals(&x), AsReals(&y)});
  EXPECT_EQ(y, 3);
}

TEST(DeviceFactory, TakesGpuForAutoWhereThereIsOne) {
  const DeviceName resolved = ResolveDeviceName({Kind::kAuto});
  EXPECT_EQ(FormatDeviceName(resolved),
            CountCudaDevices().ok() ? "cuda:0" : "cpu");
  EXPECT_TRUE(CreateDevice({Kind::kAuto}).ok());
}

TEST(DeviceFactory, SaysWhyThereIsNoGpu) {
  if (CountCudaDevices().ok()) GTEST_SKIP() << "this machine has a GPU";
  const absl::Status status = CreateDevice({Kind::kCuda}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  // Which one depends on the build.
  EXPECT_THAT(std::string(status.message()),
              testing::AnyOf(HasSubstr("this build has no CUDA"),
                             HasSubstr("this machine has no GPU")));
  EXPECT_EQ(FormatDeviceName(ResolveDeviceName({Kind::kCuda, 3})), "cuda:3");
}

}  // namespace
}  // namespace tributary
