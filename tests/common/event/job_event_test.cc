#include "common/event/job_event.h"

#include <optional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

JobEvent WorkerLost() {
  JobEvent event;
  event.set_id(12);
  event.set_time(1.5);
  event.set_step(7);
  event.set_attempt(2);
  event.set_severity(JobEvent::WARNING);
  event.set_kind("worker_lost");
  event.set_message("a \"b\"\n");
  event.set_role("worker");
  event.set_number(3);
  return event;
}

TEST(JobEventTest, IsALineOfJson) {
  JobEvent event = WorkerLost();
  event.mutable_message()->push_back('\xff');
  EXPECT_EQ(EventLine(event),
            "{\"id\":12,\"time\":1.5,\"step\":7,\"attempt\":2,"
            "\"severity\":\"warning\",\"kind\":\"worker_lost\","
            "\"message\":\"a \\\"b\\\"\\n\xef\xbf\xbd\","
            "\"role\":\"worker\",\"number\":3}");
}

TEST(JobEventTest, MessagesAreUtf8OfBoundedSize) {
  EXPECT_EQ(EventMessage("a\xff\xe2\x82z"), "a\xef\xbf\xbd\xef\xbf\xbdz");
  // The euro sign has three bytes, and 2000 is no multiple of three.
  std::string euros;
  for (int i = 0; i < 1000; ++i) euros += "\xe2\x82\xac";
  EXPECT_EQ(EventMessage(euros), euros.substr(0, 1998));
  const std::string replaced = EventMessage(std::string(5000, '\xff'));
  EXPECT_EQ(replaced.size(), 1998u);
  EXPECT_THAT(replaced, EndsWith("\xef\xbf\xbd"));
}

TEST(JobEventTest, LeavesOutTheProcessIfThereIsNone) {
  JobEvent event;
  event.set_severity(JobEvent::INFO);
  event.set_message(std::string(100000, 'x'));
  const std::string line = EventLine(event);
  EXPECT_THAT(line, HasSubstr("\"severity\":\"info\""));
  EXPECT_THAT(line, Not(HasSubstr("role")));
  EXPECT_LT(line.size(), 3000u);
  EXPECT_THAT(line, EndsWith("x\"}"));
}

TEST(JobEventTest, ParsesItsOwnLines) {
  const JobEvent event = WorkerLost();
  const std::optional<JobEvent> parsed = ParseEventLine(EventLine(event));
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(parsed->SerializeAsString(), event.SerializeAsString());
}

TEST(JobEventTest, IgnoresLinesThatAreNoEvents) {
  for (const char* line :
       {"", "{", "[]", "3", "{\"kind\": \"a\"}", "{\"message\": \"a\"}",
        "{\"kind\": 3, \"message\": \"a\"}"}) {
    EXPECT_FALSE(ParseEventLine(line).has_value()) << line;
  }
  const auto parsed = ParseEventLine(
      R"({"kind": "a", "message": "b", "id": "7", "time": [], "step": 1.5})");
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(parsed->id(), 0);
  EXPECT_EQ(parsed->time(), 0);
  EXPECT_EQ(parsed->step(), 0);
}

}  // namespace
}  // namespace tributary
