// The versions of chunks that a worker fetches when it needs them.
#ifndef TRIBUTARY_SERVER_SERVICE_FETCH_REQUESTS_H_
#define TRIBUTARY_SERVER_SERVICE_FETCH_REQUESTS_H_

#include <cstdint>
#include <map>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace tributary {

// Notes which versions exist, and which version of each chunk the worker has
// requested before it exists. Thread-safe.
class FetchRequests {
 public:
  // Notes that the chunk has this version. Returns true if the worker has
  // requested it.
  bool Announce(int chunk, int64_t version) ABSL_LOCKS_EXCLUDED(mu_);
  // Returns true if the chunk has, or had, this version. Otherwise notes the
  // request in place of an earlier one for the chunk.
  bool Request(int chunk, int64_t version) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Chunk {
    int64_t newest = -1;
    int64_t requested = -1;  // -1: none is waited for.
  };

  absl::Mutex mu_;
  std::map<int, Chunk> chunks_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_SERVICE_FETCH_REQUESTS_H_
