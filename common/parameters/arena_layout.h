// The layout of a model that workers and servers share: its parameters, their
// offsets in the arena (one buffer with all parameters), the division of the
// arena into chunks, and the assignment of chunks to servers. ParameterTable in
// proto/parameter_server.proto defines the layout.
#ifndef TRIBUTARY_COMMON_PARAMETERS_ARENA_LAYOUT_H_
#define TRIBUTARY_COMMON_PARAMETERS_ARENA_LAYOUT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/limits.h"
#include "proto/parameter_server.pb.h"

namespace tributary {

// The largest allowed value of Parameter::learning_rate_factor.
inline constexpr float kMaxLearningRateFactor = 1000;

// In the arena, the buffer with all parameters, each parameter starts at a
// multiple of this many elements: 64 bytes, the size of a cache line and of the
// widest vector register.
inline constexpr int64_t kArenaAlignment = 16;

struct Parameter {
  std::string name;
  std::vector<std::string> aliases;  // Further names, of tied weights.
  std::vector<int64_t> shape;
  OptimizerGroup group = DECAY;
  // Factor by which the learning rate is multiplied for this parameter; above
  // 0.
  float learning_rate_factor = 1;
  int64_t offset = 0;  // Offset of the first element in the arena.
  int64_t size = 0;    // Number of elements.
  // Number of elements after the parameter that workers read as if they were
  // part of it. They belong to the alignment gap between this parameter and the
  // next one, and are zero.
  int64_t padding = 0;
};

// Consecutive elements of one chunk that are updated in the same way: they have
// the same optimizer group (see ParameterGroup) and the same learning rate
// factor.
struct ChunkSegment {
  // Offsets of the first element and of the end, relative to the start of the
  // chunk.
  int64_t begin = 0;
  int64_t end = 0;
  OptimizerGroup group = DECAY;
  float learning_rate_factor = 1;
};

// The offsets of the parameters and of the chunks in the arena, which is one
// buffer with all parameters. A chunk is a slice of the arena: workers and
// servers send and update the arena by chunks. Thread-safe, except
// ClearLearningRateFactors.
class ArenaLayout {
 public:
  // Computes the offsets of the parameters of `table`, which keep their order
  // in the arena. Returns InvalidArgument, naming the parameter, if the table
  // violates the rules in proto/parameter_server.proto. Examples: there are no
  // parameters, a name is empty or repeated, a dimension is below 1, a size
  // overflows, a learning_rate_factor is out of range, or chunk_elements is not
  // a positive multiple of kArenaAlignment. Also returns InvalidArgument if the
  // arena would exceed `max_elements` elements, or if the table exceeds a limit
  // of kDefaultLimits. Checks the limits before it allocates memory.
  static absl::StatusOr<ArenaLayout> Create(
      const ParameterTable& table,
      int64_t max_elements = kDefaultLimits.elements);

  const std::vector<Parameter>& parameters() const { return parameters_; }
  // Number of elements of all parameters together: the model's size. Does not
  // count the alignment gaps between parameters in the arena.
  int64_t parameter_count() const { return parameter_count_; }
  // Number of elements of the arena (the buffer with all parameters), including
  // the alignment gaps between parameters. A multiple of kArenaAlignment.
  int64_t arena_elements() const { return arena_elements_; }
  int64_t chunk_elements() const { return chunk_elements_; }
  int chunk_count() const { return chunk_count_; }
  int64_t ChunkBegin(int chunk) const { return chunk * chunk_elements_; }
  // Returns the number of elements of chunk number `chunk`: chunk_elements(),
  // or possibly less for the last chunk.
  int64_t ChunkSize(int chunk) const;
  // Returns the number of elements of these chunks together.
  int64_t ElementsOf(const std::vector<int>& chunks) const;
  // Returns the parameter that contains `element` (an offset in the arena), or
  // the last parameter before `element` if `element` is in an alignment gap.
  const Parameter& ParameterAt(int64_t element) const;
  // Returns the segments of the chunk in ascending order, without the alignment
  // gaps between parameters. With `by_parameter`, each segment contains
  // elements of one parameter only.
  std::vector<ChunkSegment> ChunkSegments(int chunk,
                                          bool by_parameter = false) const;
  // Returns the number of the server that owns the chunk if there are `servers`
  // servers. Adjacent chunks belong to different servers. Workers process
  // chunks in order, so all servers receive gradients throughout a step.
  static int ShardOf(int chunk, int servers) { return chunk % servers; }
  std::vector<int> ChunksOf(int shard, int servers) const;

  // Sets the learning rate factors of all parameters to 1. Servers in mode
  // local_steps (local SGD) call this, because the workers have already applied
  // the factors in their local steps. Does not change the signature.
  void ClearLearningRateFactors();

  // SHA-256 of the parameter table, in hex. Equal signatures mean equal tables.
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

#endif  // TRIBUTARY_COMMON_PARAMETERS_ARENA_LAYOUT_H_
