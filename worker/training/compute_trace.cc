#include "worker/training/compute_trace.h"

#include "absl/strings/str_cat.h"
#include "common/base/monotonic_clock.h"

namespace tributary {
namespace {

const char* SpanName(Activity activity) {
  switch (activity) {
    case Activity::kData:
      return "wait for data";
    case Activity::kExchange:
      return "wait for weights";
    default:
      return ActivityName(activity);
  }
}

}  // namespace

ComputeTrace::ComputeTrace(TraceRecorder* recorder, int thread,
                           const std::vector<std::string>& layers)
    : recorder_(recorder),
      track_(recorder->DefineTrack(absl::StrCat("compute ", thread))) {
  for (int i = 0; i < kActivities; ++i) {
    activities_[i] = recorder->DefineName(SpanName(static_cast<Activity>(i)));
  }
  for (const std::string& name : layers) {
    layers_.push_back(recorder->DefineName(name));
  }
}

void ComputeTrace::Begin(int64_t step, int micro_batch) {
  active_ = recorder_->Wants(step);
  if (!active_) return;
  about_ = {step, /*chunk=*/-1, micro_batch};
  since_ = MonotonicNow();
}

void ComputeTrace::Waited(int64_t step, absl::Time begin) {
  if (!recorder_->Wants(step)) return;
  recorder_->Span(activities_[static_cast<int>(Activity::kExchange)], track_,
                  begin, MonotonicNow(), {step});
}

void ComputeTrace::OnSwitch(Activity was) {
  if (!active_) return;
  const absl::Time now = MonotonicNow();
  if (was != Activity::kIdle) {
    recorder_->Span(activities_[static_cast<int>(was)], track_, since_, now,
                    about_);
  }
  since_ = now;
}

void ComputeTrace::OnLayer(int layer, bool /*backward*/, absl::Time begin,
                           absl::Time end) {
  if (layer < 0 || layer >= static_cast<int>(layers_.size())) return;
  recorder_->Span(layers_[layer], track_, begin, end, about_);
}

}  // namespace tributary
