// One server's state at one version, as it was then.
#ifndef TRIBUTARY_SERVER_SNAPSHOT_H_
#define TRIBUTARY_SERVER_SNAPSHOT_H_

#include <cstdint>
#include <vector>

#include "common/buffer_pool.h"

namespace tributary {

// Owns its copies, or shares what will not be written any more: whoever holds
// it may read it while training goes on.
struct Snapshot {
  struct Chunk {
    int number = 0;
    Buffer values;              // The optimizer's weights, float32.
    std::vector<Buffer> slots;  // Its state, see Optimizer::slots.
    int64_t elements = 0;       // Of each buffer; the rest is not used.
  };
  int64_t version = 0;
  std::vector<Chunk> chunks;  // Ascending.
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_SNAPSHOT_H_
