#include "server/trace/trace_collector.h"

#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

TraceRecords OneSpan() {
  TraceRecords records;
  records.add_name("forward");
  records.add_track("compute 0");
  records.add_record()->set_kind(TraceRecords::Record::SPAN);
  return records;
}

const TracedName kWorker = {"worker", 1, 5};

TEST(TraceCollectorTest, CollectsUntilTheLastMessage) {
  TraceCollector collector;
  EXPECT_FALSE(collector.complete());
  collector.Expect(kWorker);
  ASSERT_TRUE(collector.Add(kWorker, OneSpan()).ok());
  EXPECT_FALSE(collector.complete());
  TraceRecords last = OneSpan();
  last.set_last(true);
  last.set_dropped(3);
  ASSERT_TRUE(collector.Add(kWorker, last).ok());
  EXPECT_TRUE(collector.complete());
  const auto taken = collector.Take();
  ASSERT_THAT(taken, SizeIs(1));
  EXPECT_THAT(taken[0].records, SizeIs(2));
  EXPECT_EQ(taken[0].dropped, 3);
  EXPECT_TRUE(taken[0].complete);
  EXPECT_THAT(collector.Take(), SizeIs(0));
}

TEST(TraceCollectorTest, ALostProcessIsNotWaitedFor) {
  TraceCollector collector;
  collector.Expect(kWorker);
  TraceRecords last = OneSpan();
  last.set_last(true);
  ASSERT_TRUE(collector.Add({"server", 0}, last).ok());
  EXPECT_FALSE(collector.complete());
  collector.Lose(kWorker);
  EXPECT_TRUE(collector.complete());
  EXPECT_THAT(collector.Take(), SizeIs(2));
}

TEST(TraceCollectorTest, RefusesWhatNoCorrectProcessSends) {
  const std::pair<const char*, void (*)(TraceRecords*)> cases[] = {
      {"trace of worker 1: name is 1",
       [](auto* wrong) { wrong->mutable_record(0)->set_name(1); }},
      {"track is -1",
       [](auto* wrong) { wrong->mutable_record(0)->set_track(-1); }},
      {"duration_ns is -1",
       [](auto* wrong) { wrong->mutable_record(0)->set_duration_ns(-1); }},
      {"begin_ns",
       [](auto* wrong) { wrong->mutable_record(0)->set_begin_ns(INT64_MIN); }},
      {"offset_ns", [](auto* wrong) { wrong->set_offset_ns(INT64_MAX); }},
      {"names is 257",
       [](auto* wrong) { wrong->add_name(std::string(257, 'x')); }},
      {"tracks is 257",
       [](auto* wrong) {
         for (int i = 0; i < TraceCollector::kMostTracks; ++i) {
           wrong->add_track("t");
         }
       }},
  };
  TraceCollector collector;
  for (const auto& [message, spoil] : cases) {
    TraceRecords wrong = OneSpan();
    spoil(&wrong);
    EXPECT_THAT(
        collector.Add(kWorker, wrong),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
  }
}

// Records that arrived earlier would refer to names that do not exist.
TEST(TraceCollectorTest, RefusesListsThatBecomeShorter) {
  TraceCollector collector;
  TraceRecords records = OneSpan();
  records.add_name("backward");
  records.add_track("compute 1");
  ASSERT_TRUE(collector.Add(kWorker, records).ok());
  TraceRecords shorter = records;
  shorter.mutable_name()->RemoveLast();
  EXPECT_THAT(std::string(collector.Add(kWorker, shorter).message()),
              HasSubstr("worker 1: has 1 names"));
  shorter = records;
  shorter.mutable_track()->RemoveLast();
  EXPECT_THAT(std::string(collector.Add(kWorker, shorter).message()),
              HasSubstr("1 tracks, expected at least 2"));
  EXPECT_THAT(collector.Take()[0].names, SizeIs(2));
}

TEST(TraceCollectorTest, DropsAndCountsRecordsBeyondTheLimit) {
  TraceCollector collector;
  TraceRecords many = OneSpan();
  while (many.record_size() < 4096) *many.add_record() = many.record(0);
  const int64_t messages = TraceCollector::kMostRecords / 4096 + 2;
  for (int64_t i = 0; i < messages; ++i)
    ASSERT_TRUE(collector.Add(kWorker, many).ok());
  TraceRecords last = OneSpan();
  last.clear_record();
  last.set_dropped(5);
  ASSERT_TRUE(collector.Add(kWorker, last).ok());
  const auto taken = collector.Take();
  EXPECT_EQ(static_cast<int64_t>(taken[0].records.size()),
            TraceCollector::kMostRecords);
  EXPECT_EQ(taken[0].refused, 2 * 4096);
  EXPECT_EQ(taken[0].dropped, 5);
}

}  // namespace
}  // namespace tributary
