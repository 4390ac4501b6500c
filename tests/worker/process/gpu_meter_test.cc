#include "worker/process/gpu_meter.h"

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

TEST(GpuMeterTest, ReportsTheWorkersGpu) {
  absl::Notification read_twice;
  int reads = 0;
  GpuMeter meter("0000:3b:00.0", absl::Milliseconds(1), [&] {
    // The first report is stored when the second is asked for.
    if (++reads == 2) read_twice.Notify();
    GpuReport other, own;
    other.bus_id = "0000:1a:00.0";
    other.utilization_percent = 10;
    own.bus_id = "0000:3b:00.0";
    own.utilization_percent = 87;
    own.used_bytes = 5000;
    return std::vector<GpuReport>{other, own};
  });
  read_twice.WaitForNotification();
  ProcessStatistics statistics;
  meter.Fill(&statistics);
  EXPECT_EQ(statistics.gpu_percent(), 87);
  EXPECT_EQ(statistics.gpu_memory_bytes(), 5000);
}

TEST(GpuMeterTest, ReportsNothingWithoutAGpuOrADriver) {
  ProcessStatistics statistics;
  GpuMeter("").Fill(&statistics);
  absl::Notification read_twice;
  int reads = 0;
  GpuMeter broken("0000:3b:00.0", absl::Milliseconds(1),
                  [&]() -> absl::StatusOr<std::vector<GpuReport>> {
                    if (++reads == 2) read_twice.Notify();
                    return absl::FailedPreconditionError("no driver");
                  });
  read_twice.WaitForNotification();
  broken.Fill(&statistics);
  EXPECT_FALSE(statistics.has_gpu_percent());
  EXPECT_EQ(statistics.gpu_memory_bytes(), 0);
}

}  // namespace
}  // namespace tributary
