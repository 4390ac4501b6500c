// The layer counts and blocks of the published residual networks (ResNet-18 to
// ResNet-152): see ResnetSpec.preset.
#ifndef TRIBUTARY_COMMON_JOB_RESNET_PRESET_H_
#define TRIBUTARY_COMMON_JOB_RESNET_PRESET_H_

#include "proto/job.pb.h"

namespace tributary {

// Returns `resnet` with its preset applied: the fields `layers`, `block` and
// `stem`, if not set, get the preset's values. The stem of every preset is
// IMAGENET. `preset` itself stays set. Returns `resnet` unchanged if it has no
// preset. Idempotent.
ResnetSpec WithPreset(ResnetSpec resnet);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_JOB_RESNET_PRESET_H_
