#include "server/process/health_watch.h"

#include <filesystem>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/metrics/metrics_page.h"
#include "common/os/file.h"
#include "common/os/log.h"
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

}  // namespace
}  // namespace tributary
