// Jobs of the model families that run in a fraction of a second, with dropout
// or batch norm, on data made by a fixed rule.
#ifndef TRIBUTARY_TESTS_SUPPORT_TINY_JOBS_H_
#define TRIBUTARY_TESTS_SUPPORT_TINY_JOBS_H_

#include <string>

#include "proto/job.pb.h"

namespace tributary {

// `family` is "mlp", "cnn", "resnet" or "gpt". Writes the data to `directory`,
// which must exist. 8 leaves, a short last batch in each epoch, chunks of 4 KiB
// so that there are several.
JobSpec TinyJob(const std::string& family, const std::string& directory);

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_SUPPORT_TINY_JOBS_H_
