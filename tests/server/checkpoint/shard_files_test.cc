#include "server/checkpoint/shard_files.h"

#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/file.h"
#include "common/safetensors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/checkpoint/manifest.h"
#include "tests/server/checkpoint/checkpoint_fixture.h"

namespace tributary {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

constexpr int64_t kLimit = int64_t{1} << 30;

std::string Read(const std::string& path) { return *ReadFile(path, kLimit); }

void Write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// In place.
void SetByte(const std::string& path, size_t place, char byte) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(place));
  file.put(byte);
}

std::vector<absl::Status> ReadAll(const CheckpointFacts& facts,
                                  const std::string& folder) {
  return {VerifyCheckpoint(folder), CheckCheckpoint(facts, folder, 2, 64)};
}

// Whoever reads it is told which file is not as it should be.
void ExpectRefused(const CheckpointFacts& facts, const std::string& folder,
                   const std::string& file) {
  for (const absl::Status& status : ReadAll(facts, folder)) {
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(folder + "/" + file));
  }
}

// The same, and where in the file.
void ExpectRefusedWithPlace(const CheckpointFacts& facts,
                            const std::string& folder,
                            const std::string& file) {
  for (const absl::Status& status : ReadAll(facts, folder)) {
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_THAT(std::string(status.message()),
                ContainsRegex(absl::StrCat(
                    folder, "/", file,
                    ": .*((bytes|offset) [0-9]+|bytes from [0-9]+ on)")));
  }
}

// Gives the files of a checkpoint that somebody has changed the digests that
// they now have.
void Reseal(const std::string& folder, CheckpointManifest manifest) {
  for (CheckpointFile& file : *manifest.mutable_file()) {
    const std::string bytes = Read(absl::StrCat(folder, "/", file.name()));
    file.set_bytes(static_cast<int64_t>(bytes.size()));
    file.clear_block_digest();
    for (size_t begin = 0; begin < bytes.size(); begin += file.block_bytes()) {
      const std::string block = bytes.substr(begin, file.block_bytes());
      file.add_block_digest(XXH3_64bits(block.data(), block.size()));
    }
  }
  Write(absl::StrCat(folder, "/", kManifestName), *PrintManifest(manifest));
}

CheckpointFacts SmallFacts(int servers) {
  CheckpointFacts facts;
  facts.table = MakeTable({{3}, {32}, {5, 7}, {100}, {}, {2, 3, 4}}, 32);
  facts.servers = servers;
  facts.state = {"exp_avg", "exp_avg_sq"};
  facts.step = 7;
  return facts;
}

// A checkpoint in a folder of its own.
std::string MakeCheckpoint(const CheckpointFacts& facts) {
  std::string folder = MakeFolderForTest();
  const absl::Status status = WriteCheckpointFiles(facts, folder);
  EXPECT_TRUE(status.ok()) << status;
  return folder;
}

struct RoundTrip {
  std::vector<std::vector<int64_t>> shapes;
  int64_t chunk_elements;
};

class RoundTripTest : public testing::TestWithParam<RoundTrip> {};

// Row 28: any number of servers writes, any number reads, with any chunks.
TEST_P(RoundTripTest, EveryElementIsReadAsItWasWritten) {
  CheckpointFacts facts;
  facts.table = MakeTable(GetParam().shapes, GetParam().chunk_elements);
  for (const std::vector<std::string>& state :
       std::vector<std::vector<std::string>>{
           {}, {"momentum_buffer"}, {"exp_avg", "exp_avg_sq"}}) {
    facts.state = state;
    for (const int writers : {1, 2, 3}) {
      facts.servers = writers;
      const std::string folder = MakeCheckpoint(facts);
      EXPECT_TRUE(VerifyCheckpoint(folder).ok()) << VerifyCheckpoint(folder);
      for (const int readers : {1, 2, 3, 5}) {
        for (const int64_t chunk_elements :
             {GetParam().chunk_elements, int64_t{16}, int64_t{1024}}) {
          const absl::Status status =
              CheckCheckpoint(facts, folder, readers, chunk_elements);
          EXPECT_TRUE(status.ok())
              << status << ", " << writers << " to " << readers
              << " servers, chunks of " << chunk_elements;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, RoundTripTest,
    testing::Values(
        // Smaller than, equal to and larger than chunks, with gaps.
        RoundTrip{{{3}, {32}, {5, 7}, {100}, {}, {2, 3, 4}}, 32},
        // Without gaps, chunk by chunk.
        RoundTrip{{{16}, {4, 4}, {32}, {2, 16}}, 16},
        // All in one chunk, so that most servers have none.
        RoundTrip{{{3}, {}, {7}}, 4096},
        // One tensor over many chunks, which ends within one.
        RoundTrip{{{1000}}, 48},
        // Gaps where chunks meet.
        RoundTrip{{{15}, {17}, {1}, {47}, {33}}, 16}));

// Blocks of digests are 4 MiB: pieces begin and end within them.
TEST(ShardFilesTest, FilesMayHaveManyBlocks) {
  CheckpointFacts facts;
  facts.table = MakeTable({{700001}, {1100, 1000}, {1500000}}, 100000);
  facts.state = {"momentum_buffer"};
  for (const int servers : {1, 2}) {
    facts.servers = servers;
    const std::string folder = MakeCheckpoint(facts);
    EXPECT_GT(ReadManifest(folder)->file(0).block_digest_size(), 1);
    EXPECT_TRUE(VerifyCheckpoint(folder).ok());
    const absl::Status status = CheckCheckpoint(facts, folder, 3, 262144);
    EXPECT_TRUE(status.ok()) << status;
    // A flip in the last block is named by its range.
    const CheckpointFile file = ReadManifest(folder)->file(0);
    const std::string path = folder + "/" + file.name();
    SetByte(path, static_cast<size_t>(file.bytes() - 1),
            static_cast<char>(Read(path).back() ^ 1));
    const int64_t last = (file.bytes() - 1) / file.block_bytes();
    EXPECT_THAT(
        std::string(VerifyCheckpoint(folder).message()),
        HasSubstr(absl::StrCat(path, ": bytes ", last * file.block_bytes(),
                               " to ", file.bytes())));
    std::filesystem::remove_all(folder);
  }
}

TEST(ShardFilesTest, OneServerWritesWholeTensorsForOtherPrograms) {
  const CheckpointFacts facts = SmallFacts(1);
  const std::string folder = MakeCheckpoint(facts);
  const auto model = SafetensorsFile::Open(folder + "/model.safetensors");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(model->metadata(), ElementsAre(Pair("format", "pt")));
  ASSERT_EQ(model->tensors().size(), 6);
  const auto layout = ArenaLayout::Create(facts.table);
  for (const Parameter& parameter : layout->parameters()) {
    const auto entry = model->Find(parameter.name);
    ASSERT_TRUE(entry.ok()) << entry.status();
    EXPECT_EQ((*entry)->shape, parameter.shape);
    std::vector<float> values(parameter.size);
    ASSERT_TRUE(model->ReadFloats(**entry, absl::MakeSpan(values)).ok());
    for (int64_t i = 0; i < parameter.size; ++i) {
      const float expected = ElementAt(parameter.name, -1, i, facts.step);
      EXPECT_EQ(std::memcmp(&values[i], &expected, sizeof(float)), 0);
    }
  }
  const auto optimizer =
      SafetensorsFile::Open(folder + "/optimizer.safetensors");
  ASSERT_TRUE(optimizer.ok()) << optimizer.status();
  ASSERT_EQ(optimizer->tensors().size(), 12);
  EXPECT_EQ(optimizer->tensors()[0].name, "a.exp_avg");
  EXPECT_EQ(optimizer->tensors()[1].name, "a.exp_avg_sq");
  EXPECT_THAT((*optimizer->Find("c.exp_avg"))->shape, ElementsAre(5, 7));
}

TEST(ShardFilesTest, SeveralServersWriteTheirPieces) {
  const std::string folder = MakeCheckpoint(SmallFacts(2));
  EXPECT_THAT(NamesIn(folder),
              ElementsAre("manifest.json", "model-00001-of-00002.safetensors",
                          "model-00002-of-00002.safetensors",
                          "optimizer-00001-of-00002.safetensors",
                          "optimizer-00002-of-00002.safetensors"));
  const auto model =
      SafetensorsFile::Open(folder + "/model-00001-of-00002.safetensors");
  // "b" begins at element 16 of the arena, and chunks have 32.
  EXPECT_THAT((*model->Find("b[0:16]"))->shape, ElementsAre(16));
  EXPECT_FALSE(model->Find("b").ok());
}

TEST(ShardFilesTest, WithoutStateThereIsNoOptimizerFile) {
  CheckpointFacts facts = SmallFacts(1);
  facts.state = {};
  EXPECT_THAT(NamesIn(MakeCheckpoint(facts)),
              ElementsAre("manifest.json", "model.safetensors"));
}

TEST(ShardFilesTest, AChunkThatIsMissingInTheSnapshotIsAnError) {
  const CheckpointFacts facts = SmallFacts(1);
  const auto layout = ArenaLayout::Create(facts.table);
  Snapshot snapshot = MakeSnapshot(facts, 0);
  snapshot.chunks.pop_back();
  const auto written =
      WriteShardFiles({&*layout, 0, 1, facts.state}, snapshot,
                      MakeFolderForTest(), FileSystem::Posix());
  EXPECT_EQ(written.status().code(), absl::StatusCode::kInternal);
}

TEST(ShardFilesTest, AnotherModelIsRefused) {
  CheckpointFacts facts = SmallFacts(2);
  const std::string folder = MakeCheckpoint(facts);
  const ParameterTable table = facts.table;
  const auto expect_refused = [&](const std::string& message) {
    const absl::Status status = CheckCheckpoint(facts, folder, 1, 32);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(folder), HasSubstr(message)));
  };
  facts.table.mutable_parameter(2)->set_shape(0, 7);
  facts.table.mutable_parameter(2)->set_shape(1, 5);
  expect_refused("c is [5, 7] there and [7, 5] in this job");
  facts.table = table;
  facts.table.mutable_parameter(2)->set_name("other");
  expect_refused("has c, which this job has not");
  facts.table = table;
  facts.table.mutable_parameter(5)->set_name("f2");
  facts.table.add_parameter()->set_name("f");
  facts.table.mutable_parameter(6)->set_group(DECAY);
  facts.table.mutable_parameter(6)->add_shape(2);
  facts.table.mutable_parameter(6)->add_shape(3);
  facts.table.mutable_parameter(6)->add_shape(4);
  expect_refused("lacks this job's f2");
}

TEST(ShardFilesTest, AnotherOptimizerIsRefused) {
  CheckpointFacts facts = SmallFacts(2);
  const std::string folder = MakeCheckpoint(facts);
  for (const std::vector<std::string>& state :
       std::vector<std::vector<std::string>>{
           {}, {"exp_avg"}, {"a", "b", "c"}}) {
    facts.state = state;
    EXPECT_EQ(CheckCheckpoint(facts, folder, 1, 32).code(),
              absl::StatusCode::kFailedPrecondition);
  }
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
    const std::string good = Read(path);
    const int64_t size = static_cast<int64_t>(good.size());
    for (int64_t boundary = 0; boundary <= size + 4096; boundary += 4096) {
      // The file's own end is a boundary too.
      const int64_t at = std::min(boundary, size);
      for (const int64_t cut : {at - 1, at, at + 1}) {
        if (cut < 0 || cut >= size) continue;
        Write(path, good.substr(0, cut));
        ExpectRefusedWithPlace(facts, folder, name);
        ++cuts;
      }
    }
    Write(path, good + '\0');
    ExpectRefusedWithPlace(facts, folder, name);
    Write(path, good);
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
    const std::string good = Read(path);
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
    const std::string a = Read(first), b = Read(second);
    Write(first, b);
    Write(second, a);
    ExpectRefused(facts, folder, kind + "-0000");
    Write(first, a);
    Write(second, b);
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
    const std::string mine = Read(folder + "/" + name);
    const std::string theirs = Read(other + "/" + name);
    ASSERT_NE(mine, theirs);
    Write(folder + "/" + name, theirs);
    ExpectRefused(facts, folder, name == kManifestName ? "" : name);
    Write(folder + "/" + name, mine);
  }
}

TEST(DamageTest, AMissingFileIsRefused) {
  const CheckpointFacts facts = SmallFacts(2);
  const std::string folder = MakeCheckpoint(facts);
  for (const std::string& name : NamesIn(folder)) {
    const std::string path = folder + "/" + name;
    const std::string good = Read(path);
    ASSERT_EQ(std::remove(path.c_str()), 0);
    if (name == kManifestName) {
      EXPECT_EQ(CheckCheckpoint(facts, folder, 1, 64).code(),
                absl::StatusCode::kNotFound);
    } else {
      ExpectRefused(facts, folder, name);
    }
    EXPECT_EQ(VerifyCheckpoint(folder).code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(VerifyCheckpoint(folder).message()),
                HasSubstr("is missing"));
    Write(path, good);
  }
}

TEST(DamageTest, WhatIsNoFileIsRefusedAtOnce) {
  const CheckpointFacts facts = SmallFacts(2);
  const std::string folder = MakeCheckpoint(facts);
  for (const std::string& name : NamesIn(folder)) {
    const std::string path = folder + "/" + name;
    const std::string good = Read(path);
    ASSERT_EQ(std::remove(path.c_str()), 0);
    ASSERT_EQ(mkdir(path.c_str(), 0777), 0);
    ExpectRefused(facts, folder, name);
    ASSERT_EQ(std::remove(path.c_str()), 0);
    // Nobody will ever write to it: opening it must not wait.
    ASSERT_EQ(mkfifo(path.c_str(), 0666), 0);
    ExpectRefused(facts, folder, name);
    ASSERT_EQ(std::remove(path.c_str()), 0);
    Write(path, good);
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
  const std::string good = Read(path);
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
    Write(path, bytes);
    Reseal(folder, manifest);
    ExpectRefused(facts, folder, name);
    if (HasFailure()) FAIL() << "header " << bytes.substr(8, 200);
  }
  Write(path, good);
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
  Write(folder + "/strange", "");
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
  Write(absl::StrCat(folder, "/", kManifestName), *PrintManifest(manifest));
  ExpectRefused(facts, folder, kManifestName);
}

}  // namespace
}  // namespace tributary
