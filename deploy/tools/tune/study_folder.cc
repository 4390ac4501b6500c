#include "deploy/tools/tune/study_folder.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/os/file.h"

namespace tributary {

std::string StudyFolder::Search() const {
  return absl::StrCat(path_, "/search.textproto");
}

std::string StudyFolder::Job() const {
  return absl::StrCat(path_, "/job.textproto.in");
}

std::string StudyFolder::Journal() const {
  return absl::StrCat(path_, "/study.journal");
}

std::string StudyFolder::Tuners() const {
  return absl::StrCat(path_, "/tuners");
}

std::string StudyFolder::Decoded() const {
  return absl::StrCat(path_, "/decoded");
}

std::string StudyFolder::Slurm() const { return absl::StrCat(path_, "/slurm"); }

std::string StudyFolder::Trials() const {
  return absl::StrCat(path_, "/trials");
}

std::string StudyFolder::FinalRuns() const {
  return absl::StrCat(path_, "/final-runs");
}

std::string StudyFolder::Trial(int64_t trial) const {
  return absl::StrFormat("%s/%05d", Trials(), trial);
}

std::string StudyFolder::RunOf(const Segment& segment) const {
  if (!segment.is_final()) return Trial(segment.trial);
  return absl::StrFormat("%s/%05d-seed-%d", FinalRuns(), segment.trial,
                         segment.final_seed);
}

bool StudyFolder::Exists() const {
  return PathExists(Search()) && PathExists(Journal());
}

std::vector<std::string> StudyFolder::Files() const {
  std::vector<std::string> found;
  for (const std::string& path : {Search(), Job(), Journal(),
                                  Journal() + ".lock", Trials(), FinalRuns()}) {
    std::error_code ignored;
    const auto status = std::filesystem::symlink_status(path, ignored);
    if (std::filesystem::exists(status)) found.push_back(path);
  }
  return found;
}

}  // namespace tributary
