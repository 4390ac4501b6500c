#include "common/stream/spare_buffers.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace tributary {

// Shared by the object and its buffers.
struct SpareBuffers::Spares {
  struct Spare {
    Buffer buffer;
    int64_t capacity;
  };

  explicit Spares(int most) : most(static_cast<size_t>(most)) {}

  const size_t most;
  absl::Mutex mu;
  std::vector<Spare> all ABSL_GUARDED_BY(mu);  // The newest last.
};

SpareBuffers::SpareBuffers(int most)
    : spares_(std::make_shared<Spares>(most)) {}

Buffer SpareBuffers::Take(int64_t elements, int64_t* capacity) {
  Spares::Spare taken = {nullptr, 0};
  {
    absl::MutexLock lock(&spares_->mu);
    // The newest is most likely in the cache. A much larger buffer would keep
    // memory that nobody needs any more.
    const auto found = std::find_if(spares_->all.rbegin(), spares_->all.rend(),
                                    [&](const Spares::Spare& spare) {
                                      return spare.capacity >= elements &&
                                             spare.capacity / 2 <= elements;
                                    });
    if (found != spares_->all.rend()) {
      taken = std::move(*found);
      spares_->all.erase(std::next(found).base());
    }
  }
  if (taken.buffer == nullptr) {
    taken.capacity = elements + elements / 8;
    taken.buffer = AllocateBuffer(taken.capacity);
  }
  *capacity = taken.capacity;
  float* const memory = taken.buffer.get();
  return Buffer(memory, [spares = spares_, taken](float*) mutable {
    // Freed without the lock.
    Spares::Spare oldest = {nullptr, 0};
    absl::MutexLock lock(&spares->mu);
    if (spares->all.size() == spares->most) {
      oldest = std::move(spares->all.front());
      spares->all.erase(spares->all.begin());
    }
    spares->all.push_back(std::move(taken));
  });
}

}  // namespace tributary
