#include "server/process/run_output.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <random>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/json.h"
#include "common/base/sha256.h"
#include "common/base/status_macros.h"
#include "common/job/job.h"
#include "common/os/file.h"
#include "common/os/file_system.h"
#include "common/os/logger.h"
#include "common/tensor_io/safetensors_file.h"
#include "nlohmann/json.hpp"
#include "server/checkpoint/final_folder.h"

namespace tributary {
namespace {

// Name of the file with the newest attempt's number.
constexpr char kAttemptName[] = "attempt";
// Name of the file with the run's ID.
constexpr char kRunName[] = "run-id";
constexpr int64_t kMaxAttemptBytes = 64;
constexpr int64_t kMaxAddressBytes = 4096;

std::string EncodingPath(const std::string& folder) {
  return absl::StrCat(folder, "/", kEncodingName);
}

absl::StatusOr<int64_t> ReadAttempt(const std::string& path) {
  TRIBUTARY_ASSIGN_OR_RETURN(const std::string text,
                             ReadFile(path, kMaxAttemptBytes));
  int64_t attempt = 0;
  if (absl::SimpleAtoi(text, &attempt) && attempt >= 0) return attempt;
  return absl::DataLossError(absl::StrCat(
      path,
      ": does not contain a number; if no other process uses this folder, "
      "remove the file"));
}

absl::Status MakeDirectory(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return FileError(error.value(), "cannot create folder", path);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<RunOutput>> RunOutput::Create(
    const std::string& directory, Logger* log, FileSystem* files) {
  TRIBUTARY_RETURN_IF_ERROR(MakeDirectory(directory));
  return std::unique_ptr<RunOutput>(new RunOutput(directory, log, files));
}

absl::Status RunOutput::WriteJob(const JobSpec& job) {
  return WriteFileAtomically(absl::StrCat(directory_, "/job.textproto"),
                             {PrintJob(job)}, files_);
}

std::string RunOutput::RunId(bool begins) {
  const std::string path = absl::StrCat(directory_, "/", kRunName);
  if (!begins) {
    const absl::StatusOr<std::string> kept = ReadFile(path, kMaxAttemptBytes);
    if (kept.ok() && !kept->empty()) return *kept;
  } else {
    std::error_code error;
    std::filesystem::remove(absl::StrCat(directory_, "/events.jsonl"), error);
  }
  std::random_device random;
  const std::string name = absl::StrCat(
      absl::Hex((uint64_t{random()} << 32) | random(), absl::kZeroPad16));
  const absl::Status status = WriteFileAtomically(path, {name}, files_);
  if (!status.ok()) {
    log_->Warning("cannot store the run's ID: %s",
                  std::string(status.message()));
  }
  return name;
}

void RunOutput::WriteAddress(const std::string& address) {
  nlohmann::ordered_json json = {{"address", address}, {"pid", getpid()}};
  address_ = absl::StrCat(json.dump(), "\n");
  const std::string path = absl::StrCat(directory_, "/server.json");
  const std::string unfinished =
      absl::StrCat(directory_, "/", UnfinishedName("server.json"));
  std::ofstream file(unfinished, std::ios::binary);
  file << address_;
  file.close();
  std::error_code error;
  if (file) std::filesystem::rename(unfinished, path, error);
  if (!file || error) std::filesystem::remove(unfinished, error);
}

void RunOutput::RemoveAddress() {
  const std::string path = absl::StrCat(directory_, "/server.json");
  // Another coordinator may have taken over the job.
  const absl::StatusOr<std::string> text = ReadFile(path, kMaxAddressBytes);
  std::error_code error;
  if (text.ok() && *text == address_) std::filesystem::remove(path, error);
}

absl::StatusOr<int64_t> RunOutput::NextAttempt() {
  const std::string path = absl::StrCat(directory_, "/", kAttemptName);
  const absl::StatusOr<int64_t> last = ReadAttempt(path);
  if (!last.ok() && !absl::IsNotFound(last.status())) return last.status();
  const int64_t attempt = last.value_or(0) + 1;
  const absl::Status stored =
      WriteFileAtomically(path, {absl::StrCat(attempt, "\n")}, files_);
  if (stored.ok()) return attempt;
  // CheckAttempt must not mistake this number for one of another process.
  const absl::StatusOr<int64_t> written = ReadAttempt(path);
  if (written.ok() && *written == attempt) unsynced_attempt_ = attempt;
  return stored;
}

absl::Status RunOutput::CheckAttempt(int64_t attempt) const {
  TRIBUTARY_ASSIGN_OR_RETURN(
      const int64_t newest,
      ReadAttempt(absl::StrCat(directory_, "/", kAttemptName)));
  if (newest <= attempt || newest == unsynced_attempt_) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("another coordinator has taken over the job in ", directory_,
                   " (attempt ", newest, ", this one's is ", attempt,
                   "): this process must end"));
}

absl::Status RunOutput::RewindMetrics(int64_t step, int64_t evaluated_step) {
  const std::string path = absl::StrCat(directory_, "/metrics.jsonl");
  std::string kept;
  {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
      // A crash may have cut the last line.
      const nlohmann::json json = ParseJson(line);
      if (!json.is_object() || !json.contains("step") ||
          !json["step"].is_number_integer()) {
        continue;
      }
      const int64_t last =
          json.contains("evaluation_loss") ? evaluated_step : step;
      if (json["step"].get<int64_t>() <= last) {
        absl::StrAppend(&kept, line, "\n");
      }
    }
  }
  TRIBUTARY_RETURN_IF_ERROR(WriteFileAtomically(path, {kept}, files_));
  absl::MutexLock lock(&mu_);
  return metrics_.lines.Open(path);
}

void RunOutput::AppendMetrics(const std::string& line) {
  absl::MutexLock lock(&mu_);
  Append(line, &metrics_);
}

void RunOutput::AppendEvent(const std::string& line) {
  absl::MutexLock lock(&mu_);
  Append(line, &events_);
}

void RunOutput::Append(const std::string& line, RecordFile* file) {
  absl::Status status;
  if (!file->lines.is_open()) {
    status = file->lines.Open(absl::StrCat(directory_, "/", file->name));
  }
  if (status.ok()) status = file->lines.Append(line);
  if (status.ok() || std::exchange(file->failed, true)) return;
  log_->Warning(
      "%s in %s is incomplete because a write failed: check the disk's free "
      "space",
      file->name, directory_);
}

absl::StatusOr<std::string> RunOutput::WriteModel(
    const std::string& name, const ArenaLayout& layout, const float* weights,
    const std::vector<NamedTensor>& untrained,
    const std::map<std::string, std::string>& metadata) {
  Sha256 digest;
  for (const Parameter& parameter : layout.parameters()) {
    digest.Update({reinterpret_cast<const char*>(weights + parameter.offset),
                   parameter.size * sizeof(float)});
  }
  const std::string folder = FinalFolder(directory_);
  TRIBUTARY_RETURN_IF_ERROR(files_->MakeFolder(folder));
  TRIBUTARY_RETURN_IF_ERROR(files_->SyncFolder(directory_));
  TRIBUTARY_RETURN_IF_ERROR(WriteSafetensors(
      absl::StrCat(folder, "/", name), FinalTensors(layout, weights, untrained),
      metadata, files_));
  const absl::StatusOr<std::string> encoding =
      ReadFile(EncodingPath(directory_), kMaxEncodingFileBytes);
  if (!absl::IsNotFound(encoding.status())) {
    TRIBUTARY_RETURN_IF_ERROR(encoding.status());
    TRIBUTARY_RETURN_IF_ERROR(
        WriteFileAtomically(EncodingPath(folder), {*encoding}, files_));
  }
  return digest.FinishHex();
}

absl::Status RunOutput::WriteEncoding(const DataFacts& facts) {
  const std::string encoding =
      absl::StrJoin(facts.encoding(), /*separator=*/"");
  const std::string path = EncodingPath(directory_);
  if (!encoding.empty()) return WriteFileAtomically(path, {encoding}, files_);
  for (const std::string& stale :
       {path, EncodingPath(FinalFolder(directory_))}) {
    const absl::Status removed = files_->Remove(stale);
    if (!removed.ok() && !absl::IsNotFound(removed)) return removed;
  }
  return absl::OkStatus();
}

absl::Status RunOutput::WriteSummary(const std::string& summary) {
  return WriteFileAtomically(absl::StrCat(directory_, "/summary.json"),
                             {summary}, files_);
}

}  // namespace tributary
