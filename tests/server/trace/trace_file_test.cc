#include "server/trace/trace_file.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/base/json.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/trace_check.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Record = TraceRecords::Record;

Record SpanOf(int name, int track, int64_t begin, int64_t end, int chunk = -1) {
  Record record;
  record.set_kind(Record::SPAN);
  record.set_name(name);
  record.set_track(track);
  record.set_begin_ns(begin);
  record.set_duration_ns(end - begin);
  record.set_step(3);
  record.set_chunk(chunk);
  record.set_micro_batch(-1);
  return record;
}

Record ArrowOf(Record::Kind kind, uint64_t flow, int track, int64_t at,
               int chunk) {
  Record record = SpanOf(0, track, at, at, chunk);
  record.set_kind(kind);
  record.set_flow(flow);
  return record;
}

TracedProcess ProcessOf(const std::string& role, int number,
                        std::vector<Record> records) {
  TracedProcess traced;
  traced.process = {role, number};
  traced.names = {"forward", "layer", "push chunk"};
  traced.tracks = {"compute 0", "push"};
  traced.records = std::move(records);
  traced.complete = true;
  return traced;
}

class TraceFileTest : public testing::Test {
 protected:
  static TraceFile Make() {
    JobSpec job;
    job.mutable_output()->mutable_trace()->set_begin_step(3);
    job.mutable_output()->mutable_trace()->set_end_step(4);
    return TraceFile(job, testing::TempDir(), FileSystem::Posix());
  }
  static nlohmann::json Parsed(const TraceFile& file) {
    nlohmann::json json = ParseJson(file.Text());
    EXPECT_TRUE(json.is_object()) << file.Text();
    return json;
  }
  // The spans of a name, as [thread, begin].
  static std::vector<std::pair<int, double>> SpansOf(const nlohmann::json& json,
                                                     const std::string& name) {
    std::vector<std::pair<int, double>> spans;
    for (const auto& event : json["traceEvents"]) {
      if (event["ph"] == "X" && event["name"] == name) {
        spans.emplace_back(event["tid"], event["ts"]);
      }
    }
    return spans;
  }
};

TEST_F(TraceFileTest, NestsSpansAndSeparatesTransfersThatOverlap) {
  TraceFile file = Make();
  file.Add(1, {ProcessOf("worker", 0,
                         {SpanOf(1, 0, 1100, 1200), SpanOf(0, 0, 1000, 2000),
                          SpanOf(1, 0, 1200, 1300),
                          SpanOf(2, 1, 1000, 1500, /*chunk=*/0),
                          SpanOf(2, 1, 1100, 1900, /*chunk=*/1),
                          SpanOf(2, 1, 1150, 1400, /*chunk=*/2),
                          SpanOf(2, 1, 1500, 1600, /*chunk=*/3)})});
  const nlohmann::json json = Parsed(file);
  EXPECT_THAT(TraceErrors(json), IsEmpty());
  EXPECT_THAT(SpansOf(json, "forward"), ElementsAre(std::make_pair(0, 0.0)));
  EXPECT_THAT(SpansOf(json, "layer"),
              ElementsAre(std::make_pair(0, 0.1), std::make_pair(0, 0.2)));
  EXPECT_THAT(SpansOf(json, "push chunk"),
              ElementsAre(std::make_pair(1, 0.0), std::make_pair(2, 0.1),
                          std::make_pair(3, 0.15), std::make_pair(1, 0.5)));
}

TEST_F(TraceFileTest, ShowsAllProcessesOnOneClock) {
  TraceFile file = Make();
  TracedProcess worker =
      ProcessOf("worker", 0,
                {SpanOf(2, 1, 5000, 5100, 0),
                 ArrowOf(Record::FLOW_BEGIN, 7, 1, 5000, 0)});
  worker.offset_ns = -4000;
  worker.offset_error_ns = 1500;
  file.Add(1, {worker, ProcessOf("server", 0,
                                 {SpanOf(0, 0, 1200, 1300, 0),
                                  ArrowOf(Record::FLOW_END, 7, 0, 1200, 0)})});
  const nlohmann::json json = Parsed(file);
  EXPECT_THAT(TraceErrors(json), IsEmpty());
  EXPECT_THAT(SpansOf(json, "push chunk"), ElementsAre(std::make_pair(0, 0.0)));
  EXPECT_THAT(SpansOf(json, "forward"), ElementsAre(std::make_pair(0, 0.2)));
  EXPECT_EQ(json["otherData"]["processes"][0]["clock_error_microseconds"], 1.5);
  EXPECT_THAT(file.Text(), HasSubstr("\"ph\":\"s\""));
}

TEST_F(TraceFileTest, LeavesOutArrowsWithOneEnd) {
  TraceFile file = Make();
  file.Add(1, {ProcessOf("worker", 0,
                         {SpanOf(2, 1, 1000, 1100, 0),
                          ArrowOf(Record::FLOW_BEGIN, 7, 1, 1000, 0),
                          // Its span is missing.
                          ArrowOf(Record::FLOW_END, 7, 1, 9000, 0)})});
  EXPECT_THAT(TraceErrors(Parsed(file)), IsEmpty());
  EXPECT_THAT(file.Text(), testing::Not(HasSubstr("\"ph\":\"s\"")));
}

TEST_F(TraceFileTest, SaysWhatIsMissing) {
  TraceFile file = Make();
  TracedProcess lost = ProcessOf("worker", 0, {});
  lost.complete = false;
  TracedProcess partial = ProcessOf("worker", 1, {SpanOf(0, 0, 0, 1)});
  partial.complete = false;
  TracedProcess full = ProcessOf("worker", 2, {SpanOf(0, 0, 0, 1)});
  full.dropped = 12;
  TracedProcess unsynchronized = ProcessOf("worker", 3, {SpanOf(0, 0, 0, 1)});
  unsynchronized.offset_error_ns = std::numeric_limits<int64_t>::max();
  file.Add(2, {lost, partial, full, unsynchronized});
  const nlohmann::json json = Parsed(file);
  const auto missing = [&json](int process) {
    return json["otherData"]["processes"][process]["missing"]
        .get<std::string>();
  };
  EXPECT_THAT(missing(0), HasSubstr("all records"));
  EXPECT_THAT(missing(1), HasSubstr("some records"));
  EXPECT_THAT(missing(2), HasSubstr("exceeded the limit"));
  EXPECT_THAT(missing(3), HasSubstr("no probe was answered"));
  EXPECT_EQ(json["otherData"]["processes"][2]["dropped_records"], 12);
}

TEST_F(TraceFileTest, TellsAttemptsApartAndJoinsTheRecordsOfAProcess) {
  TraceFile file = Make();
  file.Add(1, {ProcessOf("worker", 0, {SpanOf(0, 0, 0, 10)})});
  file.Add(1, {ProcessOf("worker", 0, {SpanOf(0, 0, 20, 30)})});
  file.Add(2, {ProcessOf("worker", 0, {SpanOf(0, 0, 40, 50)})});
  const nlohmann::json json = Parsed(file);
  EXPECT_THAT(TraceErrors(json), IsEmpty());
  ASSERT_EQ(json["otherData"]["processes"].size(), 2U);
  EXPECT_EQ(json["otherData"]["processes"][0]["process"],
            "worker 0, attempt 1");
  EXPECT_EQ(SpansOf(json, "forward").size(), 3U);
}

// The collector forgets a process whose records were written.
TEST_F(TraceFileTest, KeepsTheNamesOfEarlierRecords) {
  TraceFile file = Make();
  file.Add(1, {ProcessOf("worker", 0, {SpanOf(2, 1, 100, 200)})});
  TracedProcess later = ProcessOf("worker", 0, {SpanOf(0, 0, 300, 400)});
  later.names = {"forward"};
  later.tracks = {"compute 0"};
  file.Add(1, {later});
  EXPECT_THAT(file.Text(), HasSubstr("push chunk"));
}

TEST_F(TraceFileTest, TellsAWorkerFromTheOneThatReplacedIt) {
  TraceFile file = Make();
  TracedProcess first = ProcessOf("worker", 0, {});
  first.process.incarnation = 1;
  TracedProcess second = ProcessOf("worker", 0, {SpanOf(0, 0, 0, 10)});
  second.process.incarnation = 3;
  file.Add(1, {first, second});
  const nlohmann::json json = Parsed(file);
  EXPECT_EQ(json["otherData"]["processes"][0]["process"],
            "worker 0, incarnation 1");
  EXPECT_EQ(json["otherData"]["processes"][1]["process"],
            "worker 0, incarnation 3");
}

TEST_F(TraceFileTest, EscapesNames) {
  TraceFile file = Make();
  TracedProcess traced = ProcessOf("worker", 0, {SpanOf(0, 0, 0, 10)});
  traced.names[0] = "</script>\"\n\xff";
  traced.tracks[0] = "a\"b";
  file.Add(1, {traced});
  EXPECT_THAT(TraceErrors(Parsed(file)), IsEmpty());
}

// Whatever a process sends, the trace is valid.
TEST_F(TraceFileTest, AnyRecordsGiveAValidTrace) {
  uint64_t random = 7;
  const auto next = [&random](int64_t most) {
    random = random * 6364136223846793005U + 1442695040888963407U;
    return static_cast<int64_t>((random >> 33) % static_cast<uint64_t>(most));
  };
  for (int run = 0; run < 50; ++run) {
    TraceFile file = Make();
    std::vector<Record> records;
    for (int i = 0; i < 200; ++i) {
      const int64_t begin = next(300);
      const int chunk = static_cast<int>(next(4)) - 1;
      const int track = static_cast<int>(next(2));
      switch (next(3)) {
        case 0:
          records.push_back(SpanOf(static_cast<int>(next(3)), track, begin,
                                   begin + next(60), chunk));
          break;
        case 1:
          records.push_back(
              ArrowOf(Record::FLOW_BEGIN, next(50), track, begin, chunk));
          break;
        default:
          records.push_back(
              ArrowOf(Record::FLOW_END, next(50), track, begin, chunk));
      }
    }
    file.Add(1, {ProcessOf("worker", run, std::move(records))});
    ASSERT_THAT(TraceErrors(Parsed(file)), IsEmpty());
  }
}

}  // namespace
}  // namespace tributary
