// What is made of the answers of a driver that is played here.
#include "worker/device/cuda/libraries/nvml.h"

#include <cstdint>
#include <cstdio>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

constexpr int kNvmlSuccess = 0, kNotSupported = 3, kNotFound = 6,
              kInsufficientSize = 7, kDriverNotLoaded = 9;

// NVML's functions know no caller: the driver's state is global.
struct NvmlDriver {
  int init = kNvmlSuccess;
  int open = 0;  // Inits without their Shutdown.
  bool tells_little = false;
  int lost = -1;  // This GPU cannot be reached.
  unsigned processes = 2;
} nvml_driver;

uintptr_t Number(Nvml::Gpu gpu) { return reinterpret_cast<uintptr_t>(gpu) - 1; }

Nvml NvmlFunctions() {
  Nvml nvml = {};
  nvml.Init = [] {
    if (nvml_driver.init == kNvmlSuccess) ++nvml_driver.open;
    return nvml_driver.init;
  };
  nvml.Shutdown = [] {
    --nvml_driver.open;
    return kNvmlSuccess;
  };
  nvml.ErrorString = [](int result) {
    return result == kDriverNotLoaded ? "Driver Not Loaded" : "another error";
  };
  nvml.DeviceGetCount = [](unsigned* count) {
    *count = 2;
    return kNvmlSuccess;
  };
  nvml.DeviceGetHandleByIndex = [](unsigned index, Nvml::Gpu* gpu) {
    if (static_cast<int>(index) == nvml_driver.lost) return kNotFound;
    *gpu = reinterpret_cast<Nvml::Gpu>(uintptr_t{index} + 1);
    return kNvmlSuccess;
  };
  nvml.DeviceGetName = [](Nvml::Gpu gpu, char* name, unsigned length) {
    std::snprintf(name, length, "GPU of index %d",
                  static_cast<int>(Number(gpu)));
    return kNvmlSuccess;
  };
  nvml.DeviceGetPciInfo = [](Nvml::Gpu gpu, Nvml::PciInfo* info) {
    info->domain = 1;
    info->bus = 0x3b + static_cast<unsigned>(Number(gpu));
    info->device = 2;
    return kNvmlSuccess;
  };
  nvml.DeviceGetMemoryInfo = [](Nvml::Gpu, Nvml::Memory* memory) {
    *memory = {1000, 400, 600};
    return nvml_driver.tells_little ? kNotSupported : kNvmlSuccess;
  };
  nvml.DeviceGetUtilizationRates = [](Nvml::Gpu, Nvml::Utilization* rates) {
    *rates = {80, 20};
    return nvml_driver.tells_little ? kNotSupported : kNvmlSuccess;
  };
  nvml.DeviceGetTemperature = [](Nvml::Gpu, int, unsigned* degrees) {
    *degrees = 61;
    return nvml_driver.tells_little ? kNotSupported : kNvmlSuccess;
  };
  nvml.DeviceGetComputeRunningProcesses = [](Nvml::Gpu, unsigned* count,
                                             Nvml::Process* processes) {
    const unsigned room = *count;
    *count = nvml_driver.processes;
    if (nvml_driver.tells_little) return kNotSupported;
    if (room < nvml_driver.processes) return kInsufficientSize;
    for (unsigned i = 0; i < nvml_driver.processes; ++i) {
      processes[i] = {i + 10, i == 0 ? 500 : ~0ull, 0, 0};
    }
    return kNvmlSuccess;
  };
  return nvml;
}

class NvmlTest : public testing::Test {
 protected:
  NvmlTest() { nvml_driver = NvmlDriver(); }
  ~NvmlTest() override { EXPECT_EQ(nvml_driver.open, 0); }
};

TEST_F(NvmlTest, ReadsWhatTheDriverTells) {
  const auto gpus = ReadGpus(NvmlFunctions());
  ASSERT_TRUE(gpus.ok()) << gpus.status();
  ASSERT_EQ(gpus->size(), 2u);
  const GpuReport& gpu = (*gpus)[1];
  EXPECT_EQ(gpu.name, "GPU of index 1");
  EXPECT_EQ(gpu.bus_id, "0001:3c:02.0");
  EXPECT_EQ(gpu.memory_bytes, 1000);
  EXPECT_EQ(gpu.used_bytes, 600);
  EXPECT_EQ(gpu.utilization_percent, 80);
  EXPECT_EQ(gpu.degrees, 61);
  ASSERT_EQ(gpu.processes.size(), 2u);
  EXPECT_EQ(gpu.processes[0].pid, 10);
  EXPECT_EQ(gpu.processes[0].memory_bytes, 500);
  EXPECT_EQ(gpu.processes[1].memory_bytes, std::nullopt);
}

TEST_F(NvmlTest, LeavesOutWhatTheDriverKeeps) {
  nvml_driver.tells_little = true;
  nvml_driver.lost = 0;
  const auto gpus = ReadGpus(NvmlFunctions());
  ASSERT_TRUE(gpus.ok()) << gpus.status();
  ASSERT_EQ(gpus->size(), 1u);
  EXPECT_EQ((*gpus)[0].name, "GPU of index 1");
  EXPECT_EQ((*gpus)[0].utilization_percent, std::nullopt);
  EXPECT_EQ((*gpus)[0].memory_bytes, 0);
  EXPECT_TRUE((*gpus)[0].processes.empty());
}

TEST_F(NvmlTest, ReadsManyProcesses) {
  nvml_driver.processes = 300;
  const auto gpus = ReadGpus(NvmlFunctions());
  ASSERT_TRUE(gpus.ok()) << gpus.status();
  EXPECT_EQ((*gpus)[0].processes.size(), 300u);
}

TEST_F(NvmlTest, SaysWhyTheDriverTellsNothing) {
  nvml_driver.init = kDriverNotLoaded;
  const absl::Status status = ReadGpus(NvmlFunctions()).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
}

}  // namespace
}  // namespace tributary
