#include "deploy/run_report.h"

#include <string>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

TEST(RunReportTest, SaysWhatTheSummaryKnows) {
  const absl::StatusOr<std::string> report = FormatRunReport(
      R"({"steps": 600, "final_loss": 1.25, "seconds": 61.2,
          "samples_per_second": 12345, "unit": "tokens",
          "evaluation": {"step": 600, "loss": 1.5, "accuracy": 0.5}})",
      "runs/x");
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(*report,
            "final loss   1.2500\n"
            "evaluation   loss 1.5000, accuracy 50.00 %\n"
            "time         1:01 for 600 steps, 12.3k tokens/s\n"
            "model        runs/x/final/model.safetensors\n");
}

TEST(RunReportTest, ShowsPerplexity) {
  const absl::StatusOr<std::string> report = FormatRunReport(
      R"({"evaluation": {"loss": 1.0, "perplexity": 2.71828}})", "d");
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(*report,
            "evaluation   loss 1.0000, perplexity 2.718\n"
            "model        d/final/model.safetensors\n");
}

TEST(RunReportTest, RefusesWhatIsNoObject) {
  for (const char* text : {"", "{", "[1]", "null"}) {
    const absl::Status status = FormatRunReport(text, "d").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << text;
    EXPECT_EQ(status.message(), "d/summary.json is not a JSON object");
  }
}

TEST(EscapeForTerminalTest, KeepsTextAndEscapesTheRest) {
  EXPECT_EQ(EscapeForTerminal("a b\n\tc~"), "a b\n\tc~");
  EXPECT_EQ(EscapeForTerminal("\x1b[2J\r\x07\x7f"), "\\x1b[2J\\x0d\\x07\\x7f");
  EXPECT_EQ(EscapeForTerminal("gr\xc3\xbc\xc3\x9f \xe2\x82\xac"),
            "gr\xc3\xbc\xc3\x9f \xe2\x82\xac");
  // Truncated, overlong, surrogate, C1 control, beyond Unicode.
  EXPECT_EQ(EscapeForTerminal("\xe2\x82"), "\\xe2\\x82");
  EXPECT_EQ(EscapeForTerminal("\xc0\xaf"), "\\xc0\\xaf");
  EXPECT_EQ(EscapeForTerminal("\xed\xa0\x80"), "\\xed\\xa0\\x80");
  EXPECT_EQ(EscapeForTerminal("\xc2\x9b"), "\\xc2\\x9b");
  EXPECT_EQ(EscapeForTerminal("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
}

}  // namespace
}  // namespace tributary
