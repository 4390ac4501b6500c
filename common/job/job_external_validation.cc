#include "common/job/job_external_validation.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"
#include "common/base/field_checks.h"
#include "common/base/json.h"
#include "common/base/status_macros.h"
#include "common/job/job.h"
#include "common/job/job_checks.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

// job_checks.h explains the purpose of the limits.
constexpr int64_t kMaxSamples = int64_t{1} << 40;

bool BelongsInName(char c) {
  return absl::ascii_isalnum(c) || c == '_' || c == '-' || c == '.';
}

// Names become part of file names, and of commands.
absl::Status ValidateName(absl::string_view path, const std::string& name) {
  if (name.empty()) return Required(path);
  if (name.size() > kMaxNameBytes) {
    return Error(path, "has ", name.size(), " bytes, at most ", kMaxNameBytes,
                 " are allowed");
  }
  if (!std::all_of(name.begin(), name.end(), BelongsInName) || name[0] == '.' ||
      name[0] == '-') {
    return Error(path, "\"", name,
                 "\" is not a name of letters, digits, _, - and . that begins "
                 "with a letter, a digit or _");
  }
  return absl::OkStatus();
}

absl::Status ValidateConfig(absl::string_view path, const std::string& config) {
  if (ParseJson(config).is_object()) return absl::OkStatus();
  return Error(path,
               "is not a JSON object; write it like \"{\\\"rank\\\": 8}\"");
}

// Checks the fields that describe samples which are only indexes.
absl::Status ValidateIndexes(const JobSpec& job) {
  const ExternalDataSpec& data = job.data().external();
  if (data.has_config()) {
    return Error("data.external.config",
                 "has no effect without data.external.name, the data set that "
                 "would read it; leave it out");
  }
  if (!job.model().has_external()) {
    return Error("data.external.name", "is required for model.", ModelKind(job),
                 ", which computes from samples, not from their indexes");
  }
  if (!data.has_train_samples()) return Required("data.external.train_samples");
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateExternalModel(const ExternalModelSpec& model) {
  TRIBUTARY_RETURN_IF_ERROR(ValidateName("model.external.name", model.name()));
  return ValidateConfig("model.external.config", model.config());
}

absl::Status ValidateExternalData(const JobSpec& job) {
  const ExternalDataSpec& data = job.data().external();
  if (data.has_name()) {
    TRIBUTARY_RETURN_IF_ERROR(ValidateName("data.external.name", data.name()));
    TRIBUTARY_RETURN_IF_ERROR(
        ValidateConfig("data.external.config", data.config()));
  } else {
    TRIBUTARY_RETURN_IF_ERROR(ValidateIndexes(job));
  }
  if (data.has_train_samples()) {
    TRIBUTARY_RETURN_IF_ERROR(Between("data.external.train_samples",
                                      data.train_samples(), 1, kMaxSamples));
  }
  TRIBUTARY_RETURN_IF_ERROR(Between("data.external.evaluation_samples",
                                    data.evaluation_samples(), 0, kMaxSamples));
  TRIBUTARY_RETURN_IF_ERROR(ValidateName("data.external.unit", data.unit()));
  TRIBUTARY_RETURN_IF_ERROR(Between("data.external.units_per_sample",
                                    data.units_per_sample(), 1, kMaxWidth));
  if (job.model().has_gpt() && data.has_units_per_sample() &&
      data.units_per_sample() != job.model().gpt().context()) {
    return Error("data.external.units_per_sample", data.units_per_sample(),
                 " is not model.gpt.context ", job.model().gpt().context(),
                 ", the tokens of a sample; leave it out");
  }
  return absl::OkStatus();
}

}  // namespace tributary
