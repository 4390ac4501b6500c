#include "deploy/tools/runs/run_record.h"

#include <sys/stat.h>

#include <cmath>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "nlohmann/json.hpp"
#include "tests/deploy/tools/runs/run_files.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Pair;

using RunRecordTest = RunFilesTest;

TEST_F(RunRecordTest, KnowsARunThatIsDone) {
  WriteJob("a", "0.1", 1700000000);
  Write("a/summary.json",
        R"({"status":"done","steps":9,"final_loss":0.5,"seconds":3.5,
            "unit":"rows","evaluation":{"loss":0.25,"accuracy":0.75}})");
  RunRecord record(Folder("a"));
  record.Update();
  EXPECT_EQ(record.end().status, "done");
  EXPECT_EQ(record.end().steps, 9);
  EXPECT_EQ(record.end().loss, 0.5);
  EXPECT_EQ(record.end().evaluation_loss, 0.25);
  EXPECT_EQ(record.end().evaluation_accuracy, 0.75);
  EXPECT_EQ(record.end().seconds, 3.5);
  EXPECT_EQ(record.end().unit, "rows");
  EXPECT_EQ(record.began(), absl::FromUnixSeconds(1700000000));
  EXPECT_EQ(record.job().model, "mlp");
  EXPECT_EQ(record.job().steps, 9);
  EXPECT_THAT(record.job().fields,
              Contains(Pair("optimizer.sgd.learning_rate", "0.1")));
}

TEST_F(RunRecordTest, FollowsTheFilesOfARunningJob) {
  RunRecord record(Folder("a"));
  record.Update();
  EXPECT_EQ(record.began(), absl::InfinitePast());
  EXPECT_FALSE(record.progress().step.has_value());
  std::string lines =
      "{\"step\":5,\"loss\":3,\"seconds\":1}\n"
      "{\"step\":5,\"evaluation_loss\":2,\"evaluation_accuracy\":0.5}\n"
      "{\"step\":6,\"loss\":2.5,\"seconds\":2}\n";
  Write("a/metrics.jsonl", lines + "{\"step\":7,\"lo");
  record.Update();
  EXPECT_EQ(record.progress().step, 6);
  EXPECT_EQ(record.progress().loss, 2.5);
  EXPECT_EQ(record.progress().seconds, 2);
  EXPECT_EQ(record.progress().evaluation_loss, 2);
  EXPECT_EQ(record.progress().evaluation_accuracy, 0.5);
  lines += "{\"step\":7,\"loss\":2}\n";
  Write("a/metrics.jsonl", lines);
  record.Update();
  EXPECT_EQ(record.progress().step, 7);
  EXPECT_EQ(record.end().status, "");
  // Without events, the run began when its job file was written.
  Write("a/job.textproto", "steps: 3");
  record.Update();
  EXPECT_NE(record.began(), absl::InfinitePast());
  EXPECT_EQ(record.job().steps, 3);
  std::filesystem::remove(root_ + "/a/metrics.jsonl");
  record.Update();
  EXPECT_FALSE(record.progress().step.has_value());
}

TEST_F(RunRecordTest, FindsTheNewestLineBehindLongOnes) {
  std::string workers;
  for (int i = 0; i < 20000; ++i) absl::StrAppend(&workers, "{\"rank\":1},");
  Write("a/metrics.jsonl",
        absl::StrCat("{\"step\":1,\"loss\":1,\"workers\":[", workers,
                     "{}]}\n{\"step\":2,\"loss\":2,\"workers\":[", workers,
                     "{}]}\n"));
  RunRecord record(Folder("a"));
  record.Update();
  EXPECT_EQ(record.progress().step, 2);
  EXPECT_EQ(record.progress().loss, 2);
}

TEST_F(RunRecordTest, DoesNotTrustTheFiles) {
  Write("a/summary.json", R"({"status":1,"steps":-1,"evaluation":3})");
  Write("a/metrics.jsonl",
        "[]\n{\"step\":\"x\"}\n" + std::string(3 << 20, 'x'));
  Write("a/events.jsonl", std::string(1 << 20, '['));
  Write("a/job.textproto", "no job");
  RunRecord record(Folder("a"));
  record.Update();
  EXPECT_EQ(record.end().status, "");
  EXPECT_FALSE(record.end().steps.has_value());
  EXPECT_TRUE(std::isnan(record.end().evaluation_loss));
  EXPECT_FALSE(record.progress().step.has_value());
  EXPECT_THAT(record.job().status, StatusIs(absl::StatusCode::kInvalidArgument,
                                            HasSubstr("a/job.textproto")));
  std::string summary = "{\"status\":\"done\",\"x\":\"";
  summary.append(RunRecord::kMaxSummaryBytes, 'x');
  Write("b/summary.json", summary + "\"}");
  EXPECT_EQ(SummaryOf(Folder("b")), nullptr);
  std::string fields = "model { mlp { hidden: [1";
  for (size_t i = 0; i < 2 * kMaxJobFields; ++i) fields += ",1";
  Write("b/job.textproto", fields + "] } }");
  ASSERT_EQ(mkfifo((root_ + "/b/metrics.jsonl").c_str(), 0600), 0);
  RunRecord other(Folder("b"));
  other.Update();
  EXPECT_EQ(other.job().fields.size(), kMaxJobFields);
  EXPECT_EQ(other.end().status, "");
}

}  // namespace
}  // namespace tributary
