// Validates data.images.
#ifndef TRIBUTARY_COMMON_JOB_JOB_IMAGES_VALIDATION_H_
#define TRIBUTARY_COMMON_JOB_JOB_IMAGES_VALIDATION_H_

#include "absl/status/status.h"
#include "proto/job.pb.h"

namespace tributary {

// Returns InvalidArgument, naming the field, for a value that is invalid by
// itself or together with other fields of `images`.
absl::Status ValidateImages(const ImagesSpec& images);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_JOB_JOB_IMAGES_VALIDATION_H_
