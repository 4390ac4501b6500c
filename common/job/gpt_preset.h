// The sizes of the published GPT-2 models.
#ifndef TRIBUTARY_COMMON_JOB_GPT_PRESET_H_
#define TRIBUTARY_COMMON_JOB_GPT_PRESET_H_

#include "proto/job.pb.h"

namespace tributary {

// Sets layers, heads, width, context and vocabulary to the sizes of gpt.preset,
// except for fields that are already set. Has no effect without a preset.
// Idempotent.
void ApplyGptPreset(GptSpec* gpt);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_JOB_GPT_PRESET_H_
