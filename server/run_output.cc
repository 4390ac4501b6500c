#include "server/run_output.h"

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/digest.h"
#include "common/file.h"
#include "common/job.h"
#include "common/log.h"
#include "common/safetensors.h"
#include "common/status_macros.h"

namespace tributary {
namespace {

absl::Status MakeDirectory(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return FileError(error.value(), "cannot make folder", path);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<RunOutput>> RunOutput::Create(
    const std::string& directory, const JobSpec& job, Logger* log) {
  TRIBUTARY_RETURN_IF_ERROR(MakeDirectory(directory));
  TRIBUTARY_RETURN_IF_ERROR(WriteFileAtomically(
      absl::StrCat(directory, "/job.textproto"), {PrintJob(job)}));
  auto output = std::unique_ptr<RunOutput>(new RunOutput(directory, log));
  const std::string path = absl::StrCat(directory, "/metrics.jsonl");
  absl::MutexLock lock(&output->mu_);
  output->metrics_.open(path, std::ios::trunc);
  if (!output->metrics_) return FileError(errno, "cannot write", path);
  return output;
}

void RunOutput::AppendMetrics(const nlohmann::ordered_json& line) {
  absl::MutexLock lock(&mu_);
  metrics_ << line.dump() << std::endl;
  if (!metrics_ && !metrics_failed_) {
    log_->Warning("metrics.jsonl in %s is incomplete: is the disk full?",
                  directory_);
    metrics_failed_ = true;
  }
  metrics_.clear();
}

absl::StatusOr<std::string> RunOutput::WriteModel(const ArenaLayout& layout,
                                                  const float* weights) {
  std::vector<NamedTensor> tensors;
  Sha256 digest;
  for (const Parameter& parameter : layout.parameters()) {
    const float* values = weights + parameter.offset;
    tensors.push_back({parameter.name, parameter.shape, values});
    digest.Update({reinterpret_cast<const char*>(values),
                   parameter.size * sizeof(float)});
  }
  const std::string folder = absl::StrCat(directory_, "/final");
  TRIBUTARY_RETURN_IF_ERROR(MakeDirectory(folder));
  TRIBUTARY_RETURN_IF_ERROR(WriteSafetensors(
      absl::StrCat(folder, "/model.safetensors"), tensors, {}));
  return digest.FinishHex();
}

absl::Status RunOutput::WriteSummary(const nlohmann::ordered_json& summary) {
  return WriteFileAtomically(absl::StrCat(directory_, "/summary.json"),
                             {absl::StrCat(summary.dump(2), "\n")});
}

}  // namespace tributary
