#include "deploy/flags/run_files.h"

#include <string>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "tests/support/command_runner.h"

namespace tributary {
namespace {

TEST(RunFilesTest, ASummaryIsAnObject) {
  const std::string folder = MakeTestFolder();
  EXPECT_EQ(ReadRunSummary(folder).status().code(),
            absl::StatusCode::kNotFound);
  for (const char* text : {"", "{", "[1]", "null"}) {
    WriteWholeFile(folder + "/summary.json", text);
    EXPECT_EQ(ReadRunSummary(folder).status().code(),
              absl::StatusCode::kDataLoss)
        << text;
  }
  WriteWholeFile(folder + "/summary.json", R"({"steps": 3})");
  EXPECT_EQ(ReadRunSummary(folder)->value("steps", 0), 3);
}

}  // namespace
}  // namespace tributary
