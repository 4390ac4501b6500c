// Drives the passes of several chunks through several steps, for the
// conformance suite.
#ifndef TRIBUTARY_TESTS_SERVER_STORE_CHUNK_PASS_DRIVER_H_
#define TRIBUTARY_TESTS_SERVER_STORE_CHUNK_PASS_DRIVER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/numerics/half.h"
#include "common/parameters/parameter_table.h"
#include "proto/job.pb.h"
#include "server/store/chunk_pass.h"

namespace tributary {

// How gradients come.
enum class Way { kMemory, kPieces, kBoth, kSparse };

struct PassCase {
  std::string optimizer;
  WireDtype dtype = ExchangeSpec::FLOAT32;
  Way way = Way::kBoth;
  bool awaits_norm = false;
  float gradient_scale = 0.3f;
  // A worker's subtree of half the leaves.
  bool subtree = false;
  int64_t skipped = -1;  // A step.
  int64_t resumed = -1;  // A step before which all passes are made anew.
  // All chunks of a step run as one group, if the passes have any.
  bool together = true;
};

// What all chunks have come to, step by step.
struct Trace {
  std::vector<std::vector<float>> weights;
  std::vector<std::vector<float>> state;
  std::vector<std::string> payloads;  // Of weights, as streams get them.
  std::vector<double> squares;
};

// Chunks that are no multiple of a block, of TreeSum's or of a kernel's, with
// gaps and with parameters over their borders.
ArenaLayout DrivenLayout();

// Makes the passes of all chunks of DrivenLayout and runs them.
Trace DrivePasses(const PassCase& c, const ChunkPassMaker& make);

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_SERVER_STORE_CHUNK_PASS_DRIVER_H_
