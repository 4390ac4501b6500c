// Drives the passes of several chunks through several steps, for the
// conformance suite.
#ifndef TRIBUTARY_TESTS_COMMON_UPDATE_CHUNK_PASS_DRIVER_H_
#define TRIBUTARY_TESTS_COMMON_UPDATE_CHUNK_PASS_DRIVER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/numerics/half.h"
#include "common/parameters/arena_layout.h"
#include "common/update/chunk_pass.h"
#include "proto/job.pb.h"

namespace tributary {

// The form in which a pass receives gradients. kMemory: in shared memory.
// kPieces: in pieces, as from the wire. kBoth: one gradient in shared memory,
// the others in pieces. kSparse: in pieces, with most elements 0.
enum class Way { kMemory, kPieces, kBoth, kSparse };

struct PassCase {
  // Value of the job's field `optimizer`, as protobuf text.
  std::string optimizer;
  WireDtype dtype = ExchangeSpec::FLOAT32;
  Way way = Way::kBoth;
  // True if the norm of the gradient is computed before any chunk is updated.
  bool awaits_norm = false;
  float gradient_scale = 0.3f;
  // True if one contribution is the sum of two of the four leaves. Otherwise
  // each contribution is one leaf.
  bool subtree = false;
  int64_t skipped = -1;  // Number of the step that is skipped; -1 if none is.
  // Step before which all passes are recreated from their state; -1 if none.
  int64_t resumed = -1;
  // True to run all chunks of a step as one group, if the passes support
  // groups.
  bool together = true;
};

// Results of all passes, ordered by step and then by chunk.
struct Trace {
  // Weights of each pass.
  std::vector<std::vector<float>> weights;
  // Optimizer state tensors of each pass.
  std::vector<std::vector<float>> state;
  std::vector<std::string> payloads;  // Encoded weights, as streams send them.
  // Sum of squares of each gradient, after those of all parameters with weight
  // decay if the optimizer has trust ratios.
  std::vector<double> squares;
};

// Returns a layout whose chunk sizes are not multiples of the blocks in which
// passes, TreeSum and kernels work. It has gaps, and parameters that span two
// chunks.
ArenaLayout DrivenLayout();

// Creates the passes of all chunks of DrivenLayout with `make`, runs three
// steps, and returns the results. Fails the test if `make` returns an error.
Trace DrivePasses(const PassCase& c, const ChunkPassMaker& make);

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_COMMON_UPDATE_CHUNK_PASS_DRIVER_H_
