#include "server/service/fetch_requests.h"

namespace tributary {

bool FetchRequests::Announce(int chunk, int64_t version) {
  absl::MutexLock lock(&mu_);
  Chunk& state = chunks_[chunk];
  state.newest = version;
  if (state.requested < 0 || state.requested > version) return false;
  const bool wanted = state.requested == version;
  state.requested = -1;
  return wanted;
}

bool FetchRequests::Request(int chunk, int64_t version) {
  absl::MutexLock lock(&mu_);
  Chunk& state = chunks_[chunk];
  if (version <= state.newest) return true;
  state.requested = version;
  return false;
}

}  // namespace tributary
