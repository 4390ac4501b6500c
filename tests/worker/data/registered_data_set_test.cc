// Data sets that a program has registered, through OpenDataSet.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

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
  Numbers(int64_t samples, std::vector<int64_t> vector_dims)
      : samples_(samples) {
    info_.vector_dims = std::move(vector_dims);
  }
  const DataInfo& info() const override { return info_; }
  int64_t train_samples() const override { return samples_; }
  int64_t evaluation_samples() const override { return 5; }
  uint64_t fingerprint() const override { return 77; }
  void ReadTrain(int64_t, absl::Span<const int64_t>, Batch*) const override {}
  void ReadEvaluation(int64_t, int64_t, Batch*) const override {}

 private:
  const int64_t samples_;
  DataInfo info_;
};

absl::StatusOr<std::unique_ptr<DataSet>> OpenNumbers(
    const std::vector<int64_t>& vector_dims, Config* config) {
  const int64_t samples = config->Integer("samples", 9, 0, 100);
  if (samples == 13) return absl::NotFoundError("numbers: no such file");
  if (samples == 14) return nullptr;
  if (samples == 15) return absl::InternalError("numbers: no database");
  return std::make_unique<Numbers>(samples, vector_dims);
}

class RegisteredDataSetTest : public ::testing::Test {
 protected:
  RegisteredDataSetTest() {
    registry_.Add("numbers", [this](Config* config) {
      return OpenNumbers(vector_dims_, config);
    });
    spec_.set_name("numbers");
  }

  absl::StatusOr<std::unique_ptr<DataSet>> Open() {
    JobSpec job;
    *job.mutable_data()->mutable_external() = spec_;
    *job.mutable_sparse() = sparse_;
    return OpenDataSet(job, registry_);
  }
  void ExpectRefused(const std::string& words) {
    EXPECT_THAT(Open(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(words)));
  }

  DataRegistry registry_;
  ExternalDataSpec spec_;
  SparseSpec sparse_;
  std::vector<int64_t> vector_dims_;  // Of the registered data set.
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

TEST_F(RegisteredDataSetTest, MustHaveTheFeaturesOfTheJob) {
  sparse_.add_table()->set_name("t");
  sparse_.mutable_table(0)->set_dim(4);
  sparse_.add_feature()->set_table("t");
  ExpectRefused("sizes [], but sparse has [4]");
  vector_dims_ = {4};
  EXPECT_EQ(Open().status(), absl::OkStatus());
  sparse_.Clear();
  ExpectRefused("sizes [4], but sparse has []");
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
  const auto open = [](Config* config) { return OpenNumbers({}, config); };
  DataRegistry registry;
  registry.Add("numbers", open).Add("numbers", open);
  EXPECT_THAT(registry.status(), StatusIs(absl::StatusCode::kInvalidArgument,
                                          HasSubstr("\"numbers\"")));
}

}  // namespace
}  // namespace tributary
