#include "server/coordinator/shard_answers.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace tributary {

bool ShardAnswers::Add(int shard, const SnapshotReport& report) {
  if (answered_[shard]) return false;
  switch (report.outcome()) {
    case SnapshotReport::TAKEN:
      Take(shard);
      return false;
    case SnapshotReport::WRITTEN:
      files_.insert(files_.end(), report.file().begin(), report.file().end());
      break;
    case SnapshotReport::PASSED:
      passed_ = true;
      Take(shard);
      break;
    default:
      error_ = absl::StrCat("server ", shard, ": ", report.message());
      break;
  }
  answered_[shard] = true;
  return --missing_ == 0;
}

void ShardAnswers::Take(int shard) {
  ++taken_;
  taken_by_holder_ = taken_by_holder_ || shard < holders_;
}

std::vector<CheckpointFile> ShardAnswers::Files() const {
  std::vector<CheckpointFile> files = files_;
  std::sort(files.begin(), files.end(),
            [](const CheckpointFile& a, const CheckpointFile& b) {
              return a.name() < b.name();
            });
  return files;
}

}  // namespace tributary
