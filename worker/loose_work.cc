#include "worker/loose_work.h"

#include <algorithm>
#include <utility>

namespace tributary {
namespace {

float* Floats(const PrivatePages& pages) {
  return reinterpret_cast<float*>(pages.data());
}

}  // namespace

LooseWork::LooseWork(const Options& options, const ArenaLayout* layout)
    : WorkState(options, layout),
      back_(layout->arena_elements() * int64_t{sizeof(float)}),
      front_(layout->arena_elements() * int64_t{sizeof(float)}),
      front_versions_(layout->chunk_count(), -1),
      chunks_(layout->chunk_count()) {
  versions_[-1] = layout->chunk_count();
}

absl::Status LooseWork::MapChunks(const MappedMemory&, int, int) {
  return absl::FailedPreconditionError(
      "this consistency mode needs weights of its own");
}

WorkState::Arrival LooseWork::BeginWrite(int chunk, int64_t version,
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

void LooseWork::EndWrite(int chunk, int64_t version) {
  absl::MutexLock lock(&mu_);
  Chunk& place = chunks_[chunk];
  if (--versions_[place.version] == 0) versions_.erase(place.version);
  ++versions_[version];
  place.version = version;
  place.writing = false;
}

int64_t LooseWork::CompleteVersion() const { return versions_.begin()->first; }

bool LooseWork::AwaitWeights(const Task& task, int64_t, int64_t) {
  return !GivenUp(task);
}

const float* LooseWork::Weights(int64_t) const { return Floats(front_); }

int64_t LooseWork::BeginCopy(int chunk) {
  // A write ends soon: it is a copy from where the bytes came in. If it failed
  // nothing matters any more.
  const auto quiet = [this, chunk]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return !chunks_[chunk].writing || over();
  };
  absl::MutexLock lock(&mu_);
  mu_.Await(absl::Condition(&quiet));
  chunks_[chunk].copying = true;
  return chunks_[chunk].version;
}

void LooseWork::EndCopy(int chunk) {
  bool unpark = false;
  {
    absl::MutexLock lock(&mu_);
    chunks_[chunk].copying = false;
    unpark = std::exchange(parked_, false);
  }
  if (unpark) Unpark();
}

void LooseWork::Prepare(Task* task) {
  for (int chunk = 0; chunk < layout().chunk_count(); ++chunk) {
    const int64_t version = BeginCopy(chunk);
    if (version > front_versions_[chunk]) {
      const int64_t begin = layout().ChunkBegin(chunk);
      std::copy_n(Floats(back_) + begin, layout().ChunkSize(chunk),
                  Floats(front_) + begin);
      front_versions_[chunk] = version;
    }
    EndCopy(chunk);
  }
  task->base_versions = front_versions_;
}

}  // namespace tributary
