// Small jobs of each model family, with dropout or batch norm, on synthetic
// data. Each runs in a fraction of a second.
#ifndef TRIBUTARY_TESTS_SUPPORT_TINY_JOBS_H_
#define TRIBUTARY_TESTS_SUPPORT_TINY_JOBS_H_

#include <string>

#include "proto/job.pb.h"

namespace tributary {

// Returns a job of `family`: "mlp", "cnn", "resnet", "gpt" or "bert" (masked
// language model). Writes its data to `directory`, which must exist. The job
// has 8 micro-batches, a short last batch in each epoch, and chunks of 4 KiB,
// so that it has several chunks.
JobSpec TinyJob(const std::string& family, const std::string& directory);

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_SUPPORT_TINY_JOBS_H_
