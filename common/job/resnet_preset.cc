#include "common/job/resnet_preset.h"

#include <array>
#include <cstdint>

namespace tributary {
namespace {

// Table 1 of He et al., 2016.
struct Published {
  std::array<int64_t, 4> layers = {};
  ResnetSpec::Block block = ResnetSpec::BLOCK_UNSPECIFIED;
};

Published SizesOf(ResnetSpec::Preset preset) {
  switch (preset) {
    case ResnetSpec::RESNET_18:
      return {{2, 2, 2, 2}, ResnetSpec::BASIC};
    case ResnetSpec::RESNET_34:
      return {{3, 4, 6, 3}, ResnetSpec::BASIC};
    case ResnetSpec::RESNET_50:
      return {{3, 4, 6, 3}, ResnetSpec::BOTTLENECK};
    case ResnetSpec::RESNET_101:
      return {{3, 4, 23, 3}, ResnetSpec::BOTTLENECK};
    case ResnetSpec::RESNET_152:
      return {{3, 8, 36, 3}, ResnetSpec::BOTTLENECK};
    case ResnetSpec::PRESET_UNSPECIFIED:
      break;
  }
  return {};
}

}  // namespace

ResnetSpec WithPreset(ResnetSpec resnet) {
  const Published published = SizesOf(resnet.preset());
  if (published.block == ResnetSpec::BLOCK_UNSPECIFIED) return resnet;
  if (resnet.layers().empty()) {
    for (const int64_t blocks : published.layers) resnet.add_layers(blocks);
  }
  if (!resnet.has_block()) resnet.set_block(published.block);
  if (!resnet.has_stem()) resnet.set_stem(ResnetSpec::IMAGENET);
  return resnet;
}

}  // namespace tributary
