// Pins the parts of a worker's shared memory that a server reads.
#ifndef TRIBUTARY_COMMON_UPDATE_PINNED_ARENAS_H_
#define TRIBUTARY_COMMON_UPDATE_PINNED_ARENAS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/buffer_pool.h"
#include "common/base/executor.h"

namespace tributary {

// Returns a handle that keeps `memory` alive, and schedules a task on `pool`
// that pins (page-locks) the first `bytes` bytes of `memory` with `pin`. These
// bytes then stay pinned as long as the handle exists. Does not block. If `pin`
// is null, the handle is `memory` itself, and `pool` is not used.
std::shared_ptr<const void> PinLater(Buffer memory, size_t bytes,
                                     const PinMemory& pin, Executor* pool);

// Memory in arenas of equal size, each of which is pinned (page-locked) when it
// is first used. A worker shares one arena for each gradient that it may ever
// have in flight. The worker always uses the first free arena, so only a few
// arenas are in use. Pinning all arenas would pin many times that memory.
// Arenas stay pinned until this object and all handles are destroyed, because
// the next step uses them again. Not thread-safe. Never blocks: threads of a
// pool pin the memory, because pinning takes about 0.1 ms per MiB.
class PinnedArenas {
 public:
  // Largest number of bytes to pin, except that two arenas may always be
  // pinned. The contents of an arena that is not pinned reach the device
  // through other, pinned memory.
  static constexpr int64_t kMaximumBytes = int64_t{4} << 30;

  // `memory` has `bytes` bytes, which consist of arenas of `arena_bytes` bytes
  // each; `arena_bytes` is a multiple of the page size. If `pin` is null,
  // nothing is pinned. `pool` must outlive this object.
  PinnedArenas(Buffer memory, int64_t bytes, int64_t arena_bytes, PinMemory pin,
               Executor* pool);

  // Returns a handle that keeps the memory alive. When `pool` has pinned the
  // arena that contains the bytes [begin, begin + bytes), the handle also keeps
  // this arena pinned. The range must be in the memory. A range in more than
  // one arena is not pinned, and no further arena is pinned if kMaximumBytes
  // are pinned already.
  std::shared_ptr<const void> Use(int64_t begin, int64_t bytes);

 private:
  const Buffer memory_;
  const int64_t arena_bytes_;
  const PinMemory pin_;
  Executor* const pool_;
  // Handles of the arenas. The handle of an arena that was not used yet is
  // null.
  std::vector<std::shared_ptr<const void>> arenas_;
  int64_t allowed_;  // Number of arenas that may still be pinned.
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_UPDATE_PINNED_ARENAS_H_
