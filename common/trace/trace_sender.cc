#include "common/trace/trace_sender.h"

#include <utility>

#include "common/base/monotonic_clock.h"

namespace tributary {
namespace {

// Records per message, of at most about 60 bytes each.
constexpr size_t kMostRecords = 1024;
// Messages per Beat, so that records never delay the messages that training
// needs for long.
constexpr int kMostMessages = 8;
// Probes that follow each other at once. The fastest of them is close to the
// fastest possible one.
constexpr int kProbes = 16;
// Updates and arrivals of the last traced step end a little later than its
// computation.
constexpr int kBeatsToWait = 2;

int64_t NowNanos() { return absl::ToUnixNanos(MonotonicNow()); }

}  // namespace

TraceSender::TraceSender(const TracedSteps& steps, Send send)
    : send_(std::move(send)),
      recorder_(steps),
      offset_(send_.probe ? ClockOffset() : ClockOffset::OfCoordinator()) {}

void TraceSender::Probe() {
  if (!send_.probe) return;
  ClockProbe probe;
  probe.set_sent_ns(NowNanos());
  send_.probe(probe);
}

void TraceSender::Begin() {
  absl::MutexLock lock(&mu_);
  Probe();
}

void TraceSender::OnReading(const ClockReading& reading) {
  const int64_t now = NowNanos();
  absl::MutexLock lock(&mu_);
  offset_.Add(reading, now);
  if (offset_.count() < kProbes) Probe();
}

void TraceSender::Beat(int64_t step) {
  absl::MutexLock lock(&mu_);
  if (ended_) return;
  if (step < recorder_.steps().end) {
    if (step >= recorder_.steps().begin) Probe();
    return;
  }
  if (++beats_after_ <= kBeatsToWait) return;
  for (int i = 0; i < kMostMessages && !ended_; ++i) SendSome(/*last=*/true);
}

void TraceSender::Finish() {
  absl::MutexLock lock(&mu_);
  while (!ended_ && SendSome(/*last=*/true)) {
  }
}

bool TraceSender::SendSome(bool last) {
  const std::optional<TraceRecords> records =
      recorder_.Take(offset_, kMostRecords, last);
  if (!records.has_value()) return false;
  ended_ = records->last();
  send_.records(*records);
  return true;
}

}  // namespace tributary
