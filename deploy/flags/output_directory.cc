#include "deploy/flags/output_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "common/os/file.h"
#include "deploy/flags/run_files.h"
#include "nlohmann/json.hpp"
#include "server/checkpoint/checkpoint_folder.h"

namespace tributary {
namespace {

namespace fs = std::filesystem;

// The files of a run. Only these are removed, because a folder may contain
// other files of its owner.
constexpr const char* kFilesOfARun[] = {"summary.json",
                                        "metrics.jsonl",
                                        "launch.json",
                                        "job.textproto",
                                        "prometheus-targets.json",
                                        "server.json",
                                        "token",
                                        "sample.txt",
                                        "trace.json",
                                        "final/manifest.json",
                                        "final/model.safetensors"};

// The folders of a run, and the files of a run that grow; all other files are
// replaced as a whole, which replaces a link and not what it refers to.
constexpr const char* kWrittenInPlace[] = {
    "logs",          "checkpoints",  "final",   "best",      "tensorboard",
    "metrics.jsonl", "events.jsonl", "attempt", "trace.json"};

// Returns an error if the run would write to a place outside of `path`, because
// whoever made a link there chose the place.
absl::Status RefuseLinks(const std::string& path) {
  for (const char* const name : kWrittenInPlace) {
    std::error_code ignored;
    const fs::path entry = fs::path(path) / name;
    if (fs::symlink_status(entry, ignored).type() == fs::file_type::symlink) {
      return absl::FailedPreconditionError(
          absl::StrCat(entry.string(),
                       ": is a symbolic link, which a run does not write to; "
                       "remove it, or choose another output folder"));
    }
  }
  return absl::OkStatus();
}

// Returns true for checkpoints, including those that were moved aside when
// their steps were saved again.
bool IsCheckpoint(const std::string& name) {
  return absl::StartsWith(name, "step-") && !absl::StrContains(name, ".tmp-");
}

// Returns true if `summary` describes a run that ended before it completed a
// step.
bool IsOfNoStep(const nlohmann::ordered_json& json) {
  const auto status = json.find("status");
  // The field is missing if no worker joined.
  const auto steps = json.find("steps");
  return status != json.end() &&
         (*status == "failed" || *status == "stopped") &&
         json.contains("attempt") && (steps == json.end() || *steps == 0);
}

// Returns the kind of results of an earlier run that must not be lost; empty:
// none. A run that failed before its first step leaves only its summary and
// logs.
absl::StatusOr<std::string> ValuableIn(const std::string& path) {
  const absl::StatusOr<std::vector<std::string>> names =
      ListFolder(CheckpointsFolder(path));
  if (!names.ok() && !absl::IsNotFound(names.status())) return names.status();
  if (names.ok() && std::any_of(names->begin(), names->end(), IsCheckpoint)) {
    return std::string("checkpoints");
  }
  std::error_code error;
  if (fs::exists(absl::StrCat(path, "/final/model.safetensors"), error)) {
    return std::string("results");
  }
  const std::string metrics = absl::StrCat(path, "/metrics.jsonl");
  if (fs::exists(metrics, error) && !fs::is_empty(metrics, error)) {
    return std::string("results");
  }
  // The summary is missing if the run was killed.
  const auto summary = ReadRunSummary(path);
  const bool worthless =
      summary.ok() ? IsOfNoStep(*summary) : absl::IsNotFound(summary.status());
  return std::string(worthless ? "" : "results");
}

absl::Status RemoveRun(const std::string& path) {
  std::error_code error;
  const std::string folder = CheckpointsFolder(path);
  const absl::StatusOr<std::vector<std::string>> names = ListFolder(folder);
  for (const std::string& name :
       names.ok() ? *names : std::vector<std::string>()) {
    // Checkpoints, and those that were moved aside.
    if (!absl::StartsWith(name, "step-") && !absl::StartsWith(name, "latest")) {
      continue;
    }
    fs::remove_all(absl::StrCat(folder, "/", name), error);
    if (error) {
      return FileError(error.value(), "cannot remove",
                       absl::StrCat(folder, "/", name));
    }
  }
  for (const char* const file : kFilesOfARun) {
    fs::remove(fs::path(path) / file, error);
    if (error) {
      return FileError(error.value(), "cannot remove",
                       absl::StrCat(path, "/", file));
    }
  }
  // A checkpoint of the best version, but no other folder of this name.
  if (fs::exists(fs::path(BestFolder(path)) / "manifest.json", error)) {
    fs::remove_all(BestFolder(path), error);
    if (error) {
      return FileError(error.value(), "cannot remove", BestFolder(path));
    }
  }
  const std::string events = absl::StrCat(path, "/tensorboard");
  const absl::StatusOr<std::vector<std::string>> event_files =
      ListFolder(events);
  for (const std::string& name :
       event_files.ok() ? *event_files : std::vector<std::string>()) {
    if (!absl::StartsWith(name, "events.out.tfevents.")) continue;
    fs::remove(fs::path(events) / name, error);
    if (error) {
      return FileError(error.value(), "cannot remove",
                       absl::StrCat(events, "/", name));
    }
  }
  return absl::OkStatus();
}

// True if a process that was killed has left this file or folder unfinished.
bool IsLeftover(const std::string& name) {
  const size_t mark = name.rfind(".tmp-");
  return mark != std::string::npos && mark > 0 &&
         IsUnfinished(name, name.substr(0, mark));
}

// Removes the leftovers in the folders of a run. No process may use them.
void RemoveLeftovers(const std::string& path) {
  for (const std::string& folder :
       {path, absl::StrCat(path, "/logs"), absl::StrCat(path, "/final"),
        CheckpointsFolder(path)}) {
    const absl::StatusOr<std::vector<std::string>> names = ListFolder(folder);
    if (!names.ok()) continue;
    for (const std::string& name : *names) {
      std::error_code error;  // A leftover only takes up space.
      if (IsLeftover(name)) {
        fs::remove_all(absl::StrCat(folder, "/", name), error);
      }
    }
  }
}

}  // namespace

std::string OutputDirectoryOfRun(const std::string& job_name,
                                 const std::string& run_id) {
  std::string name = job_name.substr(0, 64);
  for (char& c : name) {
    if (!absl::ascii_isalnum(c) && c != '_' && c != '.') c = '-';
  }
  return absl::StrCat("runs/", name, "-", run_id);
}

std::string DefaultOutputDirectory(const std::string& job_name, absl::Time now,
                                   absl::TimeZone zone) {
  return OutputDirectoryOfRun(job_name,
                              absl::FormatTime("%Y%m%d-%H%M%S", now, zone));
}

void AddOverwriteFlag(CommandLine* line, bool* overwrite) {
  line->AddSwitch("overwrite", "Replace the results in --output.", overwrite);
}

void AddAllowJobChangesFlag(CommandLine* line, bool* allow) {
  line->AddSwitch(
      "allow-job-changes",
      "Allow --resume with a job that differs from the run's in a field that "
      "affects the result, such as the learning rate. The result is then that "
      "of neither job. Not needed to train more steps, or to change output, "
      "checkpoints, evaluation or transport.",
      allow);
}

OutputDirectory::OutputDirectory(std::string path, int fd)
    : path_(std::move(path)), fd_(fd) {}

OutputDirectory::~OutputDirectory() {
  if (held_) RemoveLeftovers(path_);
  close(fd_);
}

void OutputDirectory::Hold() {
  held_ = true;
  RemoveLeftovers(path_);
}

std::string FreshOutputDirectory(const std::string& job_name) {
  const std::string base =
      DefaultOutputDirectory(job_name, absl::Now(), absl::LocalTimeZone());
  std::string path = base;
  std::error_code error;
  for (int i = 2; std::filesystem::exists(path, error); ++i) {
    path = absl::StrCat(base, "-", i);
  }
  return path;
}

absl::StatusOr<std::unique_ptr<OutputDirectory>> OutputDirectory::Claim(
    const std::string& path, Earlier earlier, const Names& names) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return FileError(error.value(), "cannot create folder", path);
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return FileError(errno, "cannot open folder", path);
  std::unique_ptr<OutputDirectory> claimed(new OutputDirectory(path, fd));
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    return absl::UnavailableError(absl::StrCat(
        path, ": another run is writing here; choose another ", names.folder));
  }
  if (access(path.c_str(), W_OK | X_OK) != 0) {
    return FileError(errno, "cannot write to folder", path);
  }
  TRIBUTARY_RETURN_IF_ERROR(RefuseLinks(path));
  if (earlier == Earlier::kResume) {
    claimed->Hold();
    return claimed;
  }
  if (earlier == Earlier::kRefuse) {
    TRIBUTARY_ASSIGN_OR_RETURN(const std::string valuable, ValuableIn(path));
    if (!valuable.empty()) {
      return absl::FailedPreconditionError(absl::StrCat(
          path, " holds the ", valuable, " of another run; choose another ",
          names.folder, ", ",
          valuable == "checkpoints"
              ? absl::StrCat("continue it with ", names.resume, ", ")
              : "",
          "or replace it with ", names.overwrite));
    }
  }
  TRIBUTARY_RETURN_IF_ERROR(RemoveRun(path));
  claimed->Hold();
  return claimed;
}

}  // namespace tributary
