// The folder that a run writes its results to.
#ifndef TRIBUTARY_DEPLOY_FLAGS_OUTPUT_DIRECTORY_H_
#define TRIBUTARY_DEPLOY_FLAGS_OUTPUT_DIRECTORY_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "deploy/flags/command_line.h"

namespace tributary {

// Returns runs/<name>-<YYYYMMDD-HHMMSS>, where <name> is the start of
// `job_name` (up to 64 characters), with '-' in place of all characters except
// letters, digits, '_' and '.'.
std::string DefaultOutputDirectory(const std::string& job_name, absl::Time now,
                                   absl::TimeZone zone);

// Returns runs/<name>-<run_id>, where <name> is derived from `job_name` as in
// DefaultOutputDirectory.
std::string OutputDirectoryOfRun(const std::string& job_name,
                                 const std::string& run_id);

// Returns DefaultOutputDirectory for the current time in the local time zone.
// If that folder exists, because a different job has started within the same
// second, appends a number to the name.
std::string FreshOutputDirectory(const std::string& job_name);

// An exclusive claim on an output folder. No other process that uses this class
// can claim the folder until this object is destroyed or this process ends. At
// both times, temporary files (see UnfinishedName) that processes of this run
// or of an earlier one have left are removed, so destroy this object after the
// processes of the run have ended.
class OutputDirectory {
 public:
  // What to do if the folder contains results of an earlier run.
  enum class Earlier {
    // Return an error if the folder holds a model, checkpoints, metrics, or the
    // summary of a run that completed a step. Otherwise, remove the files that
    // an earlier run has left.
    kRefuse,
    kReplace,  // Remove the results of an earlier run.
    kResume,   // Keep all files, to continue the earlier run.
  };
  // The names, in error messages, of the settings that choose the folder,
  // resume the run in the folder, and replace the results in the folder.
  struct Names {
    std::string folder = "--output";
    std::string resume = "--resume auto";
    std::string overwrite = "--overwrite";
  };
  // Creates the folder `path` and its parents, and claims the folder for this
  // process. Returns Unavailable if a different process holds the claim,
  // FailedPrecondition if `earlier` is kRefuse and the folder holds results of
  // an earlier run, or if the run would write through a symbolic link in the
  // folder, and the system's error if the folder cannot be used.
  static absl::StatusOr<std::unique_ptr<OutputDirectory>> Claim(
      const std::string& path, Earlier earlier, const Names& names);
  static absl::StatusOr<std::unique_ptr<OutputDirectory>> Claim(
      const std::string& path, Earlier earlier) {
    return Claim(path, earlier, Names());
  }
  ~OutputDirectory();
  OutputDirectory(const OutputDirectory&) = delete;
  OutputDirectory& operator=(const OutputDirectory&) = delete;

  const std::string& path() const { return path_; }

 private:
  OutputDirectory(std::string path, int fd);
  // Called when nothing prevents the run any more.
  void Hold();

  const std::string path_;
  const int fd_;
  bool held_ = false;
};

// Declares --overwrite, which replaces the results of an earlier run, for
// commands with --output.
void AddOverwriteFlag(CommandLine* line, bool* overwrite);
// Declares --allow-job-changes, which allows resuming a run with a different
// job, for commands with --resume.
void AddAllowJobChangesFlag(CommandLine* line, bool* allow);

// The value of --resume that resumes the run in --output.
inline constexpr char kResumeAuto[] = "auto";

// Returns what to do with an earlier run in the folder: resume it if `resume`,
// the value of the flag --resume, is not empty; otherwise replace it if
// `overwrite` is true, or refuse to start.
inline OutputDirectory::Earlier EarlierRun(const std::string& resume,
                                           bool overwrite) {
  if (!resume.empty()) return OutputDirectory::Earlier::kResume;
  return overwrite ? OutputDirectory::Earlier::kReplace
                   : OutputDirectory::Earlier::kRefuse;
}

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_FLAGS_OUTPUT_DIRECTORY_H_
