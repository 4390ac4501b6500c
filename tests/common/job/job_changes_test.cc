#include "common/job/job_changes.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/job/job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

constexpr char kJob[] = R"(
model { mlp { hidden: 8 dropout: 0.5 } }
data { csv { train: "train.csv" } }
batch { global: 8 micro_batches: 4 }
optimizer { adamw { learning_rate: 0.01 } }
steps: 10
)";

JobSpec Job() { return ResolveJob(*ParseJob(kJob, "job")); }

// What changes with --set.
std::string ChangesBy(const JobSpec& job, const std::string& set) {
  JobSpec changed = job;
  EXPECT_EQ(SetField(&changed, set), absl::OkStatus());
  return PrintChanges(ResultChanges(job, ResolveJob(changed)));
}

TEST(JobChangesTest, NamesFieldsWithTheirValues) {
  EXPECT_EQ(ChangesBy(Job(), "seed=2"), "seed was 1, is 2");
  EXPECT_EQ(ChangesBy(Job(), "optimizer.adamw.learning_rate=0.02"),
            "optimizer.adamw.learning_rate was 0.01, is 0.02");
  EXPECT_EQ(ChangesBy(Job(), "model.mlp.hidden=[8, 4]"),
            "model.mlp.hidden was [8], is [8, 4]");
  EXPECT_EQ(ChangesBy(Job(), "schedule.decay=cosine"),
            "schedule.decay was CONSTANT, is COSINE");
  EXPECT_EQ(ChangesBy(Job(), "precision=BFLOAT16"),
            "precision was FLOAT32, is BFLOAT16");
  EXPECT_EQ(ChangesBy(Job(), "data.csv.train=other.csv"),
            "data.csv.train was \"train.csv\", is \"other.csv\"");
}

TEST(JobChangesTest, NamesAllOfThem) {
  JobSpec changed = Job();
  changed.set_seed(3);
  changed.mutable_model()->mutable_mlp()->clear_dropout();
  EXPECT_EQ(PrintChanges(ResultChanges(Job(), changed)),
            "model.mlp.dropout was 0.5, is 0; seed was 1, is 3");
}

TEST(JobChangesTest, NamesWhatHoldsAnotherKindOfThing) {
  EXPECT_EQ(ChangesBy(Job(), "optimizer.sgd.learning_rate=0.1"),
            "optimizer was adamw { learning_rate: 0.01 }, is sgd { "
            "learning_rate: 0.1 }");
  EXPECT_EQ(
      ChangesBy(Job(), "exchange.parameter_server.consistency.asynchronous={}"),
      "exchange.parameter_server.consistency was none, is asynchronous {  }");
}

TEST(JobChangesTest, ADefaultThatIsWrittenDownIsNoChange) {
  for (const char* const set :
       {"seed=1", "schedule.warmup_steps=0", "clip_norm=0",
        "exchange.parameter_server.consistency.synchronous={}"}) {
    EXPECT_EQ(ChangesBy(Job(), set), "") << set;
  }
}

TEST(JobChangesTest, WhatNeverChangesAResultDoesNotCount) {
  for (const char* const set :
       {"name=other", "steps=20", "output.directory=there",
        "checkpoint.every_steps=1", "evaluation.every_steps=3",
        "recovery.journal=true", "exchange.transport=WIRE",
        "exchange.all_reduce.shard_optimizer=true",
        "exchange.parameter_server.chunk_bytes=4096"}) {
    EXPECT_EQ(ChangesBy(Job(), set), "") << set;
  }
}

TEST(JobChangesTest, WhereRowsAreNeverChangesAResult) {
  JobSpec job = Job();
  SparseTableSpec* const table = job.mutable_sparse()->add_table();
  table->set_name("t");
  JobSpec changed = job;
  changed.mutable_sparse()->mutable_table(0)->set_memory_bytes(1000);
  changed.mutable_sparse()->mutable_table(0)->mutable_disk();
  EXPECT_EQ(PrintChanges(ResultChanges(job, changed)), "");
  changed.mutable_sparse()->mutable_table(0)->set_capacity(1000);
  EXPECT_NE(PrintChanges(ResultChanges(job, changed)), "");
}

TEST(JobChangesTest, ChunksDecideTheOrderInWhichTheNormIsAddedUp) {
  JobSpec job = Job();
  job.set_clip_norm(1);
  EXPECT_EQ(ChangesBy(job, "exchange.parameter_server.chunk_bytes=4096"),
            "exchange.parameter_server.chunk_bytes was 1048576, is 4096");
}

TEST(JobChangesTest, FindsADifferenceBehindAllThatIsShown) {
  JobSpec was = Job();
  for (int i = 0; i < 100; ++i) {
    was.mutable_model()->mutable_mlp()->add_hidden(1000);
  }
  JobSpec is = was;
  is.mutable_model()->mutable_mlp()->add_hidden(7);
  const std::vector<JobChange> changes = ResultChanges(was, is);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].field, "model.mlp.hidden");
  EXPECT_EQ(changes[0].is.size(), 103u);
}

TEST(JobChangesTest, AJobEndsWithItsLastStepOrWhenItStopsEarly) {
  JobSpec was = Job();
  JobSpec is = was;
  EXPECT_TRUE(SameEnd(was, is));
  is.mutable_evaluation()->set_every_steps(5);
  EXPECT_TRUE(SameEnd(was, is));
  is.mutable_stop_when()->set_patience(3);
  EXPECT_FALSE(SameEnd(was, is));
  EXPECT_TRUE(SameLength(was, is));
  EXPECT_THAT(ResultChanges(was, is), testing::IsEmpty());
  was = is;
  EXPECT_TRUE(SameEnd(was, is));
  is.mutable_stop_when()->set_patience(4);
  EXPECT_FALSE(SameEnd(was, is));
  is = was;
  is.mutable_evaluation()->set_every_steps(6);
  EXPECT_FALSE(SameEnd(was, is));
  is = was;
  is.set_steps(20);
  EXPECT_FALSE(SameEnd(was, is));
}

TEST(JobChangesTest, LengthMattersToAScheduleThatEndsWithTheJob) {
  JobSpec was = Job();
  was.mutable_schedule()->set_decay(ScheduleSpec::COSINE);
  JobSpec is = was;
  EXPECT_FALSE(LengthChangesSchedule(was, is));
  is.set_steps(20);
  EXPECT_TRUE(LengthChangesSchedule(was, is));
  is.mutable_schedule()->set_decay_steps(10);
  EXPECT_FALSE(LengthChangesSchedule(was, is));
  is.mutable_schedule()->clear_decay_steps();
  is.mutable_schedule()->set_decay(ScheduleSpec::STEP);
  EXPECT_FALSE(LengthChangesSchedule(was, is));
  is.clear_schedule();
  EXPECT_FALSE(LengthChangesSchedule(was, is));
}

}  // namespace
}  // namespace tributary
