#include "worker/state/synchronous_work.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/monotonic_clock.h"
#include "common/base/status_macros.h"
#include "common/os/process.h"

namespace tributary {
namespace {

// Mappings left for the rest of the process, such as libraries and stacks.
constexpr int64_t kOtherMappings = 8192;

PrivatePages::PageSize PageSizeFor(const WorkState::Options& options) {
  return options.fetches ? PrivatePages::PageSize::kSmall
                         : PrivatePages::PageSize::kHuge;
}

}  // namespace

SynchronousWork::SynchronousWork(const Options& options,
                                 const ArenaLayout* layout)
    : WorkState(options, layout),
      chunk_count_(options.chunks.CountOf(layout->chunk_count())),
      arenas_{PrivatePages(layout->arena_elements() * int64_t{sizeof(float)},
                           PageSizeFor(options)),
              PrivatePages(layout->arena_elements() * int64_t{sizeof(float)},
                           PageSizeFor(options))},
      mapped_(layout->chunk_count(), false),
      fetched_(options.fetches ? layout->chunk_count() : 0) {
  for (Slot& slot : slots_) slot.chunks.assign(layout->chunk_count(), -1);
}

absl::Status SynchronousWork::MapChunks(const MappedMemory& memory, int shard,
                                        int servers) {
  const int64_t span = arenas_[0].bytes();
  if (memory.bytes() != 2 * span) {
    return absl::FailedPreconditionError(
        absl::StrCat("the server's shared memory has ", memory.bytes(),
                     " bytes, expected ", 2 * span));
  }
  // Each chunk may become a mapping. If one could not be mapped, the others
  // would stay read-only.
  const int64_t mappings = 2 * int64_t{chunk_count_};
  if (servers > 1 && mappings > MaxMemoryMappings() - kOtherMappings) {
    return absl::FailedPreconditionError(absl::StrCat(
        "shared memory with several servers needs ", mappings,
        " mappings, too many for the limit of ", MaxMemoryMappings(),
        ": increase vm.max_map_count or "
        "exchange.parameter_server.chunk_bytes"));
  }
  for (int i = 0; i < 2; ++i) {
    if (servers == 1) {
      TRIBUTARY_RETURN_IF_ERROR(
          memory.MapAt(arenas_[i].data(), i * span, span));
      std::fill(mapped_.begin(), mapped_.end(), true);
      continue;
    }
    const int64_t bytes = ChunkBytes();
    if (bytes % kPageBytes != 0) {
      return absl::FailedPreconditionError(absl::StrCat(
          "shared memory with several servers needs chunks of whole pages: set "
          "exchange.parameter_server.chunk_bytes to a multiple of ",
          kPageBytes));
    }
    for (const int chunk : layout().ChunksOf(shard, servers)) {
      if (!options().chunks.Contains(chunk)) continue;
      const int64_t begin = chunk * bytes;
      TRIBUTARY_RETURN_IF_ERROR(memory.MapAt(arenas_[i].data() + begin,
                                             i * span + begin,
                                             std::min(bytes, span - begin)));
      mapped_[chunk] = true;
    }
  }
  return absl::OkStatus();
}

int64_t SynchronousWork::ChunkBytes() const {
  return layout().chunk_elements() * int64_t{sizeof(float)};
}

std::vector<absl::Span<char>> SynchronousWork::WeightMemory() const {
  if (own_arenas_[0] != nullptr) return {};
  PopulateUnmapped();
  if (options().chunks.all()) {
    return {{arenas_[0].data(), static_cast<size_t>(arenas_[0].bytes())},
            {arenas_[1].data(), static_cast<size_t>(arenas_[1].bytes())}};
  }
  std::vector<absl::Span<char>> memory;
  for (const PrivatePages& arena : arenas_) {
    int64_t end = 0;
    for (const ChunkRange& range : options().chunks.ranges()) {
      // Ranges may share a page.
      const int64_t begin =
          std::max(end, range.begin() * ChunkBytes() / kPageBytes * kPageBytes);
      end = std::min(RoundUpToPage(range.end() * ChunkBytes()), arena.bytes());
      if (begin >= end) continue;
      memory.emplace_back(arena.data() + begin,
                          static_cast<size_t>(end - begin));
    }
  }
  return memory;
}

void SynchronousWork::PopulateUnmapped() const {
  // Without mapped chunks, the arenas are writable, and pinning them allocates
  // their pages.
  if (std::find(mapped_.begin(), mapped_.end(), true) == mapped_.end()) return;
  for (const PrivatePages& arena : arenas_) {
    for (int chunk = 0; chunk < layout().chunk_count(); ++chunk) {
      if (mapped_[chunk] || !options().chunks.Contains(chunk)) continue;
      const int64_t begin = chunk * ChunkBytes();
      arena.Populate(begin, std::min(ChunkBytes(), arena.bytes() - begin));
    }
  }
}

WorkState::Arrival SynchronousWork::BeginWrite(int chunk, int64_t version,
                                               float** to) {
  absl::MutexLock lock(&mu_);
  Slot& slot = slots_[version % 2];
  if (version < slot.version || slot.chunks[chunk] >= version) {
    return Arrival::kDrop;
  }
  if (pinned_ >= 0 && pinned_ % 2 == version % 2 && pinned_ < version) {
    // Makes the task under way give up: its step is complete.
    parked_ = true;
    return Arrival::kPark;
  }
  if (version > slot.version) {
    slot.version = version;
    slot.present = 0;
  }
  *to = Arena(version) + layout().ChunkBegin(chunk);
  return Arrival::kWrite;
}

void SynchronousWork::EndWrite(int chunk, int64_t version) {
  absl::MutexLock lock(&mu_);
  Slot& slot = slots_[version % 2];
  slot.chunks[chunk] = version;
  if (slot.version == version) ++slot.present;
}

bool SynchronousWork::BeginFetched(int chunk, int64_t version, float** to) {
  absl::MutexLock lock(&mu_);
  *to = Arena(version) + layout().ChunkBegin(chunk);
  return fetched_.BeginWrite(chunk, version);
}

void SynchronousWork::EndFetched(int chunk, int64_t /*version*/) {
  absl::MutexLock lock(&mu_);
  if (!fetched_.EndWrite(chunk)) DropChunk(chunk);
}

bool SynchronousWork::Want(int chunk, int64_t version) {
  absl::MutexLock lock(&mu_);
  return fetched_.Want(chunk, version);
}

void SynchronousWork::Release(int chunk) {
  absl::MutexLock lock(&mu_);
  if (fetched_.Release(chunk)) DropChunk(chunk);
}

void SynchronousWork::DropChunk(int chunk) const {
  for (const PrivatePages& arena : arenas_) {
    DropPages(arena.data() + chunk * ChunkBytes(),
              layout().ChunkSize(chunk) * int64_t{sizeof(float)});
  }
}

int64_t SynchronousWork::CompleteVersion() const {
  int64_t version = -1;
  for (const Slot& slot : slots_) {
    if (slot.present == chunk_count_ && TablesVersion() >= slot.version) {
      version = std::max(version, slot.version);
    }
  }
  return version;
}

bool SynchronousWork::Holds(int64_t version) const {
  const Slot& slot = slots_[version % 2];
  return slot.version == version && slot.present == chunk_count_ &&
         TablesVersion() >= version;
}

bool SynchronousWork::OnTaskEnd() {
  pinned_ = -1;
  return std::exchange(parked_, false);
}

void SynchronousWork::OnTaskBegin(const Task& task) {
  if (task.kind == Task::Kind::kTrain || task.kind == Task::Kind::kEvaluate) {
    pinned_ = task.version;
  }
}

bool SynchronousWork::DecideTraining(int64_t version, Task* task) const {
  if (AssignedMicroBatches(version, task)) return true;
  // All assigned micro-batches are done: begin the next step's forward pass
  // with the chunks that have already arrived.
  return slots_[(version + 1) % 2].version == version + 1 &&
         slots_[(version + 1) % 2].present > 0 && !EvaluationDue(version + 1) &&
         AssignedMicroBatches(version + 1, task);
}

bool SynchronousWork::HasRange(int64_t version, int first, int last) const {
  if (options().fetches) {
    for (int chunk = first; chunk < last; ++chunk) {
      if (!fetched_.Holds(chunk, version)) return false;
    }
    return true;
  }
  const Slot& slot = slots_[version % 2];
  if (slot.version != version || TablesVersion() < version) return false;
  if (slot.present == layout().chunk_count()) return true;
  return std::all_of(slot.chunks.begin() + first, slot.chunks.begin() + last,
                     [version](int64_t v) { return v == version; });
}

bool SynchronousWork::MustGiveUp(const Task& task) const {
  if (over() || parked_ || LeftByPeers(task)) return true;
  // The new assignment may include micro-batches of the previous step, and the
  // task's step cannot proceed without them.
  return generation() != task.generation && CompleteVersion() < task.version;
}

bool SynchronousWork::AwaitWeights(const Task& task, int64_t begin,
                                   int64_t end) {
  if (begin >= end) return true;
  const int64_t chunk_elements = layout().chunk_elements();
  const int first = static_cast<int>(begin / chunk_elements);
  const int last = static_cast<int>((end - 1) / chunk_elements) + 1;
  const auto settled = [&]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return HasRange(task.version, first, last) || MustGiveUp(task);
  };
  absl::MutexLock lock(&mu_);
  Await(&mu_, absl::Condition(&settled));
  return HasRange(task.version, first, last);
}

}  // namespace tributary
