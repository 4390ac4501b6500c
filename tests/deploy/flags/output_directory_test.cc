#include "deploy/flags/output_directory.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

std::string Fresh(const std::string& name) {
  return absl::StrCat(testing::TempDir(), "/output_directory_test/", name);
}

void Touch(const std::string& path) { std::ofstream(path) << "x"; }

// As a run that failed before its first step leaves it, and a file of its
// owner.
std::string FailedRun(const std::string& name) {
  const std::string path = Fresh(name);
  std::filesystem::create_directories(path + "/checkpoints");
  std::ofstream(path + "/summary.json")
      << R"({"status": "failed", "steps": 0, "attempt": 1})";
  std::ofstream(path + "/metrics.jsonl").flush();
  Touch(path + "/job.textproto");
  Touch(path + "/notes.txt");
  return path;
}

TEST(DefaultOutputDirectoryTest, IsNameAndTime) {
  const absl::Time time = absl::FromCivil(
      absl::CivilSecond(2024, 5, 1, 12, 3, 4), absl::UTCTimeZone());
  EXPECT_EQ(DefaultOutputDirectory("licenses", time, absl::UTCTimeZone()),
            "runs/licenses-20240501-120304");
  EXPECT_EQ(DefaultOutputDirectory("../a b;$x", time, absl::UTCTimeZone()),
            "runs/..-a-b--x-20240501-120304");
}

TEST(OutputDirectoryTest, MakesFoldersThatAreMissing) {
  const std::string path = Fresh("new/deep");
  ASSERT_TRUE(
      OutputDirectory::Claim(path, OutputDirectory::Earlier::kRefuse).ok());
  EXPECT_TRUE(std::filesystem::is_directory(path));
}

TEST(OutputDirectoryTest, RefusesResultsOfAnotherRunUnlessToldTo) {
  const std::string path = Fresh("used");
  std::filesystem::create_directories(path + "/final");
  for (const char* file : {"/summary.json", "/metrics.jsonl",
                           "/final/model.safetensors", "/notes.txt"}) {
    Touch(path + file);
  }
  EXPECT_THAT(OutputDirectory::Claim(path, OutputDirectory::Earlier::kRefuse),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("--overwrite")));
  EXPECT_TRUE(std::filesystem::exists(path + "/summary.json"));

  ASSERT_TRUE(
      OutputDirectory::Claim(path, OutputDirectory::Earlier::kReplace).ok());
  EXPECT_FALSE(std::filesystem::exists(path + "/summary.json"));
  EXPECT_FALSE(std::filesystem::exists(path + "/metrics.jsonl"));
  EXPECT_FALSE(std::filesystem::exists(path + "/final/model.safetensors"));
  EXPECT_TRUE(std::filesystem::exists(path + "/notes.txt"));
}

TEST(OutputDirectoryTest, ARunThatFailedBeforeItsFirstStepIsNotInTheWay) {
  const std::string path = FailedRun("failed");
  EXPECT_EQ(
      OutputDirectory::Claim(path, OutputDirectory::Earlier::kRefuse).status(),
      absl::OkStatus());
  EXPECT_FALSE(std::filesystem::exists(path + "/summary.json"));
  EXPECT_TRUE(std::filesystem::exists(path + "/notes.txt"));
}

TEST(OutputDirectoryTest, WhatAFailedRunHasMadeStaysProtected) {
  const struct {
    const char* file;
    const char* contents;
    const char* called;
  } kValuables[] = {
      {"checkpoints/step-00000007", nullptr, "checkpoints"},
      {"checkpoints/step-00000007.old-0123456789abcdef", nullptr,
       "checkpoints"},
      {"final/model.safetensors", "x", "results"},
      {"metrics.jsonl", "{\"step\": 1}\n", "results"},
      {"summary.json", R"({"status": "failed", "steps": 3, "attempt": 1})",
       "results"},
      {"summary.json", R"({"status": "done", "steps": 0, "attempt": 1})",
       "results"},
      // Of another program.
      {"summary.json", R"({"status": "failed"})", "results"},
      {"summary.json", "[]", "results"},
      {"summary.json", "x", "results"},
  };
  for (const auto& valuable : kValuables) {
    const std::string path = FailedRun("valuable");
    const std::string file = absl::StrCat(path, "/", valuable.file);
    std::filesystem::create_directories(path + "/final");
    if (valuable.contents == nullptr) {
      std::filesystem::create_directories(file);
    } else {
      std::ofstream(file) << valuable.contents;
    }
    const absl::Status status =
        OutputDirectory::Claim(path, OutputDirectory::Earlier::kRefuse)
            .status();
    EXPECT_THAT(status,
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr(absl::StrCat("holds the ", valuable.called,
                                                " of another run"))))
        << file;
    EXPECT_TRUE(std::filesystem::exists(file)) << file;
    EXPECT_TRUE(std::filesystem::exists(path + "/job.textproto")) << file;
    std::filesystem::remove_all(path);
  }
}

// A run that was killed has no summary.
TEST(OutputDirectoryTest, TheMetricsOfAKilledRunStayProtected) {
  const std::string path = FailedRun("killed");
  std::filesystem::remove(path + "/summary.json");
  std::ofstream(path + "/metrics.jsonl") << "{\"step\": 1}\n";
  const absl::Status refused =
      OutputDirectory::Claim(path, OutputDirectory::Earlier::kRefuse).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(std::filesystem::exists(path + "/metrics.jsonl"));

  // It was killed before its first step.
  std::ofstream(path + "/metrics.jsonl").flush();
  EXPECT_TRUE(
      OutputDirectory::Claim(path, OutputDirectory::Earlier::kRefuse).ok());
}

TEST(OutputDirectoryTest, IsClaimedByOneAtATime) {
  const std::string path = Fresh("claimed");
  absl::StatusOr<std::unique_ptr<OutputDirectory>> first =
      OutputDirectory::Claim(path, OutputDirectory::Earlier::kRefuse);
  ASSERT_TRUE(first.ok());
  const absl::Status second =
      OutputDirectory::Claim(path, OutputDirectory::Earlier::kReplace).status();
  EXPECT_EQ(second.code(), absl::StatusCode::kUnavailable);
  first->reset();
  EXPECT_TRUE(
      OutputDirectory::Claim(path, OutputDirectory::Earlier::kRefuse).ok());
}

TEST(OutputDirectoryTest, RefusesLinksToOtherPlaces) {
  for (const char* name : {"logs", "checkpoints", "metrics.jsonl"}) {
    for (const OutputDirectory::Earlier earlier :
         {OutputDirectory::Earlier::kRefuse, OutputDirectory::Earlier::kReplace,
          OutputDirectory::Earlier::kResume}) {
      SCOPED_TRACE(name);
      const std::string path = Fresh(absl::StrCat("links-", name));
      const std::string other = Fresh("other-place");
      std::filesystem::create_directories(path);
      std::filesystem::create_directories(other);
      Touch(other + "/step-1");
      std::filesystem::remove(absl::StrCat(path, "/", name));
      std::filesystem::create_symlink(other, absl::StrCat(path, "/", name));
      EXPECT_THAT(
          OutputDirectory::Claim(path, earlier),
          StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(name)));
      EXPECT_TRUE(std::filesystem::exists(other + "/step-1"));
    }
  }
}

TEST(OutputDirectoryTest, RemovesWhatKilledProcessesHaveLeft) {
  const std::string path = Fresh("leftovers");
  const std::string checkpoints = path + "/checkpoints";
  std::filesystem::create_directories(checkpoints);
  std::filesystem::create_directories(path + "/logs");
  const std::string mark = ".tmp-0123456789abcdef";
  const auto leave = [&] {
    Touch(path + "/summary.json" + mark);
    Touch(path + "/logs/job.textproto" + mark);
    std::filesystem::create_directories(checkpoints + "/step-1" + mark);
    Touch(checkpoints + "/step-1" + mark + "/shard-0");
  };
  const auto left = [&] {
    int count = 0;
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(path)) {
      if (entry.path().string().find(mark) != std::string::npos) ++count;
    }
    return count;
  };
  Touch(path + "/mine.tmp-1");
  std::filesystem::create_directories(checkpoints + "/step-2");
  leave();
  // A run that is refused changes nothing.
  EXPECT_FALSE(
      OutputDirectory::Claim(path, OutputDirectory::Earlier::kRefuse).ok());
  EXPECT_EQ(left(), 4);
  {
    const auto claimed =
        OutputDirectory::Claim(path, OutputDirectory::Earlier::kResume);
    ASSERT_TRUE(claimed.ok()) << claimed.status();
    EXPECT_EQ(left(), 0);
    leave();
  }
  EXPECT_EQ(left(), 0);
  EXPECT_TRUE(std::filesystem::exists(path + "/mine.tmp-1"));
  EXPECT_TRUE(std::filesystem::exists(checkpoints + "/step-2"));
}

TEST(OutputDirectoryTest, NamesThePathThatCannotBeAFolder) {
  const std::string path = Fresh("file");
  std::filesystem::create_directories(Fresh(""));
  Touch(path);
  EXPECT_THAT(OutputDirectory::Claim(path + "/below",
                                     OutputDirectory::Earlier::kRefuse),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("cannot create folder " + path)));
}

}  // namespace
}  // namespace tributary
