#include "worker/work_state.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace tributary {
namespace {

// [begin, end) without what is done.
std::vector<int64_t> Missing(int64_t begin, int64_t end, int64_t version,
                             const std::map<int64_t, std::set<int64_t>>& done) {
  const auto found = done.find(version);
  std::vector<int64_t> items;
  for (int64_t item = begin; item < end; ++item) {
    if (found == done.end() || found->second.count(item) == 0) {
      items.push_back(item);
    }
  }
  return items;
}

}  // namespace

WorkState::WorkState(const Options& options, const ArenaLayout* layout)
    : options_(options),
      layout_(layout),
      arenas_{PrivatePages(layout->arena_elements() * int64_t{sizeof(float)}),
              PrivatePages(layout->arena_elements() * int64_t{sizeof(float)})} {
  for (Slot& slot : slots_) slot.chunks.assign(layout->chunk_count(), -1);
}

absl::Status WorkState::MapChunks(const MappedMemory& memory, int shard,
                                  int servers) {
  const int64_t span = arenas_[0].bytes();
  if (memory.bytes() != 2 * span) {
    return absl::FailedPreconditionError(
        "the server's memory has another size");
  }
  for (int i = 0; i < 2; ++i) {
    if (servers == 1) {
      TRIBUTARY_RETURN_IF_ERROR(
          memory.MapAt(arenas_[i].data(), i * span, span));
      continue;
    }
    const int64_t bytes = layout_->chunk_elements() * int64_t{sizeof(float)};
    if (bytes % kPageBytes != 0) {
      return absl::FailedPreconditionError(absl::StrCat(
          "shared memory with several servers needs chunks of whole pages: set "
          "exchange.parameter_server.chunk_bytes to a multiple of ",
          kPageBytes));
    }
    for (const int chunk : layout_->ChunksOf(shard, servers)) {
      const int64_t begin = chunk * bytes;
      TRIBUTARY_RETURN_IF_ERROR(memory.MapAt(arenas_[i].data() + begin,
                                             i * span + begin,
                                             std::min(bytes, span - begin)));
    }
  }
  return absl::OkStatus();
}

void WorkState::RequestInitialize() {
  absl::MutexLock lock(&mu_);
  initialize_ = true;
}

void WorkState::SetDeal(const Deal& deal) {
  absl::MutexLock lock(&mu_);
  if (deal.generation() <= deal_.generation()) return;
  deal_ = deal;
  evaluated_ = std::max(evaluated_, deal.evaluated_version());
}

void WorkState::SetEvaluated(int64_t version) {
  absl::MutexLock lock(&mu_);
  evaluated_ = std::max(evaluated_, version);
}

void WorkState::SetFinished() {
  absl::MutexLock lock(&mu_);
  finished_ = true;
}

void WorkState::Fail(const absl::Status& status) {
  absl::MutexLock lock(&mu_);
  if (status_.ok()) status_ = status;
}

absl::Status WorkState::status() const {
  absl::MutexLock lock(&mu_);
  return status_;
}

void WorkState::SetUnparked(std::function<void()> unparked) {
  absl::MutexLock lock(&mu_);
  unparked_ = std::move(unparked);
}

WorkState::Arrival WorkState::BeginWrite(int chunk, int64_t version,
                                         float** to) {
  absl::MutexLock lock(&mu_);
  Slot& slot = slots_[version % 2];
  if (version < slot.version || slot.chunks[chunk] >= version) {
    return Arrival::kDrop;
  }
  if (pinned_ >= 0 && pinned_ % 2 == version % 2 && pinned_ < version) {
    // Tells the task under way that its step is over.
    parked_ = true;
    return Arrival::kPark;
  }
  if (version > slot.version) {
    slot.version = version;
    slot.present = 0;
  }
  *to = reinterpret_cast<float*>(arenas_[version % 2].data()) +
        layout_->ChunkBegin(chunk);
  return Arrival::kWrite;
}

void WorkState::EndWrite(int chunk, int64_t version) {
  absl::MutexLock lock(&mu_);
  Slot& slot = slots_[version % 2];
  slot.chunks[chunk] = version;
  if (slot.version == version) ++slot.present;
}

int64_t WorkState::CompleteVersion() const {
  int64_t version = -1;
  for (const Slot& slot : slots_) {
    if (slot.present == layout_->chunk_count()) {
      version = std::max(version, slot.version);
    }
  }
  return version;
}

bool WorkState::EvaluationDue(int64_t version) const {
  if (!options_.evaluates || version == 0) return false;
  return version == options_.steps || (options_.evaluate_every > 0 &&
                                       version % options_.evaluate_every == 0);
}

Task WorkState::Next() {
  Task task;
  std::function<void()> unparked;
  {
    absl::MutexLock lock(&mu_);
    pinned_ = -1;
    if (std::exchange(parked_, false)) unparked = unparked_;
  }
  if (unparked) unparked();
  const auto decided = [&]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return Decide(&task);
  };
  absl::MutexLock lock(&mu_);
  mu_.Await(absl::Condition(&decided));
  if (task.kind == Task::Kind::kInitialize) initialize_ = false;
  if (task.kind == Task::Kind::kReportSynced) synced_ = true;
  if (task.kind == Task::Kind::kTrain || task.kind == Task::Kind::kEvaluate) {
    pinned_ = task.version;
    const int64_t oldest = task.version - 1;
    done_leaves_.erase(done_leaves_.begin(), done_leaves_.lower_bound(oldest));
    done_pieces_.erase(done_pieces_.begin(), done_pieces_.lower_bound(oldest));
  }
  return task;
}

bool WorkState::Decide(Task* task) const {
  *task = Task();
  task->generation = deal_.generation();
  if (!status_.ok()) {
    task->kind = Task::Kind::kFail;
    return true;
  }
  // Having the last version of every chunk proves that it is made: only then
  // may the coordinator read it.
  if (finished_ && CompleteVersion() == options_.steps) {
    task->kind = Task::Kind::kFinish;
    return true;
  }
  if (initialize_) {
    task->kind = Task::Kind::kInitialize;
    return true;
  }
  const int64_t version = CompleteVersion();
  if (version < 0) return false;
  task->version = version;
  if (!synced_) {
    task->kind = Task::Kind::kReportSynced;
    return true;
  }
  if (deal_.generation() == 0) return false;
  if (EvaluationDue(version) && evaluated_ < version) {
    task->kind = Task::Kind::kEvaluate;
    task->items =
        Missing(deal_.piece_begin(), deal_.piece_end(), version, done_pieces_);
    return !task->items.empty();
  }
  if (DecideTraining(version, task)) return true;
  // All done here: begin the next forward with the chunks that are there
  // already.
  return slots_[(version + 1) % 2].version == version + 1 &&
         slots_[(version + 1) % 2].present > 0 && !EvaluationDue(version + 1) &&
         DecideTraining(version + 1, task);
}

bool WorkState::DecideTraining(int64_t version, Task* task) const {
  if (version >= options_.steps) return false;
  task->kind = Task::Kind::kTrain;
  task->version = version;
  task->items =
      Missing(deal_.leaf_begin(), deal_.leaf_end(), version, done_leaves_);
  return !task->items.empty();
}

void WorkState::MarkDone(const Task& task) {
  absl::MutexLock lock(&mu_);
  auto& done = task.kind == Task::Kind::kTrain ? done_leaves_ : done_pieces_;
  done[task.version].insert(task.items.begin(), task.items.end());
}

bool WorkState::HasRange(int64_t version, int first, int last) const {
  const Slot& slot = slots_[version % 2];
  if (slot.version != version) return false;
  if (slot.present == layout_->chunk_count()) return true;
  return std::all_of(slot.chunks.begin() + first, slot.chunks.begin() + last,
                     [version](int64_t v) { return v == version; });
}

bool WorkState::MustGiveUp(const Task& task) const {
  if (!status_.ok() || finished_ || parked_) return true;
  // Leaves of the step before may have been dealt to this worker, and this step
  // cannot go on without them.
  return deal_.generation() != task.generation &&
         CompleteVersion() < task.version;
}

bool WorkState::GivenUp(const Task& task) const {
  absl::MutexLock lock(&mu_);
  return MustGiveUp(task);
}

bool WorkState::AwaitWeights(const Task& task, int64_t begin, int64_t end) {
  if (begin >= end) return true;
  const int64_t chunk_elements = layout_->chunk_elements();
  const int first = static_cast<int>(begin / chunk_elements);
  const int last = static_cast<int>((end - 1) / chunk_elements) + 1;
  const auto settled = [&]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return HasRange(task.version, first, last) || MustGiveUp(task);
  };
  absl::MutexLock lock(&mu_);
  mu_.Await(absl::Condition(&settled));
  return HasRange(task.version, first, last);
}

}  // namespace tributary
