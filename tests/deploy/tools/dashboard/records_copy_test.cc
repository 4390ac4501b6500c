#include "deploy/tools/dashboard/records_copy.h"

#include <cstdlib>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "deploy/tools/dashboard/metrics_index.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

RecordsReply Reply(int64_t generation, int64_t position,
                   const std::string& lines) {
  RecordsReply reply;
  reply.set_run_id("run");
  reply.set_generation(generation);
  reply.set_position(position);
  reply.set_lines(lines);
  reply.set_next_position(position + static_cast<int64_t>(lines.size()));
  return reply;
}

std::string Lines(const RecordsCopy& copy) {
  const auto file = copy.OpenLines();
  EXPECT_TRUE(file.ok()) << file.status();
  return file->Read(0, file->facts().bytes);
}

TEST(RecordsCopyTest, AppendsLinesAndContinuesBehindThem) {
  RecordsCopy copy;
  EXPECT_EQ(copy.NextRequest().run_id(), "");
  RecordsReply reply = Reply(1, 0, "{\"step\":1}\n");
  reply.set_job("steps: 5");
  ASSERT_TRUE(copy.Apply(reply).ok());
  EXPECT_EQ(copy.NextRequest().run_id(), "run");
  EXPECT_EQ(copy.NextRequest().generation(), 1);
  EXPECT_EQ(copy.NextRequest().position(), 11);
  ASSERT_TRUE(copy.Apply(Reply(1, 11, "{\"step\":2}\n")).ok());
  EXPECT_EQ(Lines(copy), "{\"step\":1}\n{\"step\":2}\n");
  EXPECT_EQ(copy.job(), "steps: 5") << "only the first reply has it";
}

TEST(RecordsCopyTest, SkipsLinesThatTheCoordinatorLeavesOut) {
  RecordsCopy copy;
  RecordsReply reply = Reply(1, 0, "");
  reply.set_next_position(5000000);
  ASSERT_TRUE(copy.Apply(reply).ok());
  ASSERT_TRUE(copy.Apply(Reply(1, 5000000, "a\n")).ok());
  EXPECT_EQ(Lines(copy), "a\n");
  EXPECT_EQ(copy.NextRequest().position(), 5000002);
}

TEST(RecordsCopyTest, BeginsAgainWithANewGeneration) {
  RecordsCopy copy;
  MetricsIndex index([&copy] { return copy.OpenLines(); });
  ASSERT_TRUE(
      copy.Apply(Reply(1, 0, "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n"))
          .ok());
  index.Update();
  EXPECT_EQ(index.lines().size(), 3u);
  // The original is being cut.
  ASSERT_TRUE(copy.Apply(Reply(0, 0, "")).ok());
  EXPECT_EQ(copy.NextRequest().generation(), 1);
  index.Update();
  EXPECT_EQ(index.lines().size(), 3u);
  ASSERT_TRUE(copy.Apply(Reply(2, 0, "{\"step\":1}\n")).ok());
  index.Update();
  EXPECT_EQ(index.lines().size(), 1u);
  EXPECT_EQ(index.generation(), 1);
  EXPECT_EQ(copy.NextRequest().position(), 11);
}

TEST(RecordsCopyTest, BeginsAgainWithANewRun) {
  RecordsCopy copy;
  RecordsReply reply = Reply(1, 0, "a\n");
  reply.set_job("old");
  reply.add_event()->set_id(7);
  ASSERT_TRUE(copy.Apply(reply).ok());
  EXPECT_EQ(copy.NextRequest().first_event(), 8);
  reply = Reply(1, 0, "b\n");
  reply.set_run_id("other");
  reply.set_job("new");
  reply.add_event()->set_id(1);
  ASSERT_TRUE(copy.Apply(reply).ok());
  EXPECT_EQ(Lines(copy), "b\n");
  EXPECT_EQ(copy.job(), "new");
  ASSERT_EQ(copy.events().size(), 1u);
  EXPECT_EQ(copy.NextRequest().first_event(), 2);
}

TEST(RecordsCopyTest, KeepsTheNewestEventsOnce) {
  RecordsCopy copy;
  RecordsReply reply = Reply(0, 0, "");
  for (int id = 1; id <= 300; ++id) reply.add_event()->set_id(id);
  ASSERT_TRUE(copy.Apply(reply).ok());
  ASSERT_TRUE(copy.Apply(reply).ok());
  ASSERT_EQ(copy.events().size(), RecordsCopy::kKeptEvents);
  EXPECT_EQ(copy.events().front().id(), 300 - 255);
  EXPECT_EQ(copy.events().back().id(), 300);
}

TEST(RecordsCopyTest, RefusesRepliesToOtherRequests) {
  RecordsReply backwards = Reply(1, 2, "b\n");
  backwards.set_next_position(3);
  RecordsReply endless = Reply(1, 2, "");
  endless.set_more(true);
  RecordsReply lineless = Reply(0, 0, "");
  lineless.set_more(true);
  RecordsReply far = Reply(1, 2, "b\n");
  far.set_next_position(std::numeric_limits<int64_t>::min());
  for (const RecordsReply& reply :
       {Reply(1, 0, "a\n"), Reply(1, 3, "b\n"), Reply(1, 2, "no line end"),
        Reply(2, 2, "b\n"), backwards, endless, lineless, far}) {
    RecordsCopy fresh;
    ASSERT_TRUE(fresh.Apply(Reply(1, 0, "a\n")).ok());
    EXPECT_TRUE(absl::IsInvalidArgument(fresh.Apply(reply)))
        << reply.DebugString();
  }
}

TEST(RecordsCopyTest, ReportsThatItCannotCreateTheFile) {
  const char* const before = std::getenv("TMPDIR");
  const std::string folder = before == nullptr ? "" : before;
  setenv("TMPDIR", "/does/not/exist", 1);
  RecordsCopy copy;
  if (before == nullptr) {
    unsetenv("TMPDIR");
  } else {
    setenv("TMPDIR", folder.c_str(), 1);
  }
  EXPECT_FALSE(copy.OpenLines().ok());
  EXPECT_TRUE(absl::IsNotFound(copy.Apply(Reply(1, 0, "a\n"))));
}

}  // namespace
}  // namespace tributary
