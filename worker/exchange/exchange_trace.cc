#include "worker/exchange/exchange_trace.h"

#include "common/base/monotonic_clock.h"

namespace tributary {

ExchangeTrace::ExchangeTrace(TraceRecorder* recorder, int64_t receiver)
    : recorder_(recorder),
      receiver_(receiver),
      push_track_(recorder->DefineTrack("push")),
      arrival_track_(recorder->DefineTrack("arrival")),
      update_track_(recorder->DefineTrack("update")),
      push_(recorder->DefineName("push chunk")),
      arrival_(recorder->DefineName("new weights")),
      update_(recorder->DefineName("update")) {}

void ExchangeTrace::Pushed(int64_t step, int chunk, int node,
                           absl::Time begin) {
  if (!recorder_->Wants(step)) return;
  const TraceRecorder::About about = {step, chunk};
  recorder_->Span(push_, push_track_, begin, MonotonicNow(), about);
  recorder_->FlowBegin(ContributionFlow(step, chunk, node), push_track_, begin,
                       about);
}

void ExchangeTrace::Arrived(int64_t version, int chunk, absl::Time begin) {
  // The step that made this version.
  const int64_t step = version - 1;
  if (!recorder_->Wants(step)) return;
  const TraceRecorder::About about = {step, chunk};
  recorder_->Span(arrival_, arrival_track_, begin, MonotonicNow(), about);
  recorder_->FlowEnd(WeightsFlow(version, chunk, receiver_), arrival_track_,
                     begin, about);
}

void ExchangeTrace::Updated(int64_t step, int chunk, const Route& route,
                            absl::Time begin) {
  if (!recorder_->Wants(step)) return;
  const TraceRecorder::About about = {step, chunk};
  const absl::Time end = MonotonicNow();
  recorder_->Span(update_, update_track_, begin, end, about);
  for (const int node : route.nodes) {
    recorder_->FlowEnd(ContributionFlow(step, chunk, node), update_track_,
                       begin, about);
  }
  for (const int receiver : route.receivers) {
    recorder_->FlowBegin(WeightsFlow(step + 1, chunk, receiver), update_track_,
                         end, about);
  }
}

}  // namespace tributary
