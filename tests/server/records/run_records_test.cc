#include "server/records/run_records.h"

#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/event/job_event.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/command_runner.h"
#include "tests/support/executors.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RunRecordsTest : public testing::Test {
 protected:
  void Begin() { records_.Begin({"run-1", "gpt", "steps: 5\n", folder_}); }

  void Append(const std::string& text) {
    std::ofstream(folder_ + "/metrics.jsonl", std::ios::app) << text;
  }

  absl::StatusOr<RecordsReply> Get(const RecordsRequest& request) {
    std::optional<absl::StatusOr<RecordsReply>> reply;
    records_.Get(request, [&reply](absl::StatusOr<RecordsReply> got) {
      reply = std::move(got);
    });
    reader_.RunAll();
    return *std::move(reply);
  }

  // Returns the request for what follows `reply`.
  static RecordsRequest After(const RecordsReply& reply) {
    RecordsRequest request;
    request.set_run_id(reply.run_id());
    request.set_generation(reply.generation());
    request.set_position(reply.next_position());
    return request;
  }

  static JobEvent Event(const std::string& kind) {
    JobEvent event;
    event.set_severity(JobEvent::INFO);
    event.set_kind(kind);
    event.set_message("something");
    return event;
  }

  const std::string folder_ = MakeTestFolder();
  HeldExecutor reader_;
  std::vector<JobEvent> reported_;
  RunRecords records_{
      {[this] { return std::make_unique<HeldExecutor>(reader_); },
       [this](const JobEvent& event) { reported_.push_back(event); }}};
};

TEST_F(RunRecordsTest, ReturnsTheJobAndNoLinesBeforeTheyAreComplete) {
  Begin();
  Append("{\"step\": 1}\n");
  const auto reply = Get({});
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->run_id(), "run-1");
  EXPECT_EQ(reply->job(), "steps: 5\n");
  EXPECT_EQ(reply->generation(), 0);
  EXPECT_EQ(reply->lines(), "");
}

TEST_F(RunRecordsTest, ContinuesWhereThePreviousReplyEnded) {
  Begin();
  Append("{\"step\": 1}\n{\"step\"");
  records_.EndChange(1);
  const RecordsReply first = *Get({});
  EXPECT_EQ(first.lines(), "{\"step\": 1}\n");
  EXPECT_FALSE(first.more());
  Append(": 2}\n");
  const RecordsReply second = *Get(After(first));
  EXPECT_EQ(second.position(), first.next_position());
  EXPECT_EQ(second.lines(), "{\"step\": 2}\n");
  EXPECT_EQ(second.job(), "");
  EXPECT_EQ(Get(After(second))->lines(), "");
}

TEST_F(RunRecordsTest, BeginsAgainWhenLinesWereRemoved) {
  Begin();
  Append("{\"step\": 1}\n{\"step\": 2}\n");
  records_.EndChange(1);
  const RecordsReply before = *Get({});
  records_.BeginChange();
  EXPECT_EQ(Get(After(before))->generation(), 0);
  std::ofstream(folder_ + "/metrics.jsonl") << "{\"step\": 1}\n";
  records_.EndChange(2);
  const RecordsReply after = *Get(After(before));
  EXPECT_EQ(after.generation(), 2);
  EXPECT_EQ(after.position(), 0);
  EXPECT_EQ(after.lines(), "{\"step\": 1}\n");
}

TEST_F(RunRecordsTest, ReturnsNoLinesThatWereReadDuringAChange) {
  Begin();
  Append("{\"step\": 1}\n");
  records_.EndChange(1);
  // The executor that reads runs a change between the request and the reading.
  std::optional<absl::StatusOr<RecordsReply>> reply;
  records_.Get(
      {}, [&](absl::StatusOr<RecordsReply> got) { reply = std::move(got); });
  records_.BeginChange();
  reader_.RunAll();
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ((*reply)->generation(), 0);
  EXPECT_EQ((*reply)->lines(), "");
}

TEST_F(RunRecordsTest, DividesLongFilesIntoRepliesOfBoundedSize) {
  Begin();
  std::string all;
  for (int i = 0; i < 5000; ++i) {
    absl::StrAppend(&all, i, std::string(700, 'x'), "\n");
  }
  Append(all);
  records_.EndChange(1);
  std::string got;
  RecordsReply reply = *Get({});
  int replies = 1;
  for (; reply.more(); ++replies) {
    got += reply.lines();
    EXPECT_LE(reply.lines().size(), size_t{RunRecords::kReplyBytes});
    reply = *Get(After(reply));
  }
  got += reply.lines();
  EXPECT_EQ(got, all);
  EXPECT_EQ(replies, 4);
}

TEST_F(RunRecordsTest, SkipsALineThatIsTooLong) {
  Begin();
  Append("1\n" + std::string(5 << 20, 'x') + "\n2\n");
  records_.EndChange(1);
  std::string got;
  RecordsReply reply = *Get({});
  for (int i = 0; i < 3; ++i, reply = *Get(After(reply))) got += reply.lines();
  EXPECT_EQ(got, "1\n2\n");
}

TEST_F(RunRecordsTest, RefusesAPositionOutsideOfTheFile) {
  Begin();
  Append("1\n");
  records_.EndChange(1);
  RecordsRequest request = After(*Get({}));
  for (const int64_t position : {-1, 3}) {
    request.set_position(position);
    EXPECT_THAT(Get(request),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("metrics.jsonl, which has 2")));
  }
}

TEST_F(RunRecordsTest, RefusesRequestsWhenTooManyWait) {
  Begin();
  int answered = 0;
  for (int i = 0; i < RunRecords::kMaxPending; ++i) {
    records_.Get({}, [&](const auto&) { ++answered; });
  }
  absl::Status refused;
  records_.Get({}, [&](const absl::StatusOr<RecordsReply>& reply) {
    refused = reply.status();
  });
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kResourceExhausted));
  reader_.RunAll();
  EXPECT_EQ(answered, RunRecords::kMaxPending);
  EXPECT_TRUE(Get({}).ok());
}

TEST_F(RunRecordsTest, NumbersEventsAndKeepsTheNewest) {
  Begin();
  records_.SetAttempt(3);
  for (int i = 0; i < 300; ++i) {
    EXPECT_EQ(records_.AddEvent(Event("a")).id(), i + 1);
  }
  StatusReply status;
  records_.FillStatus(&status);
  EXPECT_EQ(status.run_id(), "run-1");
  EXPECT_EQ(status.name(), "gpt");
  ASSERT_EQ(status.event_size(), RunRecords::kStatusEvents);
  EXPECT_EQ(status.event(15).id(), 300);
  EXPECT_EQ(status.event(15).attempt(), 3);
  EXPECT_GT(status.event(15).time(), 1e9);
  RecordsRequest request;
  EXPECT_EQ(Get(request)->event_size(), int{RunRecords::kKeptEvents});
  request.set_first_event(299);
  EXPECT_EQ(Get(request)->event_size(), 2);
}

// A reply with a text that is not UTF-8 could not be parsed.
TEST_F(RunRecordsTest, RepliesWithMessagesInUtf8) {
  Begin();
  JobEvent event;
  event.set_message("cannot write \xff");
  records_.AddEvent(event);
  StatusReply reply;
  records_.FillStatus(&reply);
  ASSERT_EQ(reply.event_size(), 1);
  EXPECT_EQ(reply.event(0).message(), "cannot write \xef\xbf\xbd");
}

TEST_F(RunRecordsTest, ContinuesTheNumbersOfAnEarlierProcess) {
  JobEvent event = Event("checkpoint");
  std::ofstream file(folder_ + "/events.jsonl");
  file << EventLine(event) << "\n";  // Without an id.
  event.set_id(7);
  file << EventLine(event) << "\n{\"kind\":";
  file.close();
  Begin();
  const RecordsReply reply = *Get({});
  ASSERT_EQ(reply.event_size(), 2);
  EXPECT_EQ(reply.event(0).id(), 1);
  EXPECT_EQ(reply.event(1).id(), 7);
  EXPECT_EQ(records_.AddEvent(Event("a")).id(), 8);
}

TEST_F(RunRecordsTest, AddsAReportedEventOnce) {
  Begin();
  records_.SetAttempt(2);
  EventReport report;
  report.set_id(0x1234);
  *report.mutable_event() = Event("process_restarted");
  report.mutable_event()->set_message("a\nb\x1b[31m");
  report.mutable_event()->set_attempt(99);
  report.mutable_event()->set_step(99);
  ASSERT_TRUE(records_.Report(report, /*step=*/5).ok());
  ASSERT_TRUE(records_.Report(report, /*step=*/6).ok());
  ASSERT_EQ(reported_.size(), 1u);
  EXPECT_EQ(reported_[0].message(), "a b [31m");
  EXPECT_EQ(reported_[0].step(), 5);
  EXPECT_EQ(reported_[0].attempt(), 2);
  EXPECT_EQ(reported_[0].id(), 1);
}

TEST_F(RunRecordsTest, RefusesMalformedReports) {
  Begin();
  EventReport good;
  good.set_id(1);
  *good.mutable_event() = Event("a");
  const auto refused = [&](const EventReport& report, const char* text) {
    EXPECT_THAT(records_.Report(report, 0),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text)));
  };
  EventReport bad = good;
  bad.set_id(0);
  refused(bad, "id is 0");
  for (const std::string& kind :
       {std::string(), std::string("<script>"), std::string(65, 'a')}) {
    bad = good;
    bad.mutable_event()->set_kind(kind);
    refused(bad, "kind must have");
  }
  bad = good;
  bad.mutable_event()->clear_message();
  refused(bad, "message is empty");
  bad = good;
  bad.mutable_event()->clear_severity();
  refused(bad, "severity");
  bad = good;
  bad.mutable_event()->set_role("a role that is too long");
  refused(bad, "role");
  EXPECT_THAT(reported_, IsEmpty());
}

TEST_F(RunRecordsTest, BoundsTheNumberOfReports) {
  Begin();
  EventReport report;
  *report.mutable_event() = Event("a");
  for (int64_t i = 1; i <= RunRecords::kMaxReports; ++i) {
    report.set_id(i);
    ASSERT_TRUE(records_.Report(report, 0).ok());
  }
  report.set_id(RunRecords::kMaxReports + 1);
  EXPECT_THAT(records_.Report(report, 0),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

}  // namespace
}  // namespace tributary
