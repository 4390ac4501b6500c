// Records what a process does in the steps that the job's field output.trace
// selects; see OutputSpec.trace in proto/job.proto.
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

// The range of steps that are traced, [begin, end), in the unit in which
// servers count steps: with local SGD, a round of several steps (see Rounds).
struct TracedSteps {
  int64_t begin = 0;
  int64_t end = 0;
  bool Has(int64_t step) const { return step >= begin && step < end; }
};

// Returns the traced steps of the job, or nullopt if it has no output.trace.
// `steps_per_round` is ExchangeTraits::steps_per_round.
std::optional<TracedSteps> TracedStepsOf(const JobSpec& job,
                                         int64_t steps_per_round);

// Returns the identifier of the flow (an arrow between two spans of the trace)
// from a contribution (a worker's gradient sum for `chunk` and for `node` of
// the reduction tree) to the update that applies it. All processes compute the
// same identifier.
uint64_t ContributionFlow(int64_t step, int chunk, int node);
// Returns the identifier of the flow (an arrow between two spans of the trace)
// from the publication of a chunk's version on a server to its arrival at a
// worker. `incarnation` is the number of the worker's membership of the job; a
// worker that joins again has a new number.
uint64_t WeightsFlow(int64_t version, int chunk, int64_t incarnation);

// The trace records of one process, in a buffer of fixed size. When the buffer
// is full, further records are dropped and counted.
//
// In a process that does not trace, the pointer to the recorder is null. Span,
// FlowBegin and FlowEnd are thread-safe and wait-free: a thread claims a slot
// of the buffer with one atomic addition and then writes the record. Define
// names and tracks before threads record.
class TraceRecorder {
 public:
  static constexpr size_t kCapacity = size_t{1} << 16;
  static constexpr int kMostNames = 4096;
  static constexpr int kMostTracks = 256;

  explicit TraceRecorder(const TracedSteps& steps, size_t capacity = kCapacity);

  // DefineName returns the index of a span name, and DefineTrack the index of a
  // track (a row of the trace in which spans are shown). Adds the name or the
  // track if it is new. If there are kMostNames names or kMostTracks tracks
  // already, returns the index of the last one instead.
  int DefineName(const std::string& name) ABSL_LOCKS_EXCLUDED(mu_);
  int DefineTrack(const std::string& track) ABSL_LOCKS_EXCLUDED(mu_);

  // Returns true if step `step` is traced.
  bool Wants(int64_t step) const { return steps_.Has(step); }
  const TracedSteps& steps() const { return steps_; }

  // The step, chunk and micro-batch that a trace record belongs to; -1 for a
  // field that is not set.
  struct About {
    int64_t step = -1;
    int chunk = -1;
    int micro_batch = -1;
  };
  // Records a span of time. `name` and `track` are results of DefineName and
  // DefineTrack. The spans of one track may overlap.
  void Span(int name, int track, absl::Time begin, absl::Time end,
            const About& about);
  // Records one end of an arrow between two spans. `flow`, the arrow's
  // identifier, is the result of ContributionFlow or WeightsFlow. The arrow
  // begins or ends in the span of the same track and chunk that contains the
  // time `at`.
  void FlowBegin(uint64_t flow, int track, absl::Time at, const About& about);
  void FlowEnd(uint64_t flow, int track, absl::Time at, const About& about);

  // Returns a message with up to `most` records that were not returned before.
  // Sets the message's field `last` if the argument `last` is true and no
  // record is left. Returns nullopt if the message would have neither records
  // nor `last`. Only one thread may call this method at a time.
  std::optional<TraceRecords> Take(const ClockOffset& offset, size_t most,
                                   bool last) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Record {
    // Set to true after all other fields of the record have been written.
    std::atomic<bool> complete{false};
    TraceRecords::Record::Kind kind = TraceRecords::Record::SPAN;
    int name = 0;
    int track = 0;
    int64_t begin_ns = 0;
    int64_t duration_ns = 0;
    About about;
    uint64_t flow = 0;
  };
  // Claims a slot of the buffer. Returns null if the buffer is full.
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
