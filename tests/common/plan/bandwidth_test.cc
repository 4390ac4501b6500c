#include "common/plan/bandwidth.h"

#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

TEST(BandwidthTest, ReadsBitsAndBytes) {
  const struct {
    const char* text;
    double bytes_per_second;
  } cases[] = {
      {"8bit", 1},        {"10Gbit", 1.25e9},    {"10Gbit/s", 1.25e9},
      {"10Gbps", 1.25e9}, {"2.5 Gbit", 312.5e6}, {"800Mbit", 100e6},
      {"100kbit", 12500}, {"100Kbit", 12500},    {"1Tbit/s", 125e9},
      {"3GB/s", 3e9},     {"3GB", 3e9},          {"200MiB/s", 209715200},
      {"512KiB", 524288}, {"1B/s", 1},           {" 1Gbit ", 125e6},
  };
  for (const auto& c : cases) {
    const absl::StatusOr<double> parsed = ParseBandwidth(c.text);
    ASSERT_TRUE(parsed.ok()) << c.text << ": " << parsed.status();
    EXPECT_DOUBLE_EQ(*parsed, c.bytes_per_second) << c.text;
  }
}

TEST(BandwidthTest, SaysWhatToWriteInstead) {
  const struct {
    const char* text;
    const char* why;
  } cases[] = {
      {"", "does not begin with a number"},
      {"fast", "does not begin with a number"},
      {"-1Gbit", "does not begin with a number"},
      {"1.2.3Gbit", "does not begin with a number"},
      {"10", "has no unit"},
      {"10G", "unknown unit, \"G\""},
      {"10Gb", "unknown unit, \"Gb\""},
      {"10Gb/s", "unknown unit, \"Gb/s\""},
      {"10 Gbits", "unknown unit"},
      {"10iB", "unknown unit"},
      {"10Gibit", "unknown unit"},
      {"10MGbit", "unknown unit"},
      {"10Gbps/s", "unknown unit"},
      {"0Gbit", "is not above zero"},
      {"1e9bit", "unknown unit"},
      {"99999Tbit", "is faster than any link"},
  };
  for (const auto& c : cases) {
    const absl::StatusOr<double> parsed = ParseBandwidth(c.text);
    EXPECT_THAT(parsed,
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.why)))
        << c.text;
    EXPECT_THAT(std::string(parsed.status().message()),
                HasSubstr("10Gbit, 800Mbit or 3GB/s"));
  }
}

TEST(BandwidthTest, IsWrittenInBits) {
  EXPECT_EQ(FormatBandwidth(1.25e9), "10 Gbit/s");
  EXPECT_EQ(FormatBandwidth(312.5e6), "2.5 Gbit/s");
  EXPECT_EQ(FormatBandwidth(100e6), "800 Mbit/s");
  EXPECT_EQ(FormatBandwidth(12500), "100 kbit/s");
  EXPECT_EQ(FormatBandwidth(1), "8 bit/s");
  EXPECT_EQ(FormatBandwidth(50e9), "400 Gbit/s");
}

}  // namespace
}  // namespace tributary
