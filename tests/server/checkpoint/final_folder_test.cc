#include "server/checkpoint/final_folder.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/tensor_io/safetensors_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/checkpoint/manifest.h"
#include "server/checkpoint/shard_files.h"
#include "tests/server/checkpoint/checkpoint_fixture.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A model of several blocks, by Adam on two servers.
class FinalFolderTest : public testing::Test {
 protected:
  FinalFolderTest() {
    facts_.table = MakeTable({{3}, {1500, 1000}, {7, 2}}, /*chunk=*/4096);
    facts_.servers = 2;
    facts_.state = {"exp_avg", "exp_avg_sq"};
    facts_.step = 9;
  }

  void WriteModel() {
    const ArenaLayout layout = *ArenaLayout::Create(facts_.table);
    std::vector<std::vector<float>> values;
    std::vector<NamedTensor> tensors;
    for (const Parameter& parameter : layout.parameters()) {
      values.emplace_back();
      for (int64_t i = 0; i < parameter.size; ++i) {
        values.back().push_back(
            ElementAt(parameter.name, /*slot=*/-1, i, facts_.step));
      }
    }
    for (size_t i = 0; i < values.size(); ++i) {
      const Parameter& parameter = layout.parameters()[i];
      tensors.push_back({parameter.name, parameter.shape, values[i].data()});
    }
    ASSERT_TRUE(WriteSafetensors(absl::StrCat(folder_, "/", kFinalModelName),
                                 tensors, {})
                    .ok());
  }

  CheckpointFacts facts_;
  const std::string folder_ = MakeFolderForTest();
};

TEST(FinalTensorsTest, ListsAParameterUnderEachOfItsNames) {
  ParameterTable table = MakeTable({{3}, {2, 5}}, /*chunk=*/4096);
  table.mutable_parameter(1)->add_alias("tied");
  const ArenaLayout layout = *ArenaLayout::Create(table);
  const std::vector<float> arena(layout.arena_elements());
  const std::vector<NamedTensor> tensors = FinalTensors(layout, arena.data());
  ASSERT_EQ(tensors.size(), 3);
  EXPECT_EQ(tensors[1].name, layout.parameters()[1].name);
  EXPECT_EQ(tensors[2].name, "tied");
  EXPECT_THAT(tensors[2].shape, ElementsAre(2, 5));
  EXPECT_EQ(tensors[2].data, arena.data() + layout.parameters()[1].offset);
}

TEST(FinalTensorsTest, ListsUntrainedTensorsWithOtherNames) {
  const ParameterTable table = MakeTable({{3}}, /*chunk=*/4096);
  const ArenaLayout layout = *ArenaLayout::Create(table);
  const std::vector<float> arena(layout.arena_elements());
  const int64_t count = 7;
  const std::vector<NamedTensor> tensors =
      FinalTensors(layout, arena.data(),
                   {{layout.parameters()[0].name, {3}, arena.data()},
                    {"count", {}, &count, "I64"}});
  ASSERT_EQ(tensors.size(), 2);
  EXPECT_EQ(tensors[0].data, arena.data());
  EXPECT_EQ(tensors[1].name, "count");
}

TEST(FinalTensorsTest, UntrainedTensorsAreReadBack) {
  const ParameterTable table = MakeTable({{3}}, /*chunk=*/4096);
  const ArenaLayout layout = *ArenaLayout::Create(table);
  const std::vector<float> arena(layout.arena_elements());
  const std::string folder = MakeFolderForTest();
  EXPECT_THAT(*ReadUntrained(folder, layout), ElementsAre());
  const int64_t count = 7;
  ASSERT_TRUE(WriteSafetensors(absl::StrCat(folder, "/", kFinalModelName),
                               FinalTensors(layout, arena.data(),
                                            {{"mask", {2, 2}, "abcd", "BOOL"},
                                             {"count", {}, &count, "I64"},
                                             {"none", {0, 4}, "", "F16"}}),
                               {})
                  .ok());
  const auto read = ReadUntrained(folder, layout);
  ASSERT_TRUE(read.ok()) << read.status();
  std::map<std::string, UntrainedTensor> tensors;
  for (const UntrainedTensor& tensor : *read) tensors[tensor.name] = tensor;
  ASSERT_EQ(tensors.size(), 3);
  EXPECT_EQ(tensors["mask"].data, "abcd");
  EXPECT_EQ(tensors["mask"].dtype, "BOOL");
  EXPECT_THAT(tensors["mask"].shape, ElementsAre(2, 2));
  EXPECT_THAT(tensors["count"].shape, ElementsAre());
  EXPECT_EQ(tensors["count"].data, std::string("\7\0\0\0\0\0\0\0", 8));
  EXPECT_THAT(tensors["none"].shape, ElementsAre(0, 4));
  EXPECT_TRUE(VerifyFinalFolder(folder).ok());
}

TEST_F(FinalFolderTest, IsACheckpointOfOneServerWithoutOptimizerState) {
  WriteModel();
  ASSERT_TRUE(WriteFinalManifest(folder_, MakeManifest(facts_)).ok());
  EXPECT_TRUE(VerifyCheckpoint(folder_).ok()) << VerifyCheckpoint(folder_);
  const auto manifest = ReadManifest(folder_);
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_TRUE(manifest->complete());
  EXPECT_EQ(manifest->step(), 9);
  EXPECT_EQ(manifest->servers(), 1);
  EXPECT_EQ(manifest->state_size(), 0);
  CheckpointFacts read = facts_;
  read.servers = 1;
  read.state.clear();
  EXPECT_TRUE(CheckCheckpoint(read, folder_, /*servers=*/3,
                              /*chunk_elements=*/1024)
                  .ok());
}

TEST_F(FinalFolderTest, DamageIsFoundToTheBlock) {
  WriteModel();
  ASSERT_TRUE(WriteFinalManifest(folder_, MakeManifest(facts_)).ok());
  SetByte(absl::StrCat(folder_, "/", kFinalModelName), (4 << 20) + 5, 77);
  EXPECT_THAT(std::string(VerifyCheckpoint(folder_).message()),
              HasSubstr("model.safetensors: bytes 4194304 to "));
}

TEST_F(FinalFolderTest, AModelThatIsNotThereIsNotDescribed) {
  const absl::Status status = WriteFinalManifest(folder_, MakeManifest(facts_));
  EXPECT_THAT(std::string(status.message()), HasSubstr("model.safetensors"));
  EXPECT_THAT(NamesIn(folder_), ElementsAre());
}

}  // namespace
}  // namespace tributary
