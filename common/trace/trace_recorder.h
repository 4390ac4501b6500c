// Records what a process does in the traced steps; see OutputSpec.trace.
#ifndef TRIBUTARY_COMMON_TRACE_TRACE_RECORDER_H_
#define TRIBUTARY_COMMON_TRACE_TRACE_RECORDER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/trace/clock_offset.h"
#include "proto/job.pb.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// The steps [begin, end) that are traced, in the unit of servers (see Rounds).
struct TracedSteps {
  int64_t begin = 0;
  int64_t end = 0;
  bool Has(int64_t step) const { return step >= begin && step < end; }
};

// Returns the traced steps of the job, or nullopt if it has no output.trace.
// `steps_per_round` is ExchangeTraits::steps_per_round.
std::optional<TracedSteps> TracedStepsOf(const JobSpec& job,
                                         int64_t steps_per_round);

// Returns the flow from a contribution to the update that applies it. All
// processes compute the same number.
uint64_t ContributionFlow(int64_t step, int chunk, int node);
// Returns the flow from the publication of a chunk's version to its arrival at
// the worker with this incarnation.
uint64_t WeightsFlow(int64_t version, int chunk, int64_t incarnation);

// The records of one process, in a buffer of fixed size. A record that finds
// the buffer full is dropped and counted.
//
// A process that does not trace has no recorder: a null pointer. Record and its
// short forms are thread-safe and wait-free; a thread that records only claims
// a slot with one atomic addition. Define names and tracks before threads
// record.
class TraceRecorder {
 public:
  static constexpr size_t kCapacity = size_t{1} << 16;
  static constexpr int kMostNames = 4096;
  static constexpr int kMostTracks = 256;

  explicit TraceRecorder(const TracedSteps& steps, size_t capacity = kCapacity);

  // Returns the position of the name or track, which is added if it is new.
  // Beyond the limits, returns the last one.
  int DefineName(const std::string& name) ABSL_LOCKS_EXCLUDED(mu_);
  int DefineTrack(const std::string& track) ABSL_LOCKS_EXCLUDED(mu_);

  // Returns true if the step is traced.
  bool Wants(int64_t step) const { return steps_.Has(step); }
  const TracedSteps& steps() const { return steps_; }

  // What a record is about; -1: not set.
  struct About {
    int64_t step = -1;
    int chunk = -1;
    int micro_batch = -1;
  };
  // Records a span of time. Spans of one track may overlap.
  void Span(int name, int track, absl::Time begin, absl::Time end,
            const About& about);
  // Records the beginning or the end of an arrow, in the span of the same track
  // and chunk that contains `at`.
  void FlowBegin(uint64_t flow, int track, absl::Time at, const About& about);
  void FlowEnd(uint64_t flow, int track, absl::Time at, const About& about);

  // Moves up to `most` records into the next message. Sets `last` if `last` is
  // true and no record is left. Returns nullopt if there is nothing to send:
  // neither records nor `last`. Call it from one thread at a time.
  std::optional<TraceRecords> Take(const ClockOffset& offset, size_t most,
                                   bool last) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Record {
    // Written last: the record is complete.
    std::atomic<bool> complete{false};
    TraceRecords::Record::Kind kind = TraceRecords::Record::SPAN;
    int name = 0;
    int track = 0;
    int64_t begin_ns = 0;
    int64_t duration_ns = 0;
    About about;
    uint64_t flow = 0;
  };
  // Returns a free slot, or null if the buffer is full.
  Record* Claim();
  void Flow(TraceRecords::Record::Kind kind, uint64_t flow, int track,
            absl::Time at, const About& about);

  const TracedSteps steps_;
  const size_t capacity_;
  const std::unique_ptr<Record[]> records_;
  std::atomic<size_t> claimed_{0};

  mutable absl::Mutex mu_;  // Never acquired while recording.
  std::vector<std::string> names_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> tracks_ ABSL_GUARDED_BY(mu_);
  size_t sent_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TRACE_TRACE_RECORDER_H_
