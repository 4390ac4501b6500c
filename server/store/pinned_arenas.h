// Pins what a server reads of a worker's shared memory.
#ifndef TRIBUTARY_SERVER_STORE_PINNED_ARENAS_H_
#define TRIBUTARY_SERVER_STORE_PINNED_ARENAS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/buffer_pool.h"

namespace tributary {

// Memory in arenas of equal size, each of which is pinned when it is first
// used. A worker shares an arena for each gradient that it may ever have in
// flight, but always uses those at the beginning first: to pin all of them
// would take many times the memory that is in use. Arenas stay pinned, for the
// next step, until this object and the handles no longer exist. Not
// thread-safe.
class PinnedArenas {
 public:
  // Arenas beyond this, but for the first two, are not pinned: the device
  // copies from them through memory of its own.
  static constexpr int64_t kMaximumBytes = int64_t{4} << 30;

  // `memory` has `bytes` bytes in arenas of `arena_bytes`, a multiple of the
  // page size. A null `pin` pins nothing.
  PinnedArenas(Buffer memory, int64_t bytes, int64_t arena_bytes,
               PinMemory pin);

  // Returns a handle that keeps the memory, and the arena that contains [begin,
  // begin + bytes) pinned. The range must be in the memory; it is not pinned if
  // no single arena contains it. Blocks while an arena is pinned: about 0.1 ms
  // per MiB.
  std::shared_ptr<const void> Use(int64_t begin, int64_t bytes);

 private:
  const Buffer memory_;
  const int64_t arena_bytes_;
  const PinMemory pin_;
  std::vector<Buffer> arenas_;  // Null: not used yet.
  int64_t allowed_;             // Number of arenas that may still be pinned.
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_STORE_PINNED_ARENAS_H_
