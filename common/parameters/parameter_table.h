// The model as both sides see it: which parameters there are, where each lies
// in the arena, and how the arena is cut into chunks and dealt over servers.
// See ParameterTable in proto/parameter_server.proto for the layout's
// definition.
#ifndef TRIBUTARY_COMMON_PARAMETERS_PARAMETER_TABLE_H_
#define TRIBUTARY_COMMON_PARAMETERS_PARAMETER_TABLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/limits.h"
#include "proto/parameter_server.pb.h"

namespace tributary {

// Each parameter starts at a multiple of this many elements (64 bytes: a cache
// line, and the widest vector register).
inline constexpr int64_t kArenaAlignment = 16;

struct Parameter {
  std::string name;
  std::vector<int64_t> shape;
  OptimizerGroup group = DECAY;
  int64_t offset = 0;  // First element in the arena.
  int64_t size = 0;    // Number of elements.
};

// A run of consecutive elements of one chunk that share an optimizer group.
struct ChunkSegment {
  int64_t begin = 0;  // Elements, from the start of the chunk.
  int64_t end = 0;
  OptimizerGroup group = DECAY;
};

// Immutable after construction, so safe from any thread.
class ArenaLayout {
 public:
  // Lays out the parameters of `table` in their order. InvalidArgument, naming
  // the parameter, for a table that breaks the rules in the .proto (no
  // parameters, empty or repeated names, dimensions below 1, sizes that
  // overflow, chunk_elements that is not a positive multiple of
  // kArenaAlignment) or whose arena would exceed `max_elements`; and for one
  // beyond the other kDefaultLimits, before memory is taken for it.
  static absl::StatusOr<ArenaLayout> Create(
      const ParameterTable& table,
      int64_t max_elements = kDefaultLimits.elements);

  const std::vector<Parameter>& parameters() const { return parameters_; }
  // Number of parameters' elements, without gaps: what people call the model's
  // size.
  int64_t parameter_count() const { return parameter_count_; }
  // Elements of the whole arena: a multiple of kArenaAlignment.
  int64_t arena_elements() const { return arena_elements_; }
  int64_t chunk_elements() const { return chunk_elements_; }
  int chunk_count() const { return chunk_count_; }
  int64_t ChunkBegin(int chunk) const { return chunk * chunk_elements_; }
  // The last chunk may be shorter than chunk_elements().
  int64_t ChunkSize(int chunk) const;
  // Whose element this is, or which is the last one before it in the arena.
  const Parameter& ParameterAt(int64_t element) const;
  // In order, covering the chunk but for the gaps between parameters.
  std::vector<ChunkSegment> ChunkSegments(int chunk) const;
  // Which of `servers` owns the chunk: neighbours go to different servers, so
  // that all of them are busy from the first chunk of a step to the last.
  static int ShardOf(int chunk, int servers) { return chunk % servers; }
  std::vector<int> ChunksOf(int shard, int servers) const;

  // SHA-256, hex: equal signatures mean equal tables.
  const std::string& signature() const { return signature_; }

 private:
  ArenaLayout() = default;

  std::vector<Parameter> parameters_;
  int64_t parameter_count_ = 0;
  int64_t arena_elements_ = 0;
  int64_t chunk_elements_ = 0;
  int chunk_count_ = 0;
  std::string signature_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_PARAMETERS_PARAMETER_TABLE_H_
