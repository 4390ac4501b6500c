#include "deploy/flags/job_source.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/job/job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(BuiltInJobTest, TakesTheTextsThatExist) {
  const absl::StatusOr<JobSpec> job =
      BuiltInJob("", [](const std::string& path) {
        return path == "/usr/share/common-licenses/GPL-2" ||
               path == "/usr/share/common-licenses/Artistic";
      });
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_THAT(job->data().text().path(),
              ElementsAre("/usr/share/common-licenses/GPL-2",
                          "/usr/share/common-licenses/Artistic"));
  EXPECT_TRUE(ValidateJob(*job).ok()) << ValidateJob(*job);
}

TEST(BuiltInJobTest, TakesCopiesOfTheTextsThatDoNotExist) {
  const absl::StatusOr<JobSpec> job =
      BuiltInJob("/copies", [](const std::string& path) {
        return path == "/usr/share/common-licenses/GPL-2" ||
               path == "/copies/GPL-2" || path == "/copies/Artistic";
      });
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_THAT(
      job->data().text().path(),
      ElementsAre("/usr/share/common-licenses/GPL-2", "/copies/Artistic"));
}

TEST(BuiltInJobTest, SaysWhatToDoWhereThereIsNone) {
  const absl::Status status =
      BuiltInJob("/copies", [](const std::string&) { return false; }).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
}

TEST(ReadJobTest, OverridesInOrder) {
  JobSource source;
  source.path = "examples/mnist.textproto";
  source.sets = {"seed=7", "optimizer.sgd.learning_rate=0.5"};
  source.steps = 30;
  source.log_every_steps = 3;
  source.output_directory = "out";
  const absl::StatusOr<JobSpec> job = ReadJob(source);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->seed(), 7u);
  EXPECT_EQ(job->optimizer().sgd().learning_rate(), 0.5);
  EXPECT_EQ(job->steps(), 30);
  EXPECT_FALSE(job->has_epochs());
  EXPECT_EQ(job->schedule().warmup_steps(), 30);
  EXPECT_EQ(job->output().log_every_steps(), 3);
  EXPECT_EQ(job->output().directory(), "out");
  EXPECT_GT(job->evaluation().batch(), 0);
}

// Its warm-up is longer than ten steps.
TEST(ReadJobTest, StepsThatAreSetShortenTheScheduleToo) {
  JobSource flag;
  flag.path = "examples/mnist.textproto";
  flag.steps = 10;
  const absl::StatusOr<JobSpec> expected = ReadJob(flag);
  ASSERT_TRUE(expected.ok()) << expected.status();
  EXPECT_EQ(expected->schedule().warmup_steps(), 10);
  for (const char* const text : {"steps=10", " steps = 10"}) {
    JobSource set;
    set.path = flag.path;
    set.sets = {text};
    const absl::StatusOr<JobSpec> job = ReadJob(set);
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_EQ(PrintJob(*job), PrintJob(*expected));
  }
}

TEST(ReadJobTest, SaysThatTheDecayIsShorterUnlessItIsSet) {
  JobSource source;
  source.text =
      "model { external { name: 'own' } } "
      "data { external { train_samples: 100 } } batch { global: 8 } "
      "optimizer { sgd { learning_rate: 0.1 } } "
      "steps: 500 schedule { decay: COSINE decay_steps: 400 }";
  std::vector<std::string> remarks;
  const auto decay_steps = [&] {
    remarks.clear();
    const absl::StatusOr<JobSpec> job = ReadJob(source, &remarks);
    EXPECT_TRUE(job.ok()) << job.status();
    return job.ok() ? job->schedule().decay_steps() : -1;
  };
  EXPECT_EQ(decay_steps(), 400);
  source.steps = 400;
  EXPECT_EQ(decay_steps(), 400);
  EXPECT_THAT(remarks, IsEmpty());
  source.steps = 399;
  EXPECT_EQ(decay_steps(), 0);
  EXPECT_THAT(remarks,
              ElementsAre(HasSubstr("--set schedule.decay_steps=400")));
  source.sets = {"schedule.decay_steps=400"};
  EXPECT_EQ(decay_steps(), 400);
  EXPECT_THAT(remarks, IsEmpty());
}

TEST(ReadJobTest, RefusesSetStepsThatAreNone) {
  JobSource source;
  source.path = "examples/mnist.textproto";
  source.sets = {"steps=-10"};
  EXPECT_THAT(ReadJob(source),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("examples/mnist.textproto: steps: -10")));
}

TEST(ReadJobTest, NamesTheFlagThatIsWrong) {
  JobSource source;
  source.path = "examples/mnist.textproto";
  source.sets = {"optimizer.sgd.learning_rat=0.5"};
  const absl::Status status = ReadJob(source).status();
  EXPECT_THAT(status,
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("--set optimizer.sgd.learning_rat=0.5: ")));
  EXPECT_THAT(std::string(status.message()), HasSubstr("learning_rate"));
}

TEST(ReadJobTest, NamesTheFileThatIsWrong) {
  JobSource source;
  source.path = "examples/mnist.textproto";
  source.sets = {"batch.micro_batches=3"};
  EXPECT_THAT(std::string(ReadJob(source).status().message()),
              HasSubstr("examples/mnist.textproto: batch.micro_batches"));
  source.path = "examples/no_such_file.textproto";
  EXPECT_THAT(std::string(ReadJob(source).status().message()),
              HasSubstr("no_such_file"));
}

class ExampleTest : public testing::TestWithParam<const char*> {};

TEST_P(ExampleTest, IsValid) {
  JobSource source;
  source.path = std::string("examples/") + GetParam() + ".textproto";
  const absl::StatusOr<JobSpec> job = ReadJob(source);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->name(), GetParam());
}

INSTANTIATE_TEST_SUITE_P(All, ExampleTest,
                         testing::Values("all_reduce", "asynchronous", "bigmlp",
                                         "csv", "licenses", "local_steps",
                                         "mnist", "mnist_mlp", "resnet",
                                         "shakespeare", "stale_synchronous"));

}  // namespace
}  // namespace tributary
