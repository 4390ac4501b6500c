#include "server/progress/job_event.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(JobEventTest, IsALineOfJson) {
  JobEvent event;
  event.step = 7;
  event.attempt = 2;
  event.severity = JobEvent::Severity::kWarning;
  event.kind = "worker_lost";
  event.message = "a \"b\"\n\xff";
  event.role = "worker";
  event.number = 3;
  EXPECT_EQ(
      EventLine(event, absl::FromUnixMillis(1500)),
      "{\"time\":1.5,\"step\":7,\"attempt\":2,\"severity\":\"warning\","
      "\"kind\":\"worker_lost\",\"message\":\"a \\\"b\\\"\\n\xef\xbf\xbd\","
      "\"role\":\"worker\",\"number\":3}");
}

TEST(JobEventTest, LeavesOutTheProcessIfThereIsNone) {
  JobEvent event;
  event.message = std::string(100000, 'x');
  const std::string line = EventLine(event, absl::UnixEpoch());
  EXPECT_THAT(line, HasSubstr("\"severity\":\"info\""));
  EXPECT_THAT(line, Not(HasSubstr("role")));
  EXPECT_LT(line.size(), 3000u);
  EXPECT_THAT(line, EndsWith("x\"}"));
}

}  // namespace
}  // namespace tributary
