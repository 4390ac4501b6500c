#include "server/progress/health_watch.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/metrics/metrics_page.h"
#include "common/os/file.h"
#include "common/os/logger.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(HealthWatchTest, LogsAlarmsOnceAndShowsThemAsMetrics) {
  const std::string directory = absl::StrCat(testing::TempDir(), "/watch");
  std::filesystem::create_directories(directory);
  LogOptions options;
  options.standard_error = false;
  options.file = directory + "/log";
  const std::unique_ptr<Logger> log = *Logger::Create(options);
  HealthWatch watch(directory, log.get());
  watch.Begin(1000);
  const auto page = [&watch] {
    MetricsPage metrics;
    watch.AddMetrics(&metrics);
    return metrics.text();
  };
  watch.Add("no json");
  watch.Add("{\"step\":\"x\",\"workers\":[1,{}]}");
  EXPECT_THAT(page(), HasSubstr("tributary_alarm{kind=\"slow_worker\"} 0\n"));
  for (int step = 1; step <= 60; ++step) {
    watch.Add(absl::StrCat(
        "{\"step\":", step,
        ",\"loss\":1,\"workers\":["
        "{\"rank\":0,\"leaves\":2,\"forward_ms\":4,\"backward_ms\":6},"
        "{\"rank\":1,\"leaves\":0,\"forward_ms\":0,\"backward_ms\":0},"
        "{\"rank\":2,\"leaves\":1,\"forward_ms\":10,\"backward_ms\":20}]}"));
  }
  EXPECT_THAT(page(), HasSubstr("tributary_alarm{kind=\"slow_worker\"} 1\n"));
  const std::string text = ReadFile(options.file, 1 << 20).value();
  const std::string warning =
      "worker 2 is slow: a micro-batch takes it 30 ms, the other workers 5 ms "
      "(median)";
  EXPECT_THAT(text, HasSubstr(absl::StrCat("warning : ", warning)));
  EXPECT_EQ(text.find(warning), text.rfind(warning));
  EXPECT_THAT(text, Not(HasSubstr("worker 1")));
  // Steps that are computed again are not compared with those before.
  watch.Begin(1000);
  EXPECT_THAT(page(), HasSubstr("tributary_alarm{kind=\"slow_worker\"} 0\n"));
}

TEST(HealthWatchTest, TellsThatTheDiskIsNearlyFull) {
  const std::string directory = absl::StrCat(testing::TempDir(), "/full");
  std::filesystem::create_directories(directory + "/checkpoints/step-1");
  std::ofstream(directory + "/checkpoints/step-1/data")
      << std::string(10 << 20, 'x');
  LogOptions options;
  options.standard_error = false;
  options.file = directory + "/log";
  const std::unique_ptr<Logger> log = *Logger::Create(options);
  for (const int free_mb : {19, 21}) {
    SCOPED_TRACE(free_mb);
    std::vector<HealthMonitor::Alarm> alarms;
    HealthWatch::Hooks hooks;
    hooks.on_alarm = [&](int64_t step, const HealthMonitor::Alarm& alarm) {
      EXPECT_EQ(step, 5);
      alarms.push_back(alarm);
    };
    hooks.space = [&](const std::string& folder) {
      EXPECT_EQ(folder, directory);
      std::filesystem::space_info space;
      space.capacity = 1 << 30;
      space.free = space.available = uintmax_t{1} * free_mb << 20;
      return space;
    };
    HealthWatch watch(directory, log.get(), hooks);
    watch.Begin(1000);
    watch.Add("{\"step\":5,\"loss\":1}");
    MetricsPage metrics;
    watch.AddMetrics(&metrics);
    const bool low = free_mb < 20;
    EXPECT_THAT(metrics.text(),
                HasSubstr(absl::StrCat("tributary_alarm{kind=\"disk_low\"} ",
                                       low ? 1 : 0, "\n")));
    ASSERT_EQ(alarms.size(), low ? 1u : 0u);
    if (!low) continue;
    EXPECT_EQ(alarms[0].kind, "disk_low");
    EXPECT_EQ(alarms[0].message,
              absl::StrCat("the disk of ", directory,
                           " is nearly full: 19 MB are free, and a checkpoint "
                           "needs 10 MB"));
  }
}

// In JSON, a number that is not finite is null.
TEST(HealthWatchTest, TellsOfALossThatIsNotFiniteAndOfASkippedStep) {
  const std::string directory = absl::StrCat(testing::TempDir(), "/nan");
  std::filesystem::create_directories(directory);
  LogOptions options;
  options.standard_error = false;
  options.file = directory + "/log";
  const std::unique_ptr<Logger> log = *Logger::Create(options);
  HealthWatch watch(directory, log.get());
  watch.Begin(1000);
  watch.Add("{\"step\":5,\"loss\":null}");
  watch.Add("{\"step\":6,\"skipped\":\"gradient is not finite\"}");
  MetricsPage metrics;
  watch.AddMetrics(&metrics);
  EXPECT_THAT(metrics.text(),
              HasSubstr("tributary_alarm{kind=\"nonfinite_loss\"} 1\n"));
  EXPECT_THAT(metrics.text(),
              HasSubstr("tributary_alarm{kind=\"skipped_step\"} 1\n"));
  const std::string text = ReadFile(options.file, 1 << 20).value();
  EXPECT_THAT(text, HasSubstr("step 5 is not finite"));
  EXPECT_THAT(text, HasSubstr("step 6 was skipped"));
}

}  // namespace
}  // namespace tributary
