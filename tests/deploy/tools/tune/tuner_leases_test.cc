#include "deploy/tools/tune/tuner_leases.h"

#include <memory>
#include <string>

#include "common/base/monotonic_clock.h"
#include "gtest/gtest.h"
#include "tests/support/command_runner.h"

namespace tributary {
namespace {

constexpr absl::Duration kLease = absl::Seconds(30);

class TunerLeasesTest : public testing::Test {
 protected:
  std::unique_ptr<TunerLeases> Join(absl::Duration lease) {
    auto leases = TunerLeases::Join(folder_, lease);
    EXPECT_TRUE(leases.ok()) << leases.status();
    return *std::move(leases);
  }

  const std::string folder_ = MakeTestFolder();
  // Does not change its file during the test.
  const std::unique_ptr<TunerLeases> own_ = Join(absl::Hours(24));
  const std::unique_ptr<TunerLeases> observer_ = Join(kLease);
  absl::Time now_ = MonotonicNow();
};

TEST_F(TunerLeasesTest, ALeaseEndsIfItsFileDoesNotChange) {
  EXPECT_NE(own_->id(), observer_->id());
  EXPECT_TRUE(observer_->IsAlive(own_->id(), now_));
  EXPECT_TRUE(observer_->IsAlive(own_->id(), now_ + 0.9 * kLease));
  EXPECT_FALSE(observer_->IsAlive(own_->id(), now_ + kLease));
}

TEST_F(TunerLeasesTest, AChangeRenewsTheLease) {
  const std::string file = folder_ + "/other";
  WriteWholeFile(file, "renewal 1");
  EXPECT_TRUE(observer_->IsAlive("other", now_));
  now_ += 0.9 * kLease;
  WriteWholeFile(file, "renewal 2");
  EXPECT_TRUE(observer_->IsAlive("other", now_));
  now_ += 0.9 * kLease;
  EXPECT_TRUE(observer_->IsAlive("other", now_));
  now_ += 0.1 * kLease;
  EXPECT_FALSE(observer_->IsAlive("other", now_));
}

// Another machine may see a new file late.
TEST_F(TunerLeasesTest, AMissingFileEndsTheLeaseAfterItsTime) {
  EXPECT_TRUE(observer_->IsAlive("missing", now_));
  EXPECT_FALSE(observer_->IsAlive("missing", now_ + kLease));
}

TEST_F(TunerLeasesTest, ATunerTrustsItself) {
  EXPECT_TRUE(own_->IsAlive(own_->id(), now_));
  EXPECT_TRUE(own_->IsAlive(own_->id(), now_ + absl::Hours(99)));
}

TEST_F(TunerLeasesTest, ALiveTunerRenewsItsLease) {
  const auto alive = Join(absl::Milliseconds(60));
  const std::string file = folder_ + "/" + alive->id();
  const std::string before = ReadWholeFile(file);
  const absl::Time deadline = MonotonicNow() + kCommandPatience;
  while (ReadWholeFile(file) == before && MonotonicNow() < deadline) {
  }
  EXPECT_NE(ReadWholeFile(file), before);
}

}  // namespace
}  // namespace tributary
