// SetField of common/job/job.h.
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "common/job/job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

JobSpec SmallJob() {
  return *ParseJob(R"(
    model { mlp { hidden: [64, 32] } }
    data { text { path: "a.txt" } }
    batch { global: 8 }
    optimizer { adamw { learning_rate: 0.001 } }
    steps: 10)",
                   "job");
}

JobSpec Set(const std::string& assignment) {
  JobSpec job = SmallJob();
  const absl::Status status = SetField(&job, assignment);
  EXPECT_TRUE(status.ok()) << assignment << ": " << status;
  return job;
}

TEST(SetFieldTest, SetsEveryKindOfScalar) {
  EXPECT_EQ(Set("steps=25").steps(), 25);
  EXPECT_EQ(Set("seed=18446744073709551615").seed(), ~uint64_t{0});
  EXPECT_EQ(Set("data.csv.label_column=-2").data().csv().label_column(), -2);
  EXPECT_EQ(Set("optimizer.adamw.beta2=0.99").optimizer().adamw().beta2(),
            0.99);
  EXPECT_EQ(Set("clip_norm = 1e-3").clip_norm(), 1e-3);
  EXPECT_TRUE(Set("evaluation.disabled=True").evaluation().disabled());
  EXPECT_FALSE(Set("evaluation.disabled=off").evaluation().disabled());
  EXPECT_EQ(Set("schedule.decay=cosine").schedule().decay(),
            ScheduleSpec::COSINE);
  EXPECT_EQ(Set("name=my run = good").name(), "my run = good");
  EXPECT_EQ(Set("name=\"a\\\"b\"").name(), "a\"b");
  EXPECT_EQ(Set("output.directory=/tmp/\xC3\xA4").output().directory(),
            "/tmp/\xC3\xA4");
}

TEST(SetFieldTest, SetsListsAndTheirElements) {
  EXPECT_THAT(Set("model.mlp.hidden=[5, 6,7]").model().mlp().hidden(),
              ElementsAre(5, 6, 7));
  EXPECT_THAT(Set("model.mlp.hidden=5,6").model().mlp().hidden(),
              ElementsAre(5, 6));
  EXPECT_THAT(Set("model.mlp.hidden=5").model().mlp().hidden(), ElementsAre(5));
  EXPECT_THAT(Set("model.mlp.hidden=[]").model().mlp().hidden(), ElementsAre());
  EXPECT_THAT(Set("model.mlp.hidden[0]=5").model().mlp().hidden(),
              ElementsAre(5, 32));
  EXPECT_THAT(Set("model.mlp.hidden[2]=5").model().mlp().hidden(),
              ElementsAre(64, 32, 5));
  EXPECT_THAT(Set("data.text.path=[b.txt, \"c,d.txt\"]").data().text().path(),
              ElementsAre("b.txt", "c,d.txt"));
}

TEST(SetFieldTest, SetsMessages) {
  const JobSpec gpt = Set("model.gpt={layers: 2 heads: 1}");
  EXPECT_TRUE(gpt.model().has_gpt());
  EXPECT_EQ(gpt.model().gpt().layers(), 2);
  EXPECT_TRUE(Set("model.gpt={}").model().has_gpt());
  EXPECT_EQ(Set("batch=micro_batches: 2").batch().micro_batches(), 2);
  // Replaced, not merged.
  EXPECT_FALSE(Set("batch=micro_batches: 2").batch().has_global());
  const JobSpec cnn =
      Set("model.cnn.block=[{channels: 8}, {channels: 9, pool: NONE}]");
  ASSERT_EQ(cnn.model().cnn().block_size(), 2);
  EXPECT_EQ(cnn.model().cnn().block(1).channels(), 9);
}

TEST(SetFieldTest, GrowsListsOfMessagesOneByOne) {
  JobSpec job = SmallJob();
  ASSERT_TRUE(SetField(&job, "model.cnn.block[0].channels=8").ok());
  ASSERT_TRUE(SetField(&job, "model.cnn.block[1].channels=16").ok());
  ASSERT_TRUE(SetField(&job, "model.cnn.block[0].kernel=5").ok());
  ASSERT_EQ(job.model().cnn().block_size(), 2);
  EXPECT_EQ(job.model().cnn().block(0).kernel(), 5);
  EXPECT_EQ(job.model().cnn().block(1).channels(), 16);
}

TEST(SetFieldTest, AMemberOfAOneofReplacesTheOther) {
  const JobSpec job = Set("optimizer.sgd.learning_rate=0.5");
  EXPECT_TRUE(job.optimizer().has_sgd());
  EXPECT_FALSE(job.optimizer().has_adamw());
}

TEST(SetFieldTest, NamesWhatIsWrongAndChangesNothing) {
  const std::pair<const char*, const char*> cases[] = {
      {"steps", "steps: "},
      {"=5", "path=value"},
      {"stepz=5", "stepz: no such field; did you mean steps?"},
      {"optimizer.learning_rate=1",
       "did you mean optimizer.adamw.learning_rate?"},
      {"learning_rate=1", "did you mean optimizer.adamw.learning_rate?"},
      {"lr=1", "did you mean optimizer.adamw.learning_rate?"},
      {"optimizer.adamw.lr=1", "did you mean optimizer.adamw.learning_rate?"},
      {"hiden=1", "did you mean model.mlp.hidden?"},
      {"optimizer.sdg.learning_rate=1", "optimizer.sgd.learning_rate?"},
      {"model.mlp.hiden[0]=5", "did you mean model.mlp.hidden"},
      {"batch.global.x=5", "batch.global.x: no such field"},
      {"zzzzzzzzzzzz=1", "zzzzzzzzzzzz: no such field"},
      {"batch..global=1", "batch..global: not a path"},
      {"model.mlp.hidden[=1", "not a path"},
      {"model.mlp.hidden[-1]=1", "not a path"},
      {"model.mlp.hidden[x]=1", "not a path"},
      {"model.mlp.hidden[9]=1", "2 elements"},
      {"batch[0].global=1", "batch is not a list"},
      {"steps[0]=1", "steps is not a list"},
      {"model.cnn.block.channels=1", "write block[0]"},
      {"model.cnn.block[1].channels=1", "0 elements"},
      {"steps=ten", "steps: \"ten\" "},
      {"steps=1.5", "steps: \"1.5\" "},
      {"steps=", "steps: \"\" "},
      {"steps=9223372036854775808", "steps: \"9223372036854775808\" "},
      {"seed=-1", "seed: \"-1\" "},
      {"data.csv.label_column=3000000000", "32 bits"},
      {"clip_norm=big", "clip_norm: \"big\" "},
      {"evaluation.disabled=maybe", "evaluation.disabled: \"maybe\" "},
      {"schedule.decay=cosinus", "one of CONSTANT, LINEAR, COSINE"},
      {"schedule.decay=decay_unspecified", "one of CONSTANT, LINEAR, COSINE"},
      {"model.mlp.hidden=[5, x]", "model.mlp.hidden: \"x\" "},
      {"model.mlp.hidden=5,,6", "model.mlp.hidden: \"\" "},
      {"model.gpt={layrs: 2}", "\"layrs\"; did you mean layers?"},
      {"model.gpt=7", "model.gpt: "},
      {"model.gpt={layers: 2}}", "model.gpt: "},
  };
  for (const auto& [assignment, message] : cases) {
    JobSpec job = SmallJob();
    EXPECT_THAT(
        SetField(&job, assignment),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)))
        << assignment;
    EXPECT_EQ(PrintJob(job), PrintJob(SmallJob())) << assignment;
  }
}

TEST(SetFieldTest, TakesTimeInBoundsForAVeryLongPath) {
  JobSpec job = SmallJob();
  const std::string path(100000, 'x');
  EXPECT_THAT(
      SetField(&job, path + "=1"),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no such field")));
}

}  // namespace
}  // namespace tributary
