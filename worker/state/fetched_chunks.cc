#include "worker/state/fetched_chunks.h"

#include <utility>

namespace tributary {

bool FetchedChunks::Want(int chunk, int64_t version) {
  Chunk& state = chunks_[chunk];
  if (state.held == version || state.wanted == version) return false;
  state.wanted = version;
  return true;
}

bool FetchedChunks::BeginWrite(int chunk, int64_t version) {
  Chunk& state = chunks_[chunk];
  if (state.wanted != version || state.held == version || state.writing >= 0) {
    return false;
  }
  state.writing = version;
  return true;
}

bool FetchedChunks::EndWrite(int chunk) {
  Chunk& state = chunks_[chunk];
  const int64_t version = std::exchange(state.writing, -1);
  if (state.wanted != version) return false;
  state.held = version;
  return true;
}

bool FetchedChunks::Release(int chunk) {
  Chunk& state = chunks_[chunk];
  state.wanted = -1;
  state.held = -1;
  return state.writing < 0;
}

}  // namespace tributary
