#include "common/os/process.h"

#include <sys/stat.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace tributary {
namespace {

// A folder as /sys/fs/cgroup would be.
class CpuQuotaTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string folder = testing::TempDir() + "/process_test_XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    mount_ = folder;
  }

  void Write(const std::string& folder, const std::string& name,
             const std::string& text) {
    std::string path = mount_;
    size_t begin = 1;
    while (begin < folder.size()) {
      const size_t end = std::min(folder.find('/', begin), folder.size());
      path += "/" + folder.substr(begin, end - begin);
      mkdir(path.c_str(), 0777);
      begin = end + 1;
    }
    std::ofstream(path + "/" + name) << text;
  }

  std::string mount_;
};

TEST(ProcessTest, PeakMemoryGrowsWithUse) {
  const int64_t before = PeakMemoryBytes();
  EXPECT_GT(before, 1 << 20);
  std::vector<char> memory(before + (16 << 20), 'x');
  // Keeps the compiler from leaving the memory out.
  volatile char use = memory[memory.size() / 2];
  EXPECT_EQ(use, 'x');
  EXPECT_GT(PeakMemoryBytes(), before);
}

TEST(ProcessTest, CpuTimeGrowsWithWork) {
  const double before = CpuSeconds();
  volatile double x = 0;
  while (CpuSeconds() == before) x = std::sqrt(x + 1);
  EXPECT_GT(CpuSeconds(), before);
}

TEST(ProcessTest, ThereIsAHostAndACore) {
  EXPECT_FALSE(HostName().empty());
  EXPECT_GE(UsableCores(), 1);
}

TEST(ProcessTest, ReadsCpuMax) {
  EXPECT_EQ(ParseCpuMax("150000 100000\n"), 1.5);
  EXPECT_EQ(ParseCpuMax("max 100000\n"), std::nullopt);
  EXPECT_EQ(ParseCpuMax(""), std::nullopt);
  EXPECT_EQ(ParseCpuMax("100000"), std::nullopt);
  EXPECT_EQ(ParseCpuMax("100000 0"), std::nullopt);
  EXPECT_EQ(ParseCpuMax("-1 100000"), std::nullopt);
}

TEST_F(CpuQuotaTest, TheSmallestQuotaOnTheWayCounts) {
  Write("/a", "cpu.max", "300000 100000\n");
  Write("/a/b", "cpu.max", "max 100000\n");
  EXPECT_EQ(CpuQuota(mount_, "0::/a/b\n"), 3);
  Write("/a/b", "cpu.max", "50000 100000\n");
  EXPECT_EQ(CpuQuota(mount_, "0::/a/b\n"), 0.5);
  EXPECT_EQ(CpuQuota(mount_, "0::/a\n"), 3);
  EXPECT_EQ(CpuQuota(mount_, "0::/\n"), std::nullopt);
}

TEST_F(CpuQuotaTest, InAContainerTheRootHasTheQuota) {
  Write("/", "cpu.max", "200000 100000\n");
  EXPECT_EQ(CpuQuota(mount_, "0::/\n"), 2);
  EXPECT_EQ(CpuQuota(mount_, "0::/../x\n"), 2);
}

TEST_F(CpuQuotaTest, KnowsVersionOne) {
  const std::string membership = "4:cpu,cpuacct:/docker/x\n3:memory:/m\n";
  EXPECT_EQ(CpuQuota(mount_, membership), std::nullopt);
  Write("/cpu,cpuacct/docker/x", "cpu.cfs_quota_us", "-1\n");
  Write("/cpu,cpuacct/docker/x", "cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(CpuQuota(mount_, membership), std::nullopt);
  Write("/cpu,cpuacct/docker/x", "cpu.cfs_quota_us", "250000\n");
  EXPECT_EQ(CpuQuota(mount_, membership), 2.5);
}

TEST_F(CpuQuotaTest, NonsenseIsNoQuota) {
  EXPECT_EQ(CpuQuota(mount_, ""), std::nullopt);
  EXPECT_EQ(CpuQuota(mount_, "::\nx\n0::"), std::nullopt);
}

TEST_F(CpuQuotaTest, TheLeastMemoryOnTheWayIsWhatIsAvailable) {
  const std::string meminfo =
      "MemTotal:       2000 kB\nMemAvailable:    1000 kB\n";
  EXPECT_EQ(AvailableMemory(meminfo, mount_, "0::/\n"), 1000 * 1024);
  Write("/a", "memory.max", "500000\n");
  Write("/a", "memory.current", "300000\n");
  Write("/a", "memory.stat", "anon 200000\ninactive_file 100000\n");
  Write("/a/b", "memory.max", "max\n");
  Write("/a/b", "memory.current", "300000\n");
  EXPECT_EQ(AvailableMemory(meminfo, mount_, "0::/a/b\n"), 300000);
  EXPECT_EQ(AvailableMemory("", mount_, "0::/a/b\n"), 300000);
  Write("/a/b", "memory.max", "290000\n");
  EXPECT_EQ(AvailableMemory(meminfo, mount_, "0::/a/b\n"), 0);
  EXPECT_EQ(AvailableMemory("", mount_, "1:cpu:/a\n"), std::nullopt);
}

TEST_F(CpuQuotaTest, MemoryOfVersionOneIsLimitedToo) {
  const std::string membership = "9:name=systemd:/\n4:memory:/x/y\n0::/\n";
  EXPECT_EQ(AvailableMemory("", mount_, membership), std::nullopt);
  Write("/memory", "memory.limit_in_bytes", "9223372036854771712\n");
  Write("/memory", "memory.usage_in_bytes", "700000\n");
  EXPECT_EQ(AvailableMemory("", mount_, membership), std::nullopt);
  Write("/memory/x", "memory.limit_in_bytes", "500000\n");
  Write("/memory/x", "memory.usage_in_bytes", "300000\n");
  Write("/memory/x", "memory.stat", "total_inactive_file 50000\n");
  EXPECT_EQ(AvailableMemory("", mount_, membership), 250000);
}

TEST(ProcessTest, SomeMemoryIsAvailable) {
  EXPECT_GT(AvailableMemoryBytes().value_or(1), 0);
  EXPECT_GE(MemoryLimitBytes().value_or(1), 1);
  EXPECT_GT(ProportionalMemoryBytes(), 0);
}

}  // namespace
}  // namespace tributary
