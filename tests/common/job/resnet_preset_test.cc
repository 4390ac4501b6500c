#include "common/job/resnet_preset.h"

#include <string>
#include <vector>

#include "common/job/job.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

std::vector<int64_t> LayersOf(const ResnetSpec& resnet) {
  return {resnet.layers().begin(), resnet.layers().end()};
}

ResnetSpec OfPreset(ResnetSpec::Preset preset) {
  ResnetSpec resnet;
  resnet.set_preset(preset);
  return WithPreset(resnet);
}

TEST(ResnetPresetTest, HasThePublishedSizes) {
  const std::vector<std::pair<ResnetSpec::Preset, std::vector<int64_t>>>
      published = {{ResnetSpec::RESNET_18, {2, 2, 2, 2}},
                   {ResnetSpec::RESNET_34, {3, 4, 6, 3}},
                   {ResnetSpec::RESNET_50, {3, 4, 6, 3}},
                   {ResnetSpec::RESNET_101, {3, 4, 23, 3}},
                   {ResnetSpec::RESNET_152, {3, 8, 36, 3}}};
  for (const auto& [preset, layers] : published) {
    const ResnetSpec resnet = OfPreset(preset);
    EXPECT_EQ(LayersOf(resnet), layers) << ResnetSpec::Preset_Name(preset);
    EXPECT_EQ(resnet.block(), preset >= ResnetSpec::RESNET_50
                                  ? ResnetSpec::BOTTLENECK
                                  : ResnetSpec::BASIC);
    EXPECT_EQ(resnet.stem(), ResnetSpec::IMAGENET);
    EXPECT_EQ(resnet.width(), 64);
  }
}

TEST(ResnetPresetTest, FieldsThatAreSetTakePrecedence) {
  ResnetSpec resnet;
  resnet.set_preset(ResnetSpec::RESNET_50);
  resnet.set_stem(ResnetSpec::SMALL);
  resnet.set_block(ResnetSpec::BASIC);
  resnet.add_layers(1);
  const ResnetSpec resolved = WithPreset(resnet);
  EXPECT_EQ(resolved.SerializeAsString(), resnet.SerializeAsString());
}

TEST(ResnetPresetTest, WithoutPresetNothingIsSet) {
  const ResnetSpec resnet = WithPreset(ResnetSpec());
  EXPECT_TRUE(resnet.layers().empty());
  EXPECT_FALSE(resnet.has_block());
  EXPECT_FALSE(resnet.has_stem());
}

TEST(ResnetPresetTest, ResolvedJobsContainTheSizes) {
  JobSpec job;
  job.mutable_model()->mutable_resnet()->set_preset(ResnetSpec::RESNET_50);
  job.mutable_batch()->set_global(8);
  const JobSpec resolved = ResolveJob(job);
  EXPECT_EQ(LayersOf(resolved.model().resnet()),
            (std::vector<int64_t>{3, 4, 6, 3}));
  EXPECT_EQ(PrintJob(ResolveJob(resolved)), PrintJob(resolved));
}

}  // namespace
}  // namespace tributary
