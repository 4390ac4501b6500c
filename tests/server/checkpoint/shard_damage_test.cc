// Checkpoints that were damaged, or made to do harm, are refused.
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/tensor_io/safetensors_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/checkpoint/manifest.h"
#include "server/checkpoint/shard_files.h"
#include "tests/server/checkpoint/checkpoint_fixture.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

std::vector<absl::Status> ReadAll(const CheckpointFacts& facts,
                                  const std::string& folder) {
  return {VerifyCheckpoint(folder), CheckCheckpoint(facts, folder, 2, 64)};
}

// Whoever reads it is told which file is not as it should be.
void ExpectRefused(const CheckpointFacts& facts, const std::string& folder,
                   const std::string& file) {
  for (const absl::Status& status : ReadAll(facts, folder)) {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kDataLoss,
                                 HasSubstr(folder + "/" + file)));
  }
}

// The same, and where in the file.
void ExpectRefusedWithPlace(const CheckpointFacts& facts,
                            const std::string& folder,
                            const std::string& file) {
  for (const absl::Status& status : ReadAll(facts, folder)) {
    EXPECT_THAT(
        status,
        StatusIs(absl::StatusCode::kDataLoss,
                 ContainsRegex(absl::StrCat(
                     folder, "/", file,
                     ": .*((bytes|offset) [0-9]+|bytes from [0-9]+ on)"))));
  }
}

// Gives the files of a checkpoint that somebody has changed the digests that
// they now have.
void Reseal(const std::string& folder, CheckpointManifest manifest) {
  for (CheckpointFile& file : *manifest.mutable_file()) {
    const std::string bytes = ReadBytes(absl::StrCat(folder, "/", file.name()));
    file.set_bytes(static_cast<int64_t>(bytes.size()));
    file.clear_block_digest();
    for (size_t begin = 0; begin < bytes.size(); begin += file.block_bytes()) {
      const std::string block = bytes.substr(begin, file.block_bytes());
      file.add_block_digest(XXH3_64bits(block.data(), block.size()));
    }
  }
  WriteBytes(absl::StrCat(folder, "/", kManifestName),
             *PrintManifest(manifest));
}

// Row 25.
TEST(DamageTest, TruncatedFilesAreRefused) {
  CheckpointFacts facts;
  facts.table = MakeTable({{3000}, {40, 50}, {700}}, 1024);
  facts.state = {"momentum_buffer"};
  facts.servers = 2;
  const std::string folder = MakeCheckpoint(facts);
  int cuts = 0;
  for (const std::string& name : NamesIn(folder)) {
    const std::string path = folder + "/" + name;
    const std::string good = ReadBytes(path);
    const int64_t size = static_cast<int64_t>(good.size());
    for (int64_t boundary = 0; boundary <= size + 4096; boundary += 4096) {
      // The file's own end is a boundary too.
      const int64_t at = std::min(boundary, size);
      for (const int64_t cut : {at - 1, at, at + 1}) {
        if (cut < 0 || cut >= size) continue;
        WriteBytes(path, good.substr(0, cut));
        ExpectRefusedWithPlace(facts, folder, name);
        ++cuts;
      }
    }
    WriteBytes(path, good + '\0');
    ExpectRefusedWithPlace(facts, folder, name);
    WriteBytes(path, good);
  }
  EXPECT_GT(cuts, 30);
  EXPECT_TRUE(CheckCheckpoint(facts, folder, 2, 64).ok());
}

// Row 26. Every byte of every file is covered by a digest, or by the exact form
// in which the manifest's own digest stands: no flip is let through.
TEST(DamageTest, AFlippedBitIsRefused) {
  const CheckpointFacts facts = SmallFacts(2);
  const std::string folder = MakeCheckpoint(facts);
  std::mt19937_64 random(26);
  for (const std::string& name : NamesIn(folder)) {
    const std::string path = folder + "/" + name;
    const std::string good = ReadBytes(path);
    std::vector<size_t> places;
    size_t header = good.size();
    if (name != kManifestName) {
      header = static_cast<size_t>(SafetensorsFile::Open(path)->data_offset());
      for (int i = 0; i < 250; ++i) {
        places.push_back(header + random() % (good.size() - header));
      }
    }
    for (size_t i = 0; i < header; ++i) places.push_back(i);
    for (const size_t place : places) {
      const char bad = static_cast<char>(good[place] ^ (1 << (random() % 8)));
      SetByte(path, place, bad);
      ExpectRefusedWithPlace(facts, folder, name);
      if (HasFailure()) FAIL() << "byte " << place << " of " << name;
      SetByte(path, place, good[place]);
    }
  }
  EXPECT_TRUE(CheckCheckpoint(facts, folder, 2, 64).ok());
}

TEST(DamageTest, SwappedFilesAreRefused) {
  const CheckpointFacts facts = SmallFacts(2);
  const std::string folder = MakeCheckpoint(facts);
  for (const std::string kind : {"model", "optimizer"}) {
    const std::string first =
        folder + "/" + kind + "-00001-of-00002.safetensors";
    const std::string second =
        folder + "/" + kind + "-00002-of-00002.safetensors";
    const std::string a = ReadBytes(first), b = ReadBytes(second);
    WriteBytes(first, b);
    WriteBytes(second, a);
    ExpectRefused(facts, folder, kind + "-0000");
    WriteBytes(first, a);
    WriteBytes(second, b);
  }
  EXPECT_TRUE(VerifyCheckpoint(folder).ok());
}

TEST(DamageTest, FilesOfAnotherStepAreRefused) {
  const CheckpointFacts facts = SmallFacts(2);
  CheckpointFacts later = facts;
  later.step = facts.step + 1;
  const std::string folder = MakeCheckpoint(facts);
  const std::string other = MakeCheckpoint(later);
  for (const std::string& name : NamesIn(folder)) {
    const std::string mine = ReadBytes(folder + "/" + name);
    const std::string theirs = ReadBytes(other + "/" + name);
    ASSERT_NE(mine, theirs);
    WriteBytes(folder + "/" + name, theirs);
    ExpectRefused(facts, folder, name == kManifestName ? "" : name);
    WriteBytes(folder + "/" + name, mine);
  }
}

TEST(DamageTest, AMissingFileIsRefused) {
  const CheckpointFacts facts = SmallFacts(2);
  const std::string folder = MakeCheckpoint(facts);
  for (const std::string& name : NamesIn(folder)) {
    const std::string path = folder + "/" + name;
    const std::string good = ReadBytes(path);
    ASSERT_EQ(std::remove(path.c_str()), 0);
    if (name == kManifestName) {
      EXPECT_EQ(CheckCheckpoint(facts, folder, 1, 64).code(),
                absl::StatusCode::kNotFound);
    } else {
      ExpectRefused(facts, folder, name);
    }
    EXPECT_EQ(VerifyCheckpoint(folder).code(), absl::StatusCode::kDataLoss);
    WriteBytes(path, good);
  }
}

TEST(DamageTest, WhatIsNoFileIsRefusedAtOnce) {
  const CheckpointFacts facts = SmallFacts(2);
  const std::string folder = MakeCheckpoint(facts);
  for (const std::string& name : NamesIn(folder)) {
    const std::string path = folder + "/" + name;
    const std::string good = ReadBytes(path);
    ASSERT_EQ(std::remove(path.c_str()), 0);
    ASSERT_EQ(mkdir(path.c_str(), 0777), 0);
    ExpectRefused(facts, folder, name);
    ASSERT_EQ(std::remove(path.c_str()), 0);
    // Nobody will ever write to it: opening it must not wait.
    ASSERT_EQ(mkfifo(path.c_str(), 0666), 0);
    ExpectRefused(facts, folder, name);
    ASSERT_EQ(std::remove(path.c_str()), 0);
    WriteBytes(path, good);
  }
  EXPECT_TRUE(VerifyCheckpoint(folder).ok());
}

// Row 27: the digests are right, but somebody has written what makes no sense.
TEST(HostileTest, HeadersWithTheRightDigestAreNotTrusted) {
  const CheckpointFacts facts = SmallFacts(2);
  const std::string folder = MakeCheckpoint(facts);
  const CheckpointManifest manifest = *ReadManifest(folder);
  const std::string name = "model-00002-of-00002.safetensors";
  const std::string path = folder + "/" + name;
  const std::string good = ReadBytes(path);
  const auto file = SafetensorsFile::Open(path);
  const size_t data = static_cast<size_t>(file->data_offset());
  const auto with_header = [&](const std::string& header) {
    const uint64_t length = header.size();
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &length, 8);
    return bytes + header + good.substr(data);
  };
  const auto replace = [&](const std::string& from, const std::string& to) {
    std::string header = good.substr(8, data - 8);
    const size_t place = header.find(from);
    EXPECT_NE(place, std::string::npos) << from << " in " << header;
    header.replace(place, from.size(), to);
    return with_header(header);
  };
  std::string huge = good;
  huge[7] = '\x80';  // A header of 2^63 bytes and some.
  const std::string tensor = file->tensors()[0].name;
  const std::string hostile[] = {
      "",
      "1234567",
      huge,
      with_header("{}"),
      with_header(std::string(100000, '[')),
      with_header("{\"x\":" + std::string(100000, '{')),
      replace("\"" + tensor + "\"", "\"z\""),
      replace("\"F32\"", "\"I32\""),
      // The same number of bytes in another type.
      replace("\"F32\",\"shape\":[16]", "\"F64\",\"shape\":[8]"),
      replace("\"shape\":[", "\"shape\":[-1,"),
      replace("\"shape\":[", "\"shape\":[4294967296,4294967296,"),
      replace("\"shape\":[16]", "\"shape\":[17]"),
      replace("data_offsets\":[0,", "data_offsets\":[4,"),
      replace("\"F32\"", "\"F32\",\"dtype\":\"F32\""),
      good + "more",
      good.substr(0, good.size() - 4),
  };
  for (const std::string& bytes : hostile) {
    WriteBytes(path, bytes);
    Reseal(folder, manifest);
    ExpectRefused(facts, folder, name);
    if (HasFailure()) FAIL() << "header " << bytes.substr(8, 200);
  }
  WriteBytes(path, good);
  Reseal(folder, manifest);
  EXPECT_TRUE(CheckCheckpoint(facts, folder, 2, 64).ok());
}

TEST(HostileTest, ManifestsMustNameExactlyTheFilesOfTheirServers) {
  const CheckpointFacts facts = SmallFacts(2);
  const std::string folder = MakeCheckpoint(facts);
  const CheckpointManifest manifest = *ReadManifest(folder);
  CheckpointManifest fewer = manifest;
  fewer.mutable_file()->RemoveLast();
  Reseal(folder, fewer);
  ExpectRefused(facts, folder, kManifestName);
  CheckpointManifest more = manifest;
  *more.add_file() = manifest.file(0);
  more.mutable_file()->rbegin()->set_name("strange");
  WriteBytes(folder + "/strange", "");
  Reseal(folder, more);
  ExpectRefused(facts, folder, kManifestName);
  CheckpointManifest servers = manifest;
  servers.set_servers(65536);
  Reseal(folder, servers);
  ExpectRefused(facts, folder, kManifestName);
  CheckpointManifest state = manifest;
  state.clear_state();
  Reseal(folder, state);
  ExpectRefused(facts, folder, kManifestName);
}

// A sparse file costs whoever writes it nothing: what is read at a time must
// not be as large as the manifest says.
TEST(HostileTest, BlocksAreNotAsLargeAsTheManifestLikes) {
  const CheckpointFacts facts = SmallFacts(1);
  const std::string folder = MakeCheckpoint(facts);
  CheckpointManifest manifest = *ReadManifest(folder);
  CheckpointFile& file = *manifest.mutable_file(0);
  ASSERT_EQ(truncate((folder + "/" + file.name()).c_str(), int64_t{1} << 42),
            0);
  file.set_bytes(int64_t{1} << 42);
  file.set_block_bytes(int64_t{1} << 42);
  WriteBytes(absl::StrCat(folder, "/", kManifestName),
             *PrintManifest(manifest));
  ExpectRefused(facts, folder, kManifestName);
}

}  // namespace
}  // namespace tributary
