#include "common/job/gpt_preset.h"

#include <cstdint>

namespace tributary {
namespace {

constexpr int64_t kContext = 1024;
constexpr int64_t kVocabulary = 50257;

struct Sizes {
  int64_t layers, heads, width;
};

Sizes SizesOf(GptSpec::Preset preset) {
  switch (preset) {
    case GptSpec::GPT2_MEDIUM:
      return {24, 16, 1024};
    case GptSpec::GPT2_LARGE:
      return {36, 20, 1280};
    case GptSpec::GPT2_XL:
      return {48, 25, 1600};
    case GptSpec::GPT2_SMALL:
    case GptSpec::PRESET_UNSPECIFIED:
      break;
  }
  return {12, 12, 768};
}

}  // namespace

void ApplyGptPreset(GptSpec* gpt) {
  if (gpt->preset() == GptSpec::PRESET_UNSPECIFIED) return;
  const Sizes sizes = SizesOf(gpt->preset());
  if (!gpt->has_layers()) gpt->set_layers(sizes.layers);
  if (!gpt->has_heads()) gpt->set_heads(sizes.heads);
  if (!gpt->has_width()) gpt->set_width(sizes.width);
  if (!gpt->has_context()) gpt->set_context(kContext);
  if (!gpt->has_vocabulary()) gpt->set_vocabulary(kVocabulary);
}

}  // namespace tributary
