#include "common/tensorboard/event_file.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/os/file.h"
#include "common/tensorboard/event.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Folder() {
  return testing::TempDir() + "/" +
         testing::UnitTest::GetInstance()->current_test_info()->name();
}

std::vector<std::string> FilesOf(const std::string& folder) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

// Reads the events of a file, and checks the framing: length, CRC of the
// length, event, CRC of the event.
std::vector<tensorboard::Event> Read(const std::string& path) {
  const std::string bytes = ReadFile(path, 1 << 20).value_or("");
  std::vector<tensorboard::Event> events;
  for (size_t at = 0; at < bytes.size();) {
    uint64_t length = 0;
    uint32_t length_crc = 0, crc = 0;
    std::memcpy(&length, bytes.data() + at, 8);
    std::memcpy(&length_crc, bytes.data() + at + 8, 4);
    EXPECT_EQ(length_crc, MaskedCrc32c(bytes.substr(at, 8)));
    const std::string event = bytes.substr(at + 12, length);
    std::memcpy(&crc, bytes.data() + at + 12 + length, 4);
    EXPECT_EQ(crc, MaskedCrc32c(event));
    EXPECT_TRUE(events.emplace_back().ParseFromString(event));
    at += 16 + length;
  }
  return events;
}

// The check value of CRC-32C, 0xe3069283, and one of RFC 3720, masked.
TEST(EventFileTest, HasTheCrcOfTheStandard) {
  const auto masked = [](uint32_t crc) {
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
  };
  EXPECT_EQ(MaskedCrc32c("123456789"), masked(0xe3069283u));
  EXPECT_EQ(MaskedCrc32c(std::string(32, '\0')), masked(0x8a9136aau));
  EXPECT_EQ(MaskedCrc32c(""), masked(0));
}

TEST(EventFileTest, WritesEvents) {
  const absl::Time now = absl::FromUnixMillis(1764000000500);
  auto file = EventFile::Create(Folder(), now);
  ASSERT_TRUE(file.ok()) << file.status();
  (*file)->AddSessionStart(now, {{"rate", {0.5, ""}}, {"rule", {0, "sgd"}}});
  (*file)->AddScalars(now, 10, {{"train/loss", 1.5}, {"train/rate", 2}});
  (*file)->AddText(now, 20, "sample", "To be");
  (*file)->AddRestart(now, 7);
  (*file)->AddSessionEnd(now, /*success=*/true);
  EXPECT_TRUE((*file)->status().ok());

  const auto paths = FilesOf(Folder());
  ASSERT_EQ(paths.size(), 1u);
  EXPECT_THAT(paths[0], HasSubstr("events.out.tfevents.1764000000."));
  const auto events = Read(paths[0]);
  ASSERT_EQ(events.size(), 6u);
  EXPECT_EQ(events[0].file_version(), "brain.Event:2");
  EXPECT_EQ(events[0].wall_time(), 1764000000.5);
  const auto& start = events[1].summary().value(0);
  EXPECT_EQ(start.tag(), "_hparams_/session_start_info");
  tensorboard::HParams data;
  ASSERT_TRUE(data.ParseFromString(start.metadata().plugin_data().content()));
  const auto& parameters = data.session_start_info().hparams();
  EXPECT_EQ(parameters.at("rate").number_value(), 0.5);
  EXPECT_EQ(parameters.at("rule").string_value(), "sgd");
  EXPECT_EQ(events[2].step(), 10);
  EXPECT_EQ(events[2].summary().value(0).tag(), "train/loss");
  EXPECT_EQ(events[2].summary().value(0).simple_value(), 1.5f);
  EXPECT_EQ(events[3].summary().value(0).tensor().string_val(0), "To be");
  EXPECT_EQ(events[4].step(), 7);
  EXPECT_EQ(events[4].session_log().status(), tensorboard::SessionLog::START);
  ASSERT_TRUE(data.ParseFromString(
      events[5].summary().value(0).metadata().plugin_data().content()));
  EXPECT_EQ(data.session_end_info().status(), 1);
}

TEST(EventFileTest, LaterFilesComeLater) {
  const absl::Time now = absl::FromUnixSeconds(1764000000);
  for (const absl::Duration later :
       {absl::ZeroDuration(), absl::ZeroDuration(), absl::Seconds(1)}) {
    auto file = EventFile::Create(Folder(), now + later);
    ASSERT_TRUE(file.ok()) << file.status();
    (*file)->AddRestart(now, FilesOf(Folder()).size());
  }
  std::vector<int64_t> order;
  for (const std::string& path : FilesOf(Folder())) {
    order.push_back(Read(path)[1].step());
  }
  EXPECT_THAT(order, ElementsAre(1, 2, 3));
}

TEST(EventFileTest, NamesAFolderThatCannotBeMade) {
  EXPECT_THAT(EventFile::Create("/proc/none", absl::Now()).status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/proc/none")));
}

}  // namespace
}  // namespace tributary
