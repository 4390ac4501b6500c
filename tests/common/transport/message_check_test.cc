#include "common/transport/message_check.h"

#include <string>

#include "gmock/gmock.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "gtest/gtest.h"
#include "proto/rendezvous.pb.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using google::protobuf::io::ArrayInputStream;
using ::testing::HasSubstr;

Limits Small() {
  Limits limits;
  limits.submessages = 4;
  limits.text_bytes = 8;
  return limits;
}

absl::Status Check(const std::string& bytes, const Limits& limits = Small()) {
  ArrayInputStream input(bytes.data(), static_cast<int>(bytes.size()));
  return CheckMessage(*WorkerReport::descriptor(), limits, &input);
}

absl::Status Check(const WorkerReport& report) {
  return Check(report.SerializeAsString());
}

TEST(MessageCheckTest, TakesWhatIsWithinTheLimits) {
  WorkerReport report;
  EXPECT_TRUE(Check(report).ok());
  report.mutable_ready()->mutable_table()->add_parameter()->set_name(
      "12345678");
  report.mutable_ready()->mutable_table()->add_parameter()->add_shape(7);
  EXPECT_TRUE(Check(report).ok());
}

TEST(MessageCheckTest, NumbersInARowAreNoText) {
  WorkerReport report;
  for (int i = 0; i < 100; ++i) {
    report.mutable_heartbeat()
        ->mutable_statistics()
        ->mutable_chunk_latency()
        ->add_count(i);
  }
  EXPECT_TRUE(Check(report).ok());
}

TEST(MessageCheckTest, CountsMessagesAtAnyDepth) {
  WorkerReport report;
  for (int i = 0; i < 3; ++i) {
    report.mutable_ready()->mutable_table()->add_parameter();
  }
  EXPECT_THAT(Check(report),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("at ParameterTable.parameter")));
}

TEST(MessageCheckTest, MeasuresTheDepth) {
  WorkerReport report;
  report.mutable_ready()->mutable_table()->add_parameter();
  Limits limits = Small();
  limits.nesting_depth = 3;
  EXPECT_TRUE(Check(report.SerializeAsString(), limits).ok());
  limits.nesting_depth = 2;
  EXPECT_THAT(
      Check(report.SerializeAsString(), limits),
      StatusIs(absl::StatusCode::kResourceExhausted,
               HasSubstr("more than 2 levels deep (Limits.nesting_depth), at "
                         "ParameterTable.parameter")));
}

TEST(MessageCheckTest, MeasuresTexts) {
  WorkerReport report;
  report.mutable_join()->set_host("123456789");
  EXPECT_THAT(Check(report),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("Join.host has 9 bytes, at most 8")));
}

TEST(MessageCheckTest, UnknownFieldsAreLimitedToo) {
  WorkerReport report;
  report.GetReflection()->MutableUnknownFields(&report)->AddLengthDelimited(
      1000, "123456789");
  EXPECT_EQ(Check(report).code(), absl::StatusCode::kResourceExhausted);
}

TEST(MessageCheckTest, RefusesWhatIsNoMessage) {
  WorkerReport report;
  report.mutable_join()->set_host("host");
  const std::string good = report.SerializeAsString();
  for (const std::string& bytes :
       {std::string("\xff", 1), std::string("\x0a\x7f", 2),
        std::string("\x00\x01", 2), std::string("\x0b\x0c", 2),
        std::string("\x0a\xff\xff\xff\xff\x0f", 6),
        good.substr(0, good.size() - 1)}) {
    EXPECT_EQ(Check(bytes).code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace tributary
