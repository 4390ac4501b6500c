// Reads the results in the folder of a run.
#ifndef TRIBUTARY_DEPLOY_FLAGS_RUN_FILES_H_
#define TRIBUTARY_DEPLOY_FLAGS_RUN_FILES_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace tributary {

// Maximum size of summary.json in bytes. A larger file is assumed to be
// damaged, and is not read.
inline constexpr int64_t kMaxSummaryBytes = 16 << 20;

// Returns summary.json in `folder`, a JSON object. Returns the system's error,
// with the path, if the file cannot be read, and DataLoss if it contains no
// object.
absl::StatusOr<nlohmann::ordered_json> ReadRunSummary(
    const std::string& folder);

struct RunTensor {
  std::vector<int64_t> shape;
  std::vector<float> values;
};

// The final weights of a run: those after the last step, or the moving average
// of the weights of all steps (see OptimizerSpec.average_decay).
enum class FinalWeights { kLast, kAverage };

// Returns the path of the file with the final weights of the run in `folder`.
// Returns NotFound, saying why, if the run has not ended, or does not have an
// average.
absl::StatusOr<std::string> FinalWeightsPath(const std::string& folder,
                                             FinalWeights which);

// Returns the final weights of the run in `folder`, by name of the parameter,
// and the buffers of a program's module that are float32. Leaves out buffers of
// other types. Returns the errors of FinalWeightsPath, the system's error, with
// the path, if the file cannot be read, and the errors of SafetensorsFile if it
// is damaged. Verifies the digest of the weights.
absl::StatusOr<std::map<std::string, RunTensor>> ReadFinalModel(
    const std::string& folder, FinalWeights which = FinalWeights::kLast);

// Returns the text of final/data.json of the run in `folder`: what the data set
// has derived from the training samples, such as the mean of each column or the
// names of the classes (DataFacts.encoding). Returns an empty string if there
// is no such file.
absl::StatusOr<std::string> ReadEncoding(const std::string& folder);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_FLAGS_RUN_FILES_H_
