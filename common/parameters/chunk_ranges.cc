#include "common/parameters/chunk_ranges.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace tributary {

absl::StatusOr<ChunkRanges> ChunkRanges::Create(const Message& ranges,
                                                int chunk_count) {
  int end = 0;
  for (const ChunkRange& range : ranges) {
    if (range.begin() < end || range.end() <= range.begin() ||
        range.end() > chunk_count) {
      return absl::InvalidArgumentError(
          absl::StrCat("chunk_range [", range.begin(), ", ", range.end(),
                       ") must not be empty, must begin at or after chunk ",
                       end, ", and must end at or before chunk ", chunk_count));
    }
    end = range.end();
  }
  ChunkRanges result;
  result.ranges_ = ranges;
  return result;
}

ChunkRanges ChunkRanges::Union(std::vector<ChunkRange> ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const ChunkRange& a, const ChunkRange& b) {
              return a.begin() < b.begin();
            });
  ChunkRanges result;
  for (const ChunkRange& range : ranges) {
    if (result.ranges_.empty() ||
        result.ranges_.rbegin()->end() < range.begin()) {
      *result.ranges_.Add() = range;
    } else {
      ChunkRange& last = *result.ranges_.rbegin();
      last.set_end(std::max(last.end(), range.end()));
    }
  }
  return result;
}

bool ChunkRanges::Contains(int chunk) const {
  if (all()) return true;
  const auto after = std::upper_bound(ranges_.begin(), ranges_.end(), chunk,
                                      [](int number, const ChunkRange& range) {
                                        return number < range.begin();
                                      });
  return after != ranges_.begin() && chunk < std::prev(after)->end();
}

int ChunkRanges::CountOf(int chunk_count) const {
  if (all()) return chunk_count;
  int count = 0;
  for (const ChunkRange& range : ranges_) count += range.end() - range.begin();
  return count;
}

}  // namespace tributary
