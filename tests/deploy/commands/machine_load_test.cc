#include "deploy/commands/machine_load.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/command_runner.h"

namespace tributary {
namespace {

using ::testing::IsEmpty;

class MachineLoadTest : public testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  void WriteCpu(int busy, int idle) {
    Write("/proc/stat", absl::StrCat("cpu  ", busy, " 0 0 ", idle,
                                     " 0 0 0 0 0 0\ncpu0 1 2 3\n"));
  }
  void WriteProcess(int pid, const std::string& command, int ticks) {
    const std::string folder = absl::StrCat("/proc/", pid);
    Write(folder + "/cmdline", command);
    Write(folder + "/statm", "9000 1000 7 1 0 1 0\n");
    Write(folder + "/stat",
          absl::StrCat(pid, " (a (name) b) S 1 1 1 0 -1 4194560 1 0 0 0 ",
                       ticks, " 0 0 0 20 0 1\n"));
  }

  const std::string root_ = MakeTestFolder();
  const absl::Time now_ = absl::UnixEpoch();
};

TEST_F(MachineLoadTest, ComputesUseBetweenReadings) {
  MachineLoad load(root_);
  WriteCpu(100, 300);
  WriteProcess(4000012, std::string("/usr/bin/tributary\0worker\0--rank", 32),
               50);
  const MachineReading first = load.Read(now_);
  EXPECT_FALSE(first.busy_percent.has_value());
  ASSERT_EQ(first.processes.size(), 1u);
  EXPECT_FALSE(first.processes[0].cpu_percent.has_value());
  WriteCpu(175, 325);
  WriteProcess(4000012, std::string("/usr/bin/tributary\0worker\0--rank", 32),
               50 + 3 * static_cast<int>(sysconf(_SC_CLK_TCK)));
  const MachineReading second = load.Read(now_ + absl::Seconds(2));
  EXPECT_EQ(second.busy_percent, 75);
  ASSERT_EQ(second.processes.size(), 1u);
  EXPECT_EQ(second.processes[0].name, "tributary worker");
  EXPECT_EQ(second.processes[0].cpu_percent, 150);
  EXPECT_EQ(second.processes[0].memory_bytes, 1000 * sysconf(_SC_PAGESIZE));
}

TEST_F(MachineLoadTest, KnowsWorkersOfOtherPrograms) {
  MachineLoad load(root_);
  WriteProcess(4000007, std::string("python3\0mine.py", 15), 1);
  WriteProcess(4000008, std::string("python3\0other.py", 16), 1);
  Write("/proc/4000007/environ",
        std::string("HOME=/\0TRIBUTARY_COORDINATOR=a:1\0", 34));
  const MachineReading reading = load.Read(now_);
  ASSERT_EQ(reading.processes.size(), 1u);
  EXPECT_EQ(reading.processes[0].pid, 4000007);
  EXPECT_EQ(reading.processes[0].name, "python3 mine.py");
}

TEST_F(MachineLoadTest, TheHottestSensorCounts) {
  Write("/sys/class/thermal/thermal_zone0/temp", "41000\n");
  Write("/sys/class/thermal/thermal_zone1/temp", "48900\n");
  Write("/sys/class/thermal/cooling_device0/type", "fan\n");
  EXPECT_EQ(MachineLoad(root_).Read(now_).degrees, 48);
}

TEST_F(MachineLoadTest, WhatCannotBeReadIsUnknown) {
  const MachineReading reading = MachineLoad(root_ + "/none").Read(now_);
  EXPECT_FALSE(reading.busy_percent.has_value());
  EXPECT_FALSE(reading.degrees.has_value());
  EXPECT_THAT(reading.processes, IsEmpty());
}

}  // namespace
}  // namespace tributary
