#include "deploy/flags/device_flag.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Kind = DeviceName::Kind;

Gpus Working(int count) {
  return {[count]() -> absl::StatusOr<int> { return count; },
          [count](int ordinal) {
            return ordinal < count ? absl::OkStatus()
                                   : absl::NotFoundError("there is no such");
          }};
}

Gpus None() {
  return {[]() -> absl::StatusOr<int> {
            return absl::FailedPreconditionError("this machine has no GPU");
          },
          [](int) { return absl::InternalError("asked all the same"); }};
}

Gpus Refusing(const absl::Status& status) {
  return {[]() -> absl::StatusOr<int> { return 1; },
          [status](int) { return status; }};
}

std::string Choose(const std::string& value, int64_t place, const Gpus& gpus,
                   std::string* remark) {
  const absl::StatusOr<DeviceName> name =
      ChooseDevice(value, place, gpus, remark);
  return name.ok() ? FormatDeviceName(*name) : name.status().ToString();
}

TEST(DeviceFlag, AutoTakesGpusInTurn) {
  std::string remark = "old";
  for (const char* value : {"auto", "cuda"}) {
    EXPECT_EQ(Choose(value, 0, Working(2), &remark), "cuda:0");
    EXPECT_EQ(Choose(value, 1, Working(2), &remark), "cuda:1");
    EXPECT_EQ(Choose(value, 2, Working(2), &remark), "cuda:0");
    EXPECT_EQ(remark, "");
  }
}

TEST(DeviceFlag, ANumberIsThatGpuWhateverThePlace) {
  std::string remark;
  EXPECT_EQ(Choose("cuda:1", 2, Working(2), &remark), "cuda:1");
  EXPECT_EQ(Choose("cuda:0", 1, Working(2), &remark), "cuda:0");
  EXPECT_EQ(Choose("cpu", 1, Working(2), &remark), "cpu");
}

TEST(DeviceFlag, AutoIsTheCpuWithoutAGpuAndSaysNothing) {
  std::string remark = "old";
  EXPECT_EQ(Choose("auto", 0, None(), &remark), "cpu");
  EXPECT_EQ(remark, "");
}

TEST(DeviceFlag, AutoIsTheCpuWhereTheGpuIsOfNoUseAndSaysWhy) {
  for (const absl::Status& status :
       {absl::FailedPreconditionError("no code for cuda:0"),
        absl::ResourceExhaustedError("the memory of cuda:0 is full"),
        absl::InternalError("cuda:0 does not answer")}) {
    std::string remark;
    EXPECT_EQ(Choose("auto", 0, Refusing(status), &remark), "cpu");
    EXPECT_THAT(remark, AllOf(HasSubstr(std::string(status.message())),
                              HasSubstr("the CPU computes")));
  }
}

TEST(DeviceFlag, AGpuThatIsFullIsAnErrorWhereItIsAskedFor) {
  std::string remark;
  const Gpus gpus = Refusing(absl::ResourceExhaustedError("memory is full"));
  for (const char* value : {"cuda", "cuda:0"}) {
    EXPECT_THAT(Choose(value, 0, gpus, &remark),
                AllOf(HasSubstr("RESOURCE_EXHAUSTED"),
                      HasSubstr("memory is full"), HasSubstr("--device cpu")));
    EXPECT_EQ(remark, "");
  }
}

TEST(DeviceFlag, AskedForAndMissingSaysWhatToDo) {
  std::string remark;
  for (const char* value : {"cuda", "cuda:0", "cuda:3"}) {
    EXPECT_THAT(
        ChooseDevice(value, 0, None(), &remark),
        StatusIs(absl::StatusCode::kFailedPrecondition,
                 AllOf(HasSubstr(value), HasSubstr("this machine has no GPU"),
                       HasSubstr("--device cpu"))));
  }
  EXPECT_TRUE(absl::IsNotFound(
      ChooseDevice("cuda:2", 0, Working(2), &remark).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(
      ChooseDevice("gpu", 0, Working(2), &remark).status()));
}

TEST(DeviceFlag, ServersOfAnAllReduceAreOnTheCpu) {
  JobSpec job;
  std::string remark;
  const auto choose = [&](const std::string& value) {
    const absl::StatusOr<DeviceName> name = ChooseServerDevice(
        job, value, /*place=*/1, Working(2), &remark, "server-device");
    return name.ok() ? FormatDeviceName(*name) : name.status().ToString();
  };
  EXPECT_EQ(choose("auto"), "cuda:1");
  EXPECT_EQ(choose("cuda:0"), "cuda:0");
  job.mutable_exchange()->mutable_all_reduce();
  EXPECT_EQ(choose("auto"), "cpu");
  EXPECT_EQ(choose("cpu"), "cpu");
  EXPECT_THAT(choose("cuda"), AllOf(HasSubstr("INVALID_ARGUMENT"),
                                    HasSubstr("leave --server-device out")));
  EXPECT_THAT(choose("gpu"), HasSubstr("there is no device"));
}

}  // namespace
}  // namespace tributary
