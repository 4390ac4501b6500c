// Data sets that a program has registered, through OpenDataSet.

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "worker/data/open_data_set.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

class Numbers final : public DataSet {
 public:
  explicit Numbers(int64_t samples) : samples_(samples) {}
  const DataInfo& info() const override { return info_; }
  int64_t train_samples() const override { return samples_; }
  int64_t evaluation_samples() const override { return 5; }
  uint64_t fingerprint() const override { return 77; }
  void ReadTrain(int64_t, absl::Span<const int64_t>, Batch*) const override {}
  void ReadEvaluation(int64_t, int64_t, Batch*) const override {}

 private:
  const int64_t samples_;
  const DataInfo info_;
};

absl::StatusOr<std::unique_ptr<DataSet>> OpenNumbers(Config* config) {
  const int64_t samples = config->Integer("samples", 9, 0, 100);
  if (samples == 13) return absl::NotFoundError("numbers: no such file");
  if (samples == 14) return nullptr;
  if (samples == 15) return absl::InternalError("numbers: no database");
  return std::make_unique<Numbers>(samples);
}

class RegisteredDataSetTest : public ::testing::Test {
 protected:
  RegisteredDataSetTest() {
    registry_.Add("numbers", &OpenNumbers);
    spec_.set_name("numbers");
  }

  absl::StatusOr<std::unique_ptr<DataSet>> Open() {
    JobSpec job;
    *job.mutable_data()->mutable_external() = spec_;
    return OpenDataSet(job, registry_);
  }
  void ExpectRefused(const std::string& words) {
    EXPECT_THAT(Open(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(words)));
  }

  DataRegistry registry_;
  ExternalDataSpec spec_;
};

TEST_F(RegisteredDataSetTest, IsOpenedWithItsConfig) {
  spec_.set_config(R"({"samples": 12})");
  spec_.set_train_samples(12);
  spec_.set_evaluation_samples(5);
  spec_.set_fingerprint(77);
  const auto data = Open();
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ((*data)->train_samples(), 12);
}

TEST_F(RegisteredDataSetTest, MustAgreeWithTheJob) {
  const ExternalDataSpec stated = spec_;
  spec_.set_train_samples(8);
  ExpectRefused("data.external.train_samples: 8, but the data set has 9");
  spec_ = stated;
  spec_.set_evaluation_samples(0);
  ExpectRefused("data.external.evaluation_samples: 0, but the data set has 5");
  spec_ = stated;
  spec_.set_fingerprint(78);
  ExpectRefused("data.external.fingerprint: 78, but the data set has 77");
}

TEST_F(RegisteredDataSetTest, MistakesAreRefused) {
  spec_.set_name("number");
  ExpectRefused("no data set \"number\"; did you mean numbers?");
  spec_.set_name("ratings");
  ExpectRefused("no data set \"ratings\"");
  spec_.set_name("numbers");
  spec_.set_config(R"({"sample": 12})");
  ExpectRefused("data.external.config: there is no member sample");
  spec_.set_config(R"({"samples": 0})");
  ExpectRefused("\"numbers\" has 0 training samples");
  // The factory returns null, or is null.
  spec_.set_config(R"({"samples": 14})");
  ExpectRefused("\"numbers\" returned null");
  registry_.Add("letters", nullptr);
  spec_.set_name("letters");
  ExpectRefused("\"letters\" with a null factory");
}

TEST_F(RegisteredDataSetTest, ErrorsOfTheFactoryAreReturned) {
  spec_.set_config(R"({"samples": 13})");
  EXPECT_EQ(Open().status(), absl::NotFoundError("numbers: no such file"));
}

// Internal would mean that a device has failed, and the worker would be
// restarted.
TEST_F(RegisteredDataSetTest, AnInternalErrorOfTheFactoryIsNoDeviceFailure) {
  spec_.set_config(R"({"samples": 15})");
  EXPECT_EQ(Open().status(),
            absl::FailedPreconditionError("numbers: no database"));
}

TEST(DataRegistryTest, RemembersANameThatWasAddedTwice) {
  DataRegistry registry;
  registry.Add("numbers", &OpenNumbers).Add("numbers", &OpenNumbers);
  EXPECT_THAT(registry.status(), StatusIs(absl::StatusCode::kInvalidArgument,
                                          HasSubstr("\"numbers\"")));
}

}  // namespace
}  // namespace tributary
