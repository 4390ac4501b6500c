#include "worker/training/threads/compute_thread.h"

#include <utility>

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

ComputeThread::ComputeThread(int number, ComputeThreadTimer* timer,
                             TraceRecorder* recorder,
                             const std::vector<std::string>& layers)
    : timer_(timer), recorder_(recorder) {
  if (recorder == nullptr) return;
  track_ = recorder->DefineTrack(absl::StrCat("compute ", number));
  for (const std::string& name : layers) {
    layers_.push_back(recorder->DefineName(name));
  }
}

int ComputeThread::NameOf(const char* span) {
  const auto [found, added] = names_.try_emplace(span);
  if (added) found->second = recorder_->DefineName(span);
  return found->second;
}

void ComputeThread::Begin(int64_t step, int64_t item) {
  traced_ = recorder_ != nullptr && recorder_->Wants(step);
  if (!traced_) return;
  about_ = {step, /*chunk=*/-1, static_cast<int>(item)};
  since_ = MonotonicNow();
}

void ComputeThread::End() {
  Switch(Activity::kIdle);
  traced_ = false;
}

void ComputeThread::ShowStages(int begin, int end) {
  if (recorder_ == nullptr) return;
  track_ = recorder_->DefineTrack(absl::StrCat(
      "stage ", begin, end - begin > 1 ? absl::StrCat(" to ", end - 1) : ""));
}

void ComputeThread::Switch(Activity next) { Switch(next, SpanName(next)); }

void ComputeThread::Switch(Activity next, const char* span) {
  const Activity was = timer_->activity();
  timer_->Switch(next);
  const char* const ended = std::exchange(span_, span);
  if (!traced_) return;
  const absl::Time now = MonotonicNow();
  if (was != Activity::kIdle) {
    recorder_->Span(NameOf(ended), track_, since_, now, about_);
  }
  since_ = now;
}

void ComputeThread::Waited(int64_t step, absl::Time begin) {
  if (recorder_ == nullptr || !recorder_->Wants(step)) return;
  recorder_->Span(NameOf(SpanName(Activity::kExchange)), track_, begin,
                  MonotonicNow(), {step});
}

absl::Duration ComputeThread::MicroBatchTime() const {
  const TimeSpent& spent = timer_->spent();
  return spent[Activity::kData] + spent[Activity::kForward] +
         spent[Activity::kBackward];
}

void ComputeThread::OnPhase(Phase phase) {
  Switch(phase == Phase::kAwaitWeights ? Activity::kExchange
         : phase == Phase::kForward    ? Activity::kForward
                                       : Activity::kBackward);
}

void ComputeThread::OnLayer(int layer, absl::Time begin, absl::Time end) {
  if (layer < 0 || layer >= static_cast<int>(layers_.size())) return;
  recorder_->Span(layers_[layer], track_, begin, end, about_);
}

}  // namespace tributary
