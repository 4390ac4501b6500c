// A set of chunks of the arena.
#ifndef TRIBUTARY_COMMON_PARAMETERS_CHUNK_RANGES_H_
#define TRIBUTARY_COMMON_PARAMETERS_CHUNK_RANGES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "google/protobuf/repeated_field.h"
#include "proto/parameter_server.pb.h"

namespace tributary {

// The chunks whose weights a worker receives: those that contain parameters of
// the layers that it computes. Immutable and thread-safe.
class ChunkRanges {
 public:
  using Message = google::protobuf::RepeatedPtrField<ChunkRange>;

  // All chunks of a model, however many it has.
  ChunkRanges() = default;

  // Reads ranges from a message; no ranges mean all chunks. Returns
  // InvalidArgument, with the range, unless the ranges are ascending, do not
  // overlap, are not empty, and are part of a model of `chunk_count` chunks.
  static absl::StatusOr<ChunkRanges> Create(const Message& ranges,
                                            int chunk_count);

  // Returns the chunks that are in any of these ranges, of which there must be
  // at least one, and none empty. They may overlap, and have any order.
  static ChunkRanges Union(std::vector<ChunkRange> ranges);

  // True if the set was not restricted to some ranges.
  bool all() const { return ranges_.empty(); }
  bool Contains(int chunk) const;
  // Returns the number of chunks of this set in a model of `chunk_count`
  // chunks.
  int CountOf(int chunk_count) const;
  // Returns the ranges, ascending. Empty if the set contains all chunks.
  const Message& ranges() const { return ranges_; }

 private:
  Message ranges_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_PARAMETERS_CHUNK_RANGES_H_
