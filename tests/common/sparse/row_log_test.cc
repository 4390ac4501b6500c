#include "common/sparse/row_log.h"

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace tributary {
namespace {

constexpr RowLayout kLayout = {6, 2};
constexpr int64_t kSegmentRows = 16;

// A row in memory whose contents follow from `content`.
class Row {
 public:
  Row(uint64_t key, uint32_t content) : words_(kLayout.bytes() / 8) {
    header()->key = key;
    header()->last_step = content;
    for (int i = 0; i < kLayout.floats(); ++i) {
      RowValues(header())[i] = static_cast<float>(content * 31 + i);
    }
  }

  RowHeader* header() { return reinterpret_cast<RowHeader*>(words_.data()); }

 private:
  std::vector<uint64_t> words_;
};

std::unique_ptr<RowLog> MakeLog() {
  return RowLog::Create(testing::TempDir(), kLayout.bytes(),
                        kSegmentRows * kLayout.bytes())
      .value();
}

void ExpectIs(const RowHeader& row, uint64_t key, uint32_t content) {
  Row wanted(key, content);
  EXPECT_EQ(row.key, key);
  EXPECT_EQ(row.last_step, content);
  EXPECT_EQ(std::memcmp(RowValues(&row), RowValues(wanted.header()),
                        4 * kLayout.floats()),
            0);
}

// Returns this process's descriptor of the file of a log.
int DescriptorOfLog() {
  int found = -1;
  DIR* const folder = opendir("/proc/self/fd");
  while (const dirent* const entry = readdir(folder)) {
    char target[4096] = {};
    const std::string link = absl::StrCat("/proc/self/fd/", entry->d_name);
    if (readlink(link.c_str(), target, sizeof(target) - 1) > 0 &&
        absl::StrContains(target, "/tributary-rows-")) {
      found = std::atoi(entry->d_name);
    }
  }
  closedir(folder);
  return found;
}

TEST(RowLogTest, KeepsRowsThatComeMoveAndGo) {
  const auto log = MakeLog();
  struct Place {
    uint32_t position = 0;
    uint32_t content = 0;
  };
  std::map<uint64_t, Place> rows;
  std::mt19937_64 random(1);
  int64_t largest = 0, moved = 0;
  for (uint32_t step = 0; step < 600; ++step) {
    for (int i = 0; i < 5; ++i) {
      const uint64_t key = random() % 200;
      if (const auto old = rows.find(key); old != rows.end()) {
        log->Remove(old->second.position);
        rows.erase(old);
      } else {
        Row row(key, step);
        rows[key] = {log->Append(*row.header()).value(), step};
      }
    }
    const absl::Status compacted =
        log->Compact([&](uint32_t position, const RowHeader& row) {
          const auto found = rows.find(row.key);
          if (found == rows.end() || found->second.position != position) {
            return absl::OkStatus();
          }
          found->second.position = log->Append(row).value();
          log->Remove(position);
          ++moved;
          return absl::OkStatus();
        });
    ASSERT_TRUE(compacted.ok()) << compacted;
    ASSERT_EQ(log->rows(), static_cast<int64_t>(rows.size()));
    if (step > 100) largest = std::max(largest, log->bytes());
    std::vector<uint32_t> positions;
    std::vector<uint64_t> keys;
    for (const auto& [key, place] : rows) {
      keys.push_back(key);
      positions.push_back(place.position);
    }
    int64_t visited = 0;
    const absl::Status read =
        log->Read(positions, [&](int64_t i, const RowHeader& row) {
          ++visited;
          ExpectIs(row, keys[i], rows[keys[i]].content);
        });
    ASSERT_TRUE(read.ok()) << read;
    ASSERT_EQ(visited, static_cast<int64_t>(rows.size()));
  }
  EXPECT_GT(moved, 0);
  // About 100 of the 200 keys have a row.
  EXPECT_LE(largest, 300 * kLayout.bytes());
}

TEST(RowLogTest, AFileHasNoName) {
  const auto log = MakeLog();
  const int file = DescriptorOfLog();
  ASSERT_GE(file, 0);
  char target[4096] = {};
  ASSERT_GT(readlink(absl::StrCat("/proc/self/fd/", file).c_str(), target,
                     sizeof(target) - 1),
            0);
  EXPECT_TRUE(absl::EndsWith(target, " (deleted)")) << target;
}

TEST(RowLogTest, FindsEachDamagedByte) {
  const auto log = MakeLog();
  std::vector<uint32_t> positions;
  for (uint32_t i = 0; i <= kSegmentRows; ++i) {
    Row row(i, i);
    positions.push_back(log->Append(*row.header()).value());
  }
  const int file = DescriptorOfLog();
  const auto ignore = [](int64_t, const RowHeader&) {};
  for (int64_t byte = 0; byte < kLayout.bytes(); ++byte) {
    const int64_t at = positions[3] * kLayout.bytes() + byte;
    char value = 0;
    ASSERT_EQ(pread(file, &value, 1, at), 1);
    value = static_cast<char>(value ^ 4);
    ASSERT_EQ(pwrite(file, &value, 1, at), 1);
    EXPECT_EQ(log->Read({positions[3]}, ignore).code(),
              absl::StatusCode::kDataLoss);
    EXPECT_TRUE(log->Read({positions[2]}, ignore).ok());
    value = static_cast<char>(value ^ 4);
    ASSERT_EQ(pwrite(file, &value, 1, at), 1);
  }
  EXPECT_TRUE(log->Read({positions[3]}, ignore).ok());
}

TEST(RowLogTest, NamesAFolderThatDoesNotExist) {
  const absl::Status status = RowLog::Create("/nowhere", 64).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(absl::StrContains(status.message(), "/nowhere")) << status;
}

}  // namespace
}  // namespace tributary
