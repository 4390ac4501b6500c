#ifndef TRIBUTARY_DEPLOY_TOOLS_TUNE_STUDY_FOLDER_H_
#define TRIBUTARY_DEPLOY_TOOLS_TUNE_STUDY_FOLDER_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "deploy/tools/tune/search/study.h"

namespace tributary {

// The paths of a study in a folder:
//   search.textproto   the search
//   job.textproto.in   the job file; absent for the built-in job
//   study.journal      all trials, results and decisions: a journal of Optuna
//   trials/00000/...   the run of each trial
//   final-runs/...     the runs of the final evaluation
//   tuners/...         the leases of tuners, if the study is shared
//   decoded/...        decoded data, until the search is done
//   slurm/...          what Slurm has answered, by the number of its job
class StudyFolder {
 public:
  explicit StudyFolder(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  std::string Search() const;
  std::string Job() const;
  std::string Journal() const;
  std::string Tuners() const;
  std::string Decoded() const;
  std::string Slurm() const;
  // The folders of a trial's run, and of the run to which a segment belongs.
  std::string Trial(int64_t trial) const;
  std::string RunOf(const Segment& segment) const;

  // Returns true if the folder contains a study.
  bool Exists() const;
  // Returns the files that a new study would replace, by their paths.
  std::vector<std::string> Files() const;

 private:
  std::string FinalRuns() const;
  std::string Trials() const;

  std::string path_;
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_TUNE_STUDY_FOLDER_H_
