#include "worker/data/read_ahead.h"

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/base/monotonic_clock.h"
#include "common/base/thread.h"

namespace tributary {

class ReadAhead::Impl {
 public:
  Impl(const DataSet* data, const Sampler* sampler, int threads, int depth)
      : data_(data),
        sampler_(sampler),
        depth_(static_cast<size_t>(std::max(depth, 0))) {
    for (int i = 0; i < threads; ++i) {
      threads_.emplace_back([this] { ReadMicroBatches(); });
    }
  }

  ~Impl() {
    {
      absl::MutexLock lock(&mu_);
      stopping_ = true;
      // Calls of Take that wait for a read in progress finish first.
      Await(&mu_, absl::Condition(this, &Impl::NobodyWaits));
    }
    for (Thread& thread : threads_) thread.Join();
  }

  void Expect(int64_t step, int micro_batch) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    if (depth_ == 0 || threads_.empty()) return;
    if (Find(step, micro_batch) != entries_.end()) return;
    if (entries_.size() >= depth_) Remove(entries_.begin());
    auto entry = std::make_shared<Entry>();
    entry->step = step;
    entry->micro_batch = micro_batch;
    entries_.push_back(std::move(entry));
    ++waiting_entries_;
  }

  std::shared_ptr<const Batch> TryTake(int64_t step, int micro_batch)
      ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    const auto found = Find(step, micro_batch);
    if (found == entries_.end() || !IsRead(found->get())) return nullptr;
    return Remove(found)->batch;
  }

  std::shared_ptr<const Batch> Take(int64_t step, int micro_batch)
      ABSL_LOCKS_EXCLUDED(mu_) {
    {
      absl::MutexLock lock(&mu_);
      const auto found = Find(step, micro_batch);
      if (found != entries_.end()) {
        const std::shared_ptr<Entry> entry = Remove(found);
        // If the read has not begun, this thread does it instead of waiting.
        if (entry->state != State::kWaiting) return AwaitBatch(*entry);
      }
    }
    return Read(step, micro_batch);
  }

 private:
  enum class State { kWaiting, kReading, kRead };

  // An expected micro-batch. Shared, because it may leave `entries_` while one
  // thread reads it and another waits for it.
  struct Entry {
    int64_t step = 0;
    int micro_batch = 0;
    // Guarded by mu_.
    State state = State::kWaiting;
    std::shared_ptr<const Batch> batch;  // Set in state kRead.
  };
  using Entries = std::deque<std::shared_ptr<Entry>>;

  static bool IsRead(const Entry* entry) {
    return entry->state == State::kRead;
  }
  bool NobodyWaits() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return takers_ == 0;
  }
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return stopping_ || waiting_entries_ > 0;
  }

  Entries::iterator Find(int64_t step, int micro_batch)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return std::find_if(entries_.begin(), entries_.end(),
                        [&](const std::shared_ptr<Entry>& entry) {
                          return entry->step == step &&
                                 entry->micro_batch == micro_batch;
                        });
  }

  std::shared_ptr<Entry> Remove(Entries::iterator place)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    std::shared_ptr<Entry> entry = std::move(*place);
    entries_.erase(place);
    if (entry->state == State::kWaiting) --waiting_entries_;
    return entry;
  }

  std::shared_ptr<const Batch> AwaitBatch(const Entry& entry)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    ++takers_;
    Await(&mu_, absl::Condition(&Impl::IsRead, &entry));
    --takers_;
    return entry.batch;
  }

  std::shared_ptr<const Batch> Read(int64_t step, int micro_batch) const {
    const Sampler::MicroBatch samples =
        sampler_->MicroBatchOf(step, micro_batch);
    auto batch = std::make_shared<Batch>();
    data_->ReadTrain(samples.epoch, samples.indexes, batch.get());
    return batch;
  }

  // Waits for a micro-batch to read and marks it. Returns null at shutdown.
  std::shared_ptr<Entry> NextEntry() ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    Await(&mu_, absl::Condition(this, &Impl::HasWork));
    if (stopping_) return nullptr;
    const auto found = std::find_if(
        entries_.begin(), entries_.end(),
        [](const auto& entry) { return entry->state == State::kWaiting; });
    (*found)->state = State::kReading;
    --waiting_entries_;
    return *found;
  }

  // Body of each thread.
  void ReadMicroBatches() ABSL_LOCKS_EXCLUDED(mu_) {
    while (const std::shared_ptr<Entry> entry = NextEntry()) {
      std::shared_ptr<const Batch> batch =
          Read(entry->step, entry->micro_batch);
      absl::MutexLock lock(&mu_);
      entry->batch = std::move(batch);
      entry->state = State::kRead;
    }
  }

  // Constant after construction.
  const DataSet* const data_;
  const Sampler* const sampler_;
  const size_t depth_;
  std::vector<Thread> threads_;

  absl::Mutex mu_;
  // In the order of Expect; at most depth_ entries. Few enough for a linear
  // search.
  Entries entries_ ABSL_GUARDED_BY(mu_);
  // Number of entries in state kWaiting.
  int waiting_entries_ ABSL_GUARDED_BY(mu_) = 0;
  int takers_ ABSL_GUARDED_BY(mu_) = 0;  // Number of threads in AwaitBatch.
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
};

ReadAhead::ReadAhead(const DataSet* data, const Sampler* sampler, int threads,
                     int depth)
    : impl_(std::make_unique<Impl>(data, sampler, threads, depth)) {}

ReadAhead::~ReadAhead() = default;

void ReadAhead::Expect(int64_t step, int micro_batch) {
  impl_->Expect(step, micro_batch);
}

std::shared_ptr<const Batch> ReadAhead::Take(int64_t step, int micro_batch) {
  return impl_->Take(step, micro_batch);
}

std::shared_ptr<const Batch> ReadAhead::TryTake(int64_t step, int micro_batch) {
  return impl_->TryTake(step, micro_batch);
}

}  // namespace tributary
