// The published residual networks: see ResnetSpec.preset.
#ifndef TRIBUTARY_COMMON_JOB_RESNET_PRESET_H_
#define TRIBUTARY_COMMON_JOB_RESNET_PRESET_H_

#include "proto/job.pb.h"

namespace tributary {

// Returns `resnet` with its preset applied: the fields `layers`, `block` and
// `stem` that are not set have the preset's values. The stem of every preset is
// IMAGENET. Returns `resnet` unchanged if it has no preset, and does not change
// a spec that it has returned. `preset` itself stays set.
ResnetSpec WithPreset(ResnetSpec resnet);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_JOB_RESNET_PRESET_H_
