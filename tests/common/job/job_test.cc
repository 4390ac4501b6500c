#include "common/job/job.h"

#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kGood[] = R"(
model { mlp { hidden: [64, 32] dropout: 0.1 } }
data { idx { directory: "digits" } }
batch { global: 24 }
optimizer { sgd { learning_rate: 0.1 } }
steps: 10
)";

TEST(ParseJobTest, ReadsText) {
  const auto job = ParseJob(kGood, "job.textproto");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->model().mlp().hidden(1), 32);
  EXPECT_EQ(job->batch().global(), 24);
  EXPECT_EQ(job->seed(), 1);
  EXPECT_TRUE(ValidateJob(*job).ok());
}

TEST(ParseJobTest, ReadsJson) {
  const auto job = ParseJob(
      "\n {\"steps\": 3, \"optimizer\": {\"sgd\": {\"learning_rate\": 0.5}},"
      " \"schedule\": {\"decay\": \"COSINE\"}}",
      "job.json");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->steps(), 3);
  EXPECT_EQ(job->optimizer().sgd().learning_rate(), 0.5);
  EXPECT_EQ(job->schedule().decay(), ScheduleSpec::COSINE);
}

TEST(ParseJobTest, SaysWhatIsMeantInJson) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"stepz": 1})", "j: stepz: no such field; did you mean steps?"},
      {R"({"lr": 1})", "lr: no such field; did you mean optimizer.sgd.l"},
      {R"({"lr": 1, "optimizer": {"adamw": {}}})",
       "did you mean optimizer.adamw.learning_rate?"},
      {R"({"learning_rate": 1, "optimizer": {"lion": {}}})",
       "did you mean optimizer.lion.learning_rate?"},
      {R"({"optimizer": {"adamw": {"lr": 1}}})",
       "j: optimizer.adamw.lr: no such field; did you mean "
       "optimizer.adamw.learning_rate?"},
      {R"({"optimizer": {"learning_rate": 1, "adamw": {}}})",
       "did you mean optimizer.adamw.learning_rate?"},
      {R"({"batch_size": 1})", "did you mean batch?"},
      {R"({"max_epochs": 1})", "did you mean epochs?"},
      {R"({"train_samples": 1})", "did you mean data.external.train_samples?"},
      {R"({"optimizer": "AdamW"})",
       R"(j: optimizer: "AdamW" is not an object; write {"adamw": ...})"},
      {R"({"optimizer": {"adamw": 0.1}})",
       R"(adamw: 0.1 is not an object; write {"learning_rate": ...})"},
      {R"({"steps": 2.5})", "j: steps: 2.5 is not a whole number"},
      {R"({"model": {"mlp": {"hidden": [1, "x"]}}})",
       R"(j: model.mlp.hidden[1]: "x" is not a whole number)"},
      {R"({"evaluation": {"disabled": 3}})", "3 is not true or false"},
      {R"({"name": 3})", "j: name: 3 is not a text"},
      {R"({"schedule": {"decay": "COSIN"}})", "one of CONSTANT, LINEAR"},
      {R"({"steps": 1)", "j: "}};
  for (const auto& [text, expected] : cases) {
    const auto job = ParseJob(text, "j");
    EXPECT_THAT(
        job, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(expected)))
        << text;
  }
}

TEST(ParseJobTest, AcceptsAByteOrderMarkAndWindowsLines) {
  const auto job = ParseJob("\xEF\xBB\xBFsteps: 3\r\nseed: 4\r\n", "j");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->seed(), 4);
}

TEST(ParseJobTest, NamesFileLineColumnAndWhatIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {"steps: 1\nmodel {\n  mlp { hiden: 5 }\n}", "3:9: MlpSpec"},
      {"model { mlp { hiden: 5 } }", "\"hiden\"; did you mean hidden?"},
      {"stepz: 1", "1:1: JobSpec has no field \"stepz\"; did you mean steps"},
      {"qqqqqqqq: 1", "1:1: JobSpec has no field \"qqqqqqqq\""},
      {"steps: ten", "1:8: Expected integer"},
      {"steps: 99999999999999999999", "1:8: Integer out of range"},
      {"steps: 1\nsteps: 2", "2:1: Non-repeated field \"steps\""},
      {"data { csv {} idx {} }", "1:15: Field \"idx\""},
      {"model { mlp { activation: RELO } }", "RELU, GELU"},
      {"model { mlp {", "1:14: Expected"},
      {"steps: 1 }", "1:10: Expected"},
      {"name: \"abc", ":1:"},
      {"name: 5", "1:7: Expected string"},
      {"evaluation { disabled: 7 }", "1:24: "},
      {"{\"steps\": 1, \"stepz\": 2}", "stepz"},
      {"{\"steps\": ", "job.textproto: "},
      {"[1]", "JSON"},
      {"model:\n  gpt: {}\n", "YAML"},
      {"---\nsteps: 1\n", "YAML"},
      {"\x01", "1:1: Invalid control characters"},
  };
  for (const auto& [text, message] : cases) {
    EXPECT_THAT(
        ParseJob(text, "job.textproto"),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 AllOf(StartsWith("job.textproto:"), HasSubstr(message))))
        << text;
  }
}

TEST(ParseJobTest, TakesOnlyOtherFormatsForThem) {
  const auto job = ParseJob("model:\n{ mlp { hiden: 5 } }\nsteps: 1", "job");
  EXPECT_THAT(std::string(job.status().message()),
              testing::Not(HasSubstr("looks like")));
}

// No message holds one of its own kind: what is nested deeper than any job is
// refused where that begins.
TEST(ParseJobTest, SurvivesDeepNesting) {
  std::string text = "model { cnn { ";
  for (int i = 0; i < 100000; ++i) text += "block { ";
  EXPECT_THAT(ParseJob(text, "j"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("j:1:23: Block has no field \"block\"")));
}

TEST(LoadJobTest, ReadsAFileAndNamesItInErrors) {
  const std::string path = testing::TempDir() + "/load.textproto";
  std::ofstream(path) << "steps: 1\nseed: x\n";
  const auto job = LoadJob(path);
  EXPECT_THAT(std::string(job.status().message()),
              StartsWith(path + ":2:7: Expected integer"));
  std::ofstream(path) << kGood;
  EXPECT_TRUE(LoadJob(path).ok());
}

TEST(LoadJobTest, RefusesWhatIsNoReadableFile) {
  const std::string large = testing::TempDir() + "/large.textproto";
  std::ofstream(large) << std::string((1 << 20) + 1, '#');
  for (const std::string& path :
       {std::string("/nowhere/job.textproto"), testing::TempDir(), large}) {
    EXPECT_THAT(LoadJob(path),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(path)));
  }
}

TEST(ResolveJobTest, FillsDefaultsThatDependOnOtherFields) {
  const JobSpec job = ResolveJob(*ParseJob(kGood, "j"));
  EXPECT_EQ(job.name(), "mlp");
  EXPECT_EQ(job.batch().micro_batches(), 8);
  EXPECT_EQ(job.evaluation().batch(), 16);
  EXPECT_TRUE(job.exchange().has_parameter_server());
  EXPECT_EQ(job.exchange().parameter_server().chunk_bytes(), 1 << 20);
  EXPECT_TRUE(ValidateJob(job).ok());
  EXPECT_EQ(PrintJob(ResolveJob(job)), PrintJob(job));
}

TEST(ResolveJobTest, TakesTheLargestPowerOfTwoThatDividesTheBatch) {
  const std::pair<int, int> cases[] = {{1, 1},  {2, 2},  {3, 1},   {12, 4},
                                       {20, 4}, {64, 8}, {1000, 8}};
  for (const auto& [global, expected] : cases) {
    JobSpec job;
    job.mutable_batch()->set_global(global);
    EXPECT_EQ(ResolveJob(job).batch().micro_batches(), expected) << global;
  }
}

TEST(ResolveJobTest, LeavesMicroBatchesToBeFoundAndWhatFollowsFromThem) {
  JobSpec job = *ParseJob(kGood, "j");
  job.mutable_batch()->set_micro_batches(kFindMicroBatches);
  EXPECT_TRUE(ValidateJob(job).ok());
  JobSpec resolved = ResolveJob(job);
  EXPECT_EQ(resolved.batch().micro_batches(), kFindMicroBatches);
  EXPECT_EQ(resolved.evaluation().batch(), 0);
  resolved.mutable_batch()->set_micro_batches(1);
  EXPECT_EQ(ResolveJob(resolved).evaluation().batch(),
            std::max(job.batch().global(), kLeastEvaluationBatch));
}

TEST(ResolveJobTest, KeepsWhatIsSet) {
  JobSpec job = *ParseJob(kGood, "j");
  job.set_name("mine");
  job.mutable_batch()->set_micro_batches(2);
  job.mutable_evaluation()->set_batch(5);
  job.mutable_exchange()->mutable_parameter_server()->set_chunk_bytes(4096);
  const JobSpec resolved = ResolveJob(job);
  EXPECT_EQ(resolved.name(), "mine");
  EXPECT_EQ(resolved.batch().micro_batches(), 2);
  EXPECT_EQ(resolved.evaluation().batch(), 5);
  EXPECT_EQ(resolved.exchange().parameter_server().chunk_bytes(), 4096);
}

TEST(ResolveJobTest, PadsConvolutionsToKeepTheSize) {
  JobSpec job;
  job.mutable_batch()->set_global(1);
  CnnSpec* cnn = job.mutable_model()->mutable_cnn();
  cnn->add_block()->set_kernel(5);
  cnn->add_block()->set_padding(0);
  const JobSpec resolved = ResolveJob(job);
  EXPECT_EQ(resolved.model().cnn().block(0).padding(), 2);
  EXPECT_EQ(resolved.model().cnn().block(1).padding(), 0);
}

TEST(ResolveJobTest, PresetsAreDefaultsOfTheSizes) {
  struct Sizes {
    GptSpec::Preset preset;
    int64_t layers, heads, width;
  };
  for (const Sizes& sizes : {Sizes{GptSpec::GPT2_SMALL, 12, 12, 768},
                             Sizes{GptSpec::GPT2_MEDIUM, 24, 16, 1024},
                             Sizes{GptSpec::GPT2_LARGE, 36, 20, 1280},
                             Sizes{GptSpec::GPT2_XL, 48, 25, 1600}}) {
    JobSpec job = *ParseJob(kGood, "j");
    job.mutable_data()->mutable_random();
    job.mutable_model()->mutable_gpt()->set_preset(sizes.preset);
    EXPECT_TRUE(ValidateJob(job).ok()) << ValidateJob(job);
    const JobSpec resolved = ResolveJob(job);
    const GptSpec& gpt = resolved.model().gpt();
    EXPECT_EQ(gpt.layers(), sizes.layers);
    EXPECT_EQ(gpt.heads(), sizes.heads);
    EXPECT_EQ(gpt.width(), sizes.width);
    EXPECT_EQ(gpt.context(), 1024);
    EXPECT_EQ(gpt.vocabulary(), 50257);
    EXPECT_EQ(PrintJob(ResolveJob(resolved)), PrintJob(resolved));
  }
}

TEST(ResolveJobTest, FieldsTakePrecedenceOverAPreset) {
  JobSpec job = *ParseJob(kGood, "j");
  GptSpec* const gpt = job.mutable_model()->mutable_gpt();
  gpt->set_preset(GptSpec::GPT2_MEDIUM);
  gpt->set_layers(4);  // The default without a preset.
  gpt->set_context(256);
  const JobSpec resolved = ResolveJob(job);
  EXPECT_EQ(resolved.model().gpt().layers(), 4);
  EXPECT_EQ(resolved.model().gpt().context(), 256);
  EXPECT_EQ(resolved.model().gpt().width(), 1024);
}

TEST(CheckpointIntervalTest, IsOnByDefaultUnlessStepsAreChosen) {
  JobSpec job;
  EXPECT_EQ(CheckpointInterval(job), absl::Seconds(10));
  // Checkpoints by time would push the ones at these steps out of keep_last.
  job.mutable_checkpoint()->set_every_steps(1000);
  EXPECT_EQ(CheckpointInterval(job), absl::InfiniteDuration());
  job.mutable_checkpoint()->set_every_seconds(0.5);
  EXPECT_EQ(CheckpointInterval(job), absl::Milliseconds(500));
  job.clear_checkpoint();
  job.mutable_checkpoint()->set_keep_last(0);  // All would be kept.
  EXPECT_EQ(CheckpointInterval(job), absl::InfiniteDuration());
  job.clear_checkpoint();
  job.mutable_checkpoint()->set_every_seconds(0);
  EXPECT_EQ(CheckpointInterval(job), absl::InfiniteDuration());
}

TEST(CheckpointIntervalTest, NoCheckpointsNeedsBothToBeZero) {
  JobSpec job;
  EXPECT_TRUE(TakesCheckpoints(job));
  job.mutable_checkpoint()->set_every_steps(0);
  EXPECT_FALSE(TakesCheckpoints(job));
  job.mutable_checkpoint()->set_every_seconds(60);
  EXPECT_TRUE(TakesCheckpoints(job));
}

TEST(PrintJobTest, IsReadBackToTheSameJob) {
  JobSpec job = ResolveJob(*ParseJob(kGood, "j"));
  job.mutable_model()->mutable_mlp()->set_dropout(0.1 + 1e-17);
  job.set_name("Größe \"quoted\"");
  const auto again = ParseJob(PrintJob(job), "printed");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(job, *again));
}

}  // namespace
}  // namespace tributary
