// Workers in C, which also shows that the header is one of C.
#include "tributary/c_api.h"

#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/job/job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/library/c_api/c_worker.h"
#include "tests/support/local_cluster.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

constexpr char kJob[] = R"(
model { external { name: "c" } }
data { external { train_samples: 40 evaluation_samples: 20 } }
optimizer { sgd { learning_rate: 0.0625 } }
batch { global: 8 micro_batches: 4 }
steps: 12
)";

class CApiTest : public ::testing::Test {
 protected:
  std::string Directory() {
    const std::string path = absl::StrCat(
        ::testing::TempDir(), "/",
        ::testing::UnitTest::GetInstance()->current_test_info()->name(), "-",
        ++runs_);
    EXPECT_EQ(std::system(absl::StrCat("mkdir -p '", path, "'").c_str()), 0);
    return path;
  }

  // Runs the job with so many workers. Returns the coordinator's status.
  absl::Status Run(int workers, enum mistake mistake = NO_MISTAKE,
                   const std::string& job = kJob) {
    LocalCluster cluster(*ParseJob(job, "c_job"), /*servers=*/1, workers,
                         Directory());
    errors_ = std::vector<tributary_error>(workers);
    std::vector<std::thread> threads;
    for (tributary_error& error : errors_) {
      threads.emplace_back([&] {
        run_c_worker(cluster.coordinator().c_str(), mistake, &error);
      });
    }
    for (std::thread& thread : threads) thread.join();
    const absl::Status status = cluster.Await();
    if (status.ok()) summary_ = cluster.Summary();
    return status;
  }

  int runs_ = 0;
  std::vector<tributary_error> errors_;
  nlohmann::json summary_;
};

TEST_F(CApiTest, TheResultDoesNotDependOnTheNumberOfWorkers) {
  ASSERT_TRUE(Run(1).ok());
  EXPECT_EQ(errors_[0].code, 0) << errors_[0].message;
  EXPECT_STREQ(errors_[0].message, "");
  const nlohmann::json one = summary_;
  EXPECT_EQ(one.value("steps", 0), 12);
  EXPECT_GT(one["evaluation"].value("accuracy", 0.0), 0);
  ASSERT_TRUE(Run(3).ok());
  EXPECT_EQ(summary_["weights_sha256"], one["weights_sha256"]);
}

constexpr char kRuleJob[] = R"(
model { external { name: "c" } }
data { external { train_samples: 40 evaluation_samples: 20 } }
optimizer { program { state_arrays: 1 } }
exchange { all_reduce {} }
batch { global: 8 micro_batches: 4 }
steps: 12
)";

TEST_F(CApiTest, ARuleThatIsSgdHasTheBitsOfSgd) {
  ASSERT_TRUE(Run(1).ok());
  const nlohmann::json sgd = summary_;
  for (const int workers : {1, 3}) {
    const absl::Status status = Run(workers, OWN_RULE, kRuleJob);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(summary_["weights_sha256"], sgd["weights_sha256"]);
  }
}

TEST_F(CApiTest, TheErrorOfARuleIsThatOfTheJob) {
  const absl::Status status = Run(1, WRONG_RULE, kRuleJob);
  EXPECT_EQ(errors_[0].code, 9);
  EXPECT_THAT(std::string(status.message()), HasSubstr("the rule is wrong"));
}

TEST_F(CApiTest, AProgramHasARuleIfAndOnlyIfTheJobNeedsOne) {
  EXPECT_THAT(std::string(Run(1, NO_MISTAKE, kRuleJob).message()),
              HasSubstr("optimizer.program"));
  EXPECT_THAT(std::string(Run(1, OWN_RULE).message()),
              HasSubstr("optimizer sgd"));
}

TEST_F(CApiTest, AWrongDeclarationIsAnError) {
  // The job would wait for another worker.
  const LocalCluster cluster(*ParseJob(kJob, "c_job"), /*servers=*/1,
                             /*expected_workers=*/1, Directory());
  tributary_error error;
  run_c_worker(cluster.coordinator().c_str(), NO_SHAPE, &error);
  EXPECT_EQ(error.code, static_cast<int>(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(error.message, HasSubstr("parameter w"));
}

TEST_F(CApiTest, AForgottenGradientIsAnError) {
  const absl::Status status = Run(1, NO_GRADIENT);
  EXPECT_EQ(errors_[0].code,
            static_cast<int>(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(errors_[0].message, HasSubstr("parameter w has no gradient"));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("parameter w has no gradient"));
}

// What the callbacks of a tributary_run receive.
struct Seen {
  enum mistake mistake = NO_MISTAKE;
  int64_t steps = 0;
  std::string messages;
};

void Compute(void* context, tributary_worker* worker, tributary_error* error) {
  compute_c_worker(worker, static_cast<Seen*>(context)->mistake, error);
}

void OnStep(void* context, const tributary_step_metrics* metrics) {
  EXPECT_EQ(metrics->step, ++static_cast<Seen*>(context)->steps);
}

void OnMessage(void* context, const char* text) {
  static_cast<Seen*>(context)->messages += text;
}

class CApiRunTest : public CApiTest {
 protected:
  tributary_error Train(int workers) {
    output_ = Directory() + "/run";
    const char* set[] = {"steps=9"};
    tributary_run_options options = {};
    options.text = kJob;
    options.set = set;
    options.set_count = 1;
    options.output_directory = output_.c_str();
    options.workers = workers;
    options.worker = &Compute;
    options.on_step = &OnStep;
    options.on_message = &OnMessage;
    options.context = &seen_;
    tributary_run* const run = tributary_run_create(&options);
    tributary_error error;
    EXPECT_EQ(tributary_run_train(run, &error), error.code);
    tributary_run_free(run);
    return error;
  }
  nlohmann::json Summary() const {
    return nlohmann::json::parse(std::ifstream(output_ + "/summary.json"));
  }

  std::string output_;
  Seen seen_;
};

TEST_F(CApiRunTest, TrainsWithAFunctionAsWorker) {
  EXPECT_STREQ(Train(1).message, "");
  EXPECT_EQ(seen_.steps, 9);
  EXPECT_EQ(seen_.messages, "");
  const nlohmann::json one = Summary();
  seen_ = Seen();
  EXPECT_STREQ(Train(3).message, "");
  EXPECT_EQ(Summary()["weights_sha256"], one["weights_sha256"]);
}

TEST_F(CApiRunTest, TheErrorOfTheFunctionIsThatOfTheJob) {
  seen_.mistake = NO_SHAPE;
  const tributary_error error = Train(2);
  EXPECT_EQ(error.code, static_cast<int>(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(error.message, HasSubstr("parameter w"));
}

TEST(CApiRunOptionsTest, WithoutAJobIsAnError) {
  const tributary_run_options options = {};
  tributary_run* const run = tributary_run_create(&options);
  tributary_run_stop(run);
  tributary_error error;
  EXPECT_NE(tributary_run_train(run, &error), 0);
  tributary_run_free(run);
}

TEST(CApiConnectTest, ReturnsTheErrorOfAWrongAddress) {
  tributary_error error;
  EXPECT_EQ(run_c_worker("nowhere", NO_MISTAKE, &error),
            static_cast<int>(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(error.message, HasSubstr("nowhere"));
}

}  // namespace
}  // namespace tributary
