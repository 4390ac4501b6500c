#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "common/metrics/metrics_exporter.h"
#include "common/metrics/metrics_page.h"
#include "common/metrics/metrics_registry.h"
#include "common/os/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/http/raw_connection.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(MetricsPageTest, WritesTheFormatOfPrometheus) {
  MetricsPage page;
  page.BeginCounter("a_total", "Things.");
  page.Add(3);
  page.Add(0.1, {{"name", "a \"b\"\\\n"}, {"other", "x"}});
  page.AddGauge("b", "Other things.", std::nan(""));
  page.AddGauge("c", "More.", -std::numeric_limits<double>::infinity());
  EXPECT_EQ(page.text(),
            "# HELP a_total Things.\n"
            "# TYPE a_total counter\n"
            "a_total 3\n"
            "a_total{name=\"a \\\"b\\\"\\\\\\n\",other=\"x\"} "
            "0.10000000000000001\n"
            "# HELP b Other things.\n"
            "# TYPE b gauge\n"
            "b NaN\n"
            "# HELP c More.\n"
            "# TYPE c gauge\n"
            "c -Inf\n");
}

TEST(MetricsPageTest, BucketsOfAHistogramContainTheSmallerOnes) {
  LatencyHistogram histogram;
  histogram.Add(absl::Microseconds(500));
  histogram.Add(absl::Milliseconds(1));
  histogram.Add(absl::Milliseconds(30), 4);
  histogram.Add(absl::Seconds(1000));
  MetricsPage page;
  page.AddHistogram("t_seconds", "Time.", histogram);
  EXPECT_THAT(page.text(),
              AllOf(HasSubstr("t_seconds_bucket{le=\"0.001\"} 2\n"),
                    HasSubstr("t_seconds_bucket{le=\"0.02\"} 2\n"),
                    HasSubstr("t_seconds_bucket{le=\"0.05\"} 6\n"),
                    HasSubstr("t_seconds_bucket{le=\"100\"} 6\n"),
                    HasSubstr("t_seconds_bucket{le=\"+Inf\"} 7\n"),
                    HasSubstr("t_seconds_sum 1000.1215\n"),
                    HasSubstr("t_seconds_count 7\n")));
}

TEST(MetricsRegistryTest, AsksTheCollectorsThatAreRegistered) {
  MetricsRegistry registry;
  auto kept = MetricsRegistry::Add(
      &registry, [](MetricsPage* page) { page->AddGauge("kept", "K.", 1); });
  {
    const auto removed = MetricsRegistry::Add(
        &registry, [](MetricsPage* page) { page->AddGauge("gone", "G.", 1); });
    EXPECT_THAT(registry.Collect(),
                AllOf(HasSubstr("\nkept 1\n"), HasSubstr("\ngone 1\n")));
  }
  const auto moved = std::move(kept);
  EXPECT_THAT(registry.Collect(),
              AllOf(HasSubstr("\nkept 1\n"), Not(HasSubstr("gone")),
                    HasSubstr("process_resident_memory_bytes ")));
  MetricsRegistry::Add(nullptr, nullptr);
}

class MetricsExporterTest : public ::testing::Test {
 protected:
  MetricsExporterTest() : log_(*Logger::Create({})) {}

  MetricsRegistry registry_;
  std::unique_ptr<Logger> log_;
};

TEST_F(MetricsExporterTest, WritesAFileAtOnceAndAtTheEnd) {
  MetricsExporter::Options options;
  options.file = testing::TempDir() + "/tributary.prom";
  double value = 1;
  const auto registration = MetricsRegistry::Add(
      &registry_,
      [&](MetricsPage* page) { page->AddGauge("value", "V.", value); });
  {
    const auto exporter =
        MetricsExporter::Start(options, &registry_, log_.get());
    ASSERT_TRUE(exporter.ok()) << exporter.status();
    EXPECT_EQ((*exporter)->port(), 0);
    EXPECT_THAT(ReadFile(options.file, 1 << 20).value_or(""),
                HasSubstr("\nvalue 1\n"));
    value = 2;
  }
  EXPECT_THAT(ReadFile(options.file, 1 << 20).value_or(""),
              HasSubstr("\nvalue 2\n"));
}

// Collectors take the coordinator's lock.
TEST_F(MetricsExporterTest, AFloodOfRequestsCollectsOnce) {
  MetricsExporter::Options options;
  options.listens = true;
  options.freshness = absl::Hours(1);
  int collected = 0;
  const auto registration = MetricsRegistry::Add(
      &registry_,
      [&](MetricsPage* page) { page->AddGauge("value", "V.", ++collected); });
  const auto exporter = MetricsExporter::Start(options, &registry_, log_.get());
  ASSERT_TRUE(exporter.ok()) << exporter.status();
  for (int i = 0; i < 100; ++i) {
    EXPECT_THAT(Get((*exporter)->port(), "/metrics"), HasSubstr("\nvalue 1\n"));
  }
  EXPECT_EQ(collected, 1);
}

TEST_F(MetricsExporterTest, APageThatIsOldIsCollectedAgain) {
  MetricsExporter::Options options;
  options.listens = true;
  options.freshness = absl::ZeroDuration();
  int collected = 0;
  const auto registration = MetricsRegistry::Add(
      &registry_,
      [&](MetricsPage* page) { page->AddGauge("value", "V.", ++collected); });
  const auto exporter = MetricsExporter::Start(options, &registry_, log_.get());
  ASSERT_TRUE(exporter.ok()) << exporter.status();
  EXPECT_THAT(Get((*exporter)->port(), "/metrics"), HasSubstr("\nvalue 1\n"));
  EXPECT_THAT(Get((*exporter)->port(), "/metrics"), HasSubstr("\nvalue 2\n"));
}

TEST_F(MetricsExporterTest, AFileThatCannotBeWrittenIsAnError) {
  MetricsExporter::Options options;
  options.file = "/proc/none/x.prom";
  EXPECT_THAT(
      MetricsExporter::Start(options, &registry_, log_.get()).status(),
      StatusIs(absl::StatusCode::kNotFound, HasSubstr("/proc/none/x.prom")));
}

}  // namespace
}  // namespace tributary
