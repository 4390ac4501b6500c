#include "server/membership/stage_map.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/parameters/chunk_ranges.h"

namespace tributary {
namespace {

absl::Status InvalidStage(int stage, const std::string& reason) {
  return absl::InvalidArgumentError(
      absl::StrCat("Ready.stage: stage ", stage, " ", reason));
}

// Returns an error unless the stage receives the weights of the chunks to which
// it contributes, which tell it that its contributions have been applied.
absl::Status CheckReads(int number, const StageParameters& stage,
                        int chunk_count) {
  if (stage.read_chunk().empty()) {
    return InvalidStage(number,
                        "has no parameters: divide the model elsewhere");
  }
  TRIBUTARY_ASSIGN_OR_RETURN(
      const ChunkRanges reads,
      ChunkRanges::Create(stage.read_chunk(), chunk_count));
  for (int chunk = stage.chunk_begin(); chunk < stage.chunk_end(); ++chunk) {
    if (reads.Contains(chunk)) continue;
    return InvalidStage(number,
                        absl::StrCat("contributes to chunk ", chunk,
                                     ", which is not one of its read_chunk"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<StageMap> StageMap::Create(int stages, const Stages& proposal,
                                          int chunk_count) {
  if (proposal.size() != stages) {
    return absl::InvalidArgumentError(
        absl::StrCat("Ready.stage has ", proposal.size(),
                     " stages, but parallel.pipeline.stages is ", stages));
  }
  int layer = 0;
  int chunk = 0;
  for (int i = 0; i < stages; ++i) {
    const StageParameters& stage = proposal[i];
    if (stage.layer_begin() != layer || stage.layer_end() <= layer) {
      return InvalidStage(
          i, absl::StrCat("has layers [", stage.layer_begin(), ", ",
                          stage.layer_end(), "), which must begin with layer ",
                          layer));
    }
    const int least = i == 0 ? 1 : chunk;
    if (stage.chunk_begin() != chunk || stage.chunk_end() < least ||
        stage.chunk_end() > chunk_count ||
        (i + 1 == stages && stage.chunk_end() != chunk_count)) {
      return InvalidStage(
          i, absl::StrCat("contributes to chunks [", stage.chunk_begin(), ", ",
                          stage.chunk_end(), ") of ", chunk_count,
                          ", which must begin with chunk ", chunk,
                          i + 1 == stages ? " and end with the last one" : ""));
    }
    TRIBUTARY_RETURN_IF_ERROR(CheckReads(i, stage, chunk_count));
    layer = stage.layer_end();
    chunk = stage.chunk_end();
  }
  StageMap map;
  map.stages_ = proposal;
  return map;
}

ChunkRange StageMap::Contributed(const StageRange& stages) const {
  ChunkRange range;
  range.set_begin(stages_[stages.begin].chunk_begin());
  range.set_end(stages_[stages.end - 1].chunk_end());
  return range;
}

}  // namespace tributary
