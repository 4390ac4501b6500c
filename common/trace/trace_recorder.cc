#include "common/trace/trace_recorder.h"

#include <algorithm>

#include "common/trace/clock_offset.h"

namespace tributary {
namespace {

int Define(const std::string& text, size_t most,
           std::vector<std::string>* list) {
  const auto found = std::find(list->begin(), list->end(), text);
  if (found != list->end()) return static_cast<int>(found - list->begin());
  if (list->size() < most) list->push_back(text);
  return static_cast<int>(list->size()) - 1;
}

// Mixes the numbers into one; from SplitMix64 (Steele et al., 2014).
uint64_t Mix(uint64_t kind, int64_t a, int64_t b, int64_t c) {
  uint64_t mixed = kind;
  for (const int64_t value : {a, b, c}) {
    mixed += static_cast<uint64_t>(value) + 0x9e3779b97f4a7c15U;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9U;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebU;
    mixed ^= mixed >> 31;
  }
  return mixed;
}

}  // namespace

std::optional<TracedSteps> TracedStepsOf(const JobSpec& job,
                                         int64_t steps_per_round) {
  if (!job.output().has_trace()) return std::nullopt;
  const TraceSpec& trace = job.output().trace();
  return TracedSteps{trace.begin_step() / steps_per_round,
                     (trace.end_step() - 1) / steps_per_round + 1};
}

uint64_t ContributionFlow(int64_t step, int chunk, int node) {
  return Mix(1, step, chunk, node);
}

uint64_t WeightsFlow(int64_t version, int chunk, int64_t incarnation) {
  return Mix(2, version, chunk, incarnation);
}

TraceRecorder::TraceRecorder(const TracedSteps& steps, size_t capacity)
    : steps_(steps), capacity_(capacity), records_(new Record[capacity]) {}

int TraceRecorder::DefineName(const std::string& name) {
  absl::MutexLock lock(&mu_);
  return Define(name, kMostNames, &names_);
}

int TraceRecorder::DefineTrack(const std::string& track) {
  absl::MutexLock lock(&mu_);
  return Define(track, kMostTracks, &tracks_);
}

TraceRecorder::Record* TraceRecorder::Claim() {
  const size_t slot = claimed_.fetch_add(1, std::memory_order_relaxed);
  return slot < capacity_ ? &records_[slot] : nullptr;
}

void TraceRecorder::Span(int name, int track, absl::Time begin, absl::Time end,
                         const About& about) {
  Record* const record = Claim();
  if (record == nullptr) return;
  record->kind = TraceRecords::Record::SPAN;
  record->name = name;
  record->track = track;
  record->begin_ns = absl::ToUnixNanos(begin);
  record->duration_ns =
      std::max<int64_t>(absl::ToUnixNanos(end) - record->begin_ns, 0);
  record->about = about;
  record->complete.store(true, std::memory_order_release);
}

void TraceRecorder::FlowBegin(uint64_t flow, int track, absl::Time at,
                              const About& about) {
  Flow(TraceRecords::Record::FLOW_BEGIN, flow, track, at, about);
}

void TraceRecorder::FlowEnd(uint64_t flow, int track, absl::Time at,
                            const About& about) {
  Flow(TraceRecords::Record::FLOW_END, flow, track, at, about);
}

void TraceRecorder::Flow(TraceRecords::Record::Kind kind, uint64_t flow,
                         int track, absl::Time at, const About& about) {
  Record* const record = Claim();
  if (record == nullptr) return;
  record->kind = kind;
  record->track = track;
  record->begin_ns = absl::ToUnixNanos(at);
  record->about = about;
  record->flow = flow;
  record->complete.store(true, std::memory_order_release);
}

std::optional<TraceRecords> TraceRecorder::Take(const ClockOffset& offset,
                                                size_t most, bool last) {
  TraceRecords message;
  absl::MutexLock lock(&mu_);
  const size_t claimed = claimed_.load(std::memory_order_relaxed);
  const size_t available = std::min(claimed, capacity_);
  // Stops at a record that another thread is still writing.
  while (sent_ < available &&
         static_cast<size_t>(message.record_size()) < most &&
         records_[sent_].complete.load(std::memory_order_acquire)) {
    const Record& from = records_[sent_++];
    TraceRecords::Record* const to = message.add_record();
    to->set_kind(from.kind);
    to->set_name(from.name);
    to->set_track(from.track);
    to->set_begin_ns(from.begin_ns);
    to->set_duration_ns(from.duration_ns);
    to->set_step(from.about.step);
    to->set_chunk(from.about.chunk);
    to->set_micro_batch(from.about.micro_batch);
    to->set_flow(from.flow);
  }
  message.set_last(last && sent_ == available);
  if (message.record_size() == 0 && !message.last()) return std::nullopt;
  for (const std::string& name : names_) message.add_name(name);
  for (const std::string& track : tracks_) message.add_track(track);
  message.set_offset_ns(offset.offset_ns());
  message.set_offset_error_ns(offset.error_ns());
  message.set_dropped(static_cast<int64_t>(claimed - available));
  return message;
}

}  // namespace tributary
