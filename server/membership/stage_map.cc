#include "server/membership/stage_map.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/parameters/chunk_ranges.h"

namespace tributary {
namespace {

absl::Status InvalidSegment(int segment, const std::string& reason) {
  return absl::InvalidArgumentError(
      absl::StrCat("Ready.segment: segment ", segment, " ", reason));
}

// Returns an error unless the segment receives the weights of the chunks to
// which it contributes, which tell it that its contributions have been applied.
absl::Status CheckReads(int number, const StageParameters& stage,
                        int chunk_count) {
  if (stage.read_chunk().empty()) {
    return InvalidSegment(number,
                          "has no parameters: divide the model elsewhere");
  }
  TRIBUTARY_ASSIGN_OR_RETURN(
      const ChunkRanges reads,
      ChunkRanges::Create(stage.read_chunk(), chunk_count));
  for (int chunk = stage.chunk_begin(); chunk < stage.chunk_end(); ++chunk) {
    if (reads.Contains(chunk)) continue;
    return InvalidSegment(number,
                          absl::StrCat("contributes to chunk ", chunk,
                                       ", which is not one of its read_chunk"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<StageMap> StageMap::Create(const Stages& segments,
                                          int chunk_count) {
  const int count = segments.size();
  if (count == 0) {
    return absl::InvalidArgumentError(
        "Ready.segment is empty, but the job has parallel.pipeline");
  }
  int layer = 0;
  int chunk = 0;
  for (int i = 0; i < count; ++i) {
    const StageParameters& stage = segments[i];
    if (stage.layer_begin() != layer || stage.layer_end() <= layer) {
      return InvalidSegment(
          i, absl::StrCat("has layers [", stage.layer_begin(), ", ",
                          stage.layer_end(), "), which must begin with layer ",
                          layer));
    }
    const int least = i == 0 ? 1 : chunk;
    if (stage.chunk_begin() != chunk || stage.chunk_end() < least ||
        stage.chunk_end() > chunk_count ||
        (i + 1 == count && stage.chunk_end() != chunk_count)) {
      return InvalidSegment(
          i, absl::StrCat("contributes to chunks [", stage.chunk_begin(), ", ",
                          stage.chunk_end(), ") of ", chunk_count,
                          ", which must begin with chunk ", chunk,
                          i + 1 == count ? " and end with the last one" : ""));
    }
    TRIBUTARY_RETURN_IF_ERROR(CheckReads(i, stage, chunk_count));
    layer = stage.layer_end();
    chunk = stage.chunk_end();
  }
  StageMap map;
  map.stages_ = segments;
  return map;
}

StageMap StageMap::Merge(const std::vector<int>& begins) const {
  StageMap map;
  for (size_t s = 0; s < begins.size(); ++s) {
    const int end = s + 1 < begins.size() ? begins[s + 1] : stages_.size();
    StageParameters* const merged = map.stages_.Add();
    merged->set_layer_begin(stages_[begins[s]].layer_begin());
    merged->set_layer_end(stages_[end - 1].layer_end());
    merged->set_chunk_begin(stages_[begins[s]].chunk_begin());
    merged->set_chunk_end(stages_[end - 1].chunk_end());
    std::vector<ChunkRange> reads;
    for (int i = begins[s]; i < end; ++i) {
      reads.insert(reads.end(), stages_[i].read_chunk().begin(),
                   stages_[i].read_chunk().end());
    }
    *merged->mutable_read_chunk() =
        ChunkRanges::Union(std::move(reads)).ranges();
  }
  return map;
}

ChunkRange StageMap::Contributed(const StageRange& stages) const {
  ChunkRange range;
  range.set_begin(stages_[stages.begin].chunk_begin());
  range.set_end(stages_[stages.end - 1].chunk_end());
  return range;
}

}  // namespace tributary
