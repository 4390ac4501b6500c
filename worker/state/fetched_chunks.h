// The chunks of the weights that a worker holds when it fetches them.
#ifndef TRIBUTARY_WORKER_STATE_FETCHED_CHUNKS_H_
#define TRIBUTARY_WORKER_STATE_FETCHED_CHUNKS_H_

#include <cstdint>
#include <vector>

namespace tributary {

// Tracks which version of each chunk the worker has requested, which is being
// written, and which it holds. Not thread-safe.
class FetchedChunks {
 public:
  explicit FetchedChunks(int chunks) : chunks_(chunks) {}

  // Notes that the worker needs this version. Returns true if the version must
  // be requested.
  bool Want(int chunk, int64_t version);
  // Begins to write values that have arrived. Returns false if they are not
  // wanted. End must follow.
  bool BeginWrite(int chunk, int64_t version);
  // Returns false if the chunk is not wanted any more: its memory is free.
  bool EndWrite(int chunk);
  // Notes that the chunk is not needed any more. Returns false if it is being
  // written: EndWrite then says that the memory is free.
  bool Release(int chunk);

  bool Holds(int chunk, int64_t version) const {
    return chunks_[chunk].held == version;
  }

 private:
  struct Chunk {
    int64_t wanted = -1;
    int64_t held = -1;
    int64_t writing = -1;
  };

  std::vector<Chunk> chunks_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_STATE_FETCHED_CHUNKS_H_
