#include "worker/state/bounded_staleness_work.h"

#include <algorithm>
#include <utility>

#include "common/base/monotonic_clock.h"

namespace tributary {
namespace {

float* Floats(const PrivatePages& pages) {
  return reinterpret_cast<float*>(pages.data());
}

}  // namespace

BoundedStalenessWork::BoundedStalenessWork(const Options& options,
                                           const ArenaLayout* layout)
    : WorkState(options, layout),
      back_(layout->arena_elements() * int64_t{sizeof(float)}),
      front_(layout->arena_elements() * int64_t{sizeof(float)}),
      chunks_(layout->chunk_count()) {
  versions_[-1] = layout->chunk_count();
}

absl::Status BoundedStalenessWork::MapChunks(const MappedMemory&, int, int) {
  return absl::FailedPreconditionError(
      "this consistency mode needs its own copy of the weights");
}

WorkState::Arrival BoundedStalenessWork::BeginWrite(int chunk, int64_t version,
                                                    float** to) {
  absl::MutexLock lock(&mu_);
  Chunk& place = chunks_[chunk];
  if (version <= place.version) return Arrival::kDrop;
  if (place.copying) {
    parked_ = true;
    return Arrival::kPark;
  }
  place.writing = true;
  *to = Floats(back_) + layout().ChunkBegin(chunk);
  return Arrival::kWrite;
}

void BoundedStalenessWork::EndWrite(int chunk, int64_t version) {
  absl::MutexLock lock(&mu_);
  Chunk& place = chunks_[chunk];
  if (--versions_[place.version] == 0) versions_.erase(place.version);
  ++versions_[version];
  place.version = version;
  place.writing = false;
}

int64_t BoundedStalenessWork::CompleteVersion() const {
  // Of a step of a worker that was lost, servers may have all chunks, and not
  // all rows. Whoever leases the step next must not wait for its rows first.
  return std::min(versions_.begin()->first, TablesVersion());
}

const float* BoundedStalenessWork::Weights(int64_t) const {
  return Floats(front_);
}

int64_t BoundedStalenessWork::BaseVersion(int chunk) const {
  absl::MutexLock lock(&mu_);
  return chunks_[chunk].front;
}

void BoundedStalenessWork::OnTaskBegin(const Task&) {
  for (Chunk& chunk : chunks_) chunk.taken = false;
}

bool BoundedStalenessWork::AwaitWeights(const Task& task, int64_t begin,
                                        int64_t end) {
  if (begin >= end) return true;
  const int64_t chunk_elements = layout().chunk_elements();
  const int first = static_cast<int>(begin / chunk_elements);
  const int last = static_cast<int>((end - 1) / chunk_elements);
  for (int chunk = first; chunk <= last; ++chunk) {
    if (!Take(task, chunk)) return false;
  }
  return true;
}

bool BoundedStalenessWork::Take(const Task& task, int chunk) {
  const bool trains = task.kind == Task::Kind::kTrain;
  const auto wanted = [&]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return chunks_[chunk].taken || MustGiveUp(task) || !trains ||
           ShouldTake(task, chunk);
  };
  // A write is short: it only copies received bytes.
  const auto settled = [&]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    const Chunk& place = chunks_[chunk];
    return place.taken || MustGiveUp(task) ||
           (!place.writing && !place.copying);
  };
  {
    absl::MutexLock lock(&mu_);
    if (!wanted()) {
      AwaitUntil(&mu_, absl::Condition(&wanted), OnWaitBegin());
      OnWaitEnd();
    }
    Await(&mu_, absl::Condition(&settled));
    Chunk& place = chunks_[chunk];
    if (MustGiveUp(task)) return false;
    if (place.taken) return true;
    if (place.version == place.front) {
      place.taken = true;
      return true;
    }
    place.copying = true;
  }
  const int64_t begin = layout().ChunkBegin(chunk);
  std::copy_n(Floats(back_) + begin, layout().ChunkSize(chunk),
              Floats(front_) + begin);
  bool unpark = false;
  {
    absl::MutexLock lock(&mu_);
    Chunk& place = chunks_[chunk];
    place.front = place.version;
    place.copying = false;
    place.taken = true;
    unpark = std::exchange(parked_, false);
  }
  if (unpark) Unpark();
  return true;
}

}  // namespace tributary
