#include "server/checkpoint/shard_files.h"

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/tensor_io/safetensors_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/checkpoint/manifest.h"
#include "tests/server/checkpoint/checkpoint_fixture.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

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
    EXPECT_EQ(CheckCheckpoint(facts, folder, 3, 262144), absl::OkStatus());
    // A flip in the last block is named by its range.
    const CheckpointFile file = ReadManifest(folder)->file(0);
    const std::string path = folder + "/" + file.name();
    SetByte(path, static_cast<size_t>(file.bytes() - 1),
            static_cast<char>(ReadBytes(path).back() ^ 1));
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
  EXPECT_THAT(model->Find("b"), StatusIs(absl::StatusCode::kNotFound));
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
    EXPECT_THAT(CheckCheckpoint(facts, folder, 1, 32),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         AllOf(HasSubstr(folder), HasSubstr(message))));
  };
  facts.table.mutable_parameter(2)->set_shape(0, 7);
  facts.table.mutable_parameter(2)->set_shape(1, 5);
  expect_refused("c is [5, 7] there and [7, 5] in this job");
  facts.table = table;
  facts.table.mutable_parameter(2)->set_name("other");
  expect_refused("has c, which this job does not have");
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

}  // namespace
}  // namespace tributary
