#include "common/update/update_trace.h"

#include <algorithm>

#include "common/base/monotonic_clock.h"

namespace tributary {
namespace {

// Bound on the contributions that wait for an update. More would only come from
// a worker that sends what no update needs.
constexpr size_t kMostContributions = 4096;

}  // namespace

void UpdateTrace::Contributions::Add(int64_t step, int node) {
  const std::pair<int64_t, int> added = {step, node};
  if (nodes_.size() >= kMostContributions ||
      std::find(nodes_.begin(), nodes_.end(), added) != nodes_.end()) {
    return;
  }
  nodes_.push_back(added);
}

std::vector<int> UpdateTrace::Contributions::Take(int64_t step) {
  std::vector<int> taken;
  for (const auto& [its_step, node] : nodes_) {
    if (its_step == step) taken.push_back(node);
  }
  nodes_.erase(
      std::remove_if(nodes_.begin(), nodes_.end(),
                     [step](const auto& node) { return node.first <= step; }),
      nodes_.end());
  return taken;
}

UpdateTrace::UpdateTrace(TraceRecorder* recorder)
    : recorder_(recorder),
      contribution_track_(recorder->DefineTrack("contributions")),
      update_track_(recorder->DefineTrack("updates")),
      publication_track_(recorder->DefineTrack("publication")),
      contribution_(recorder->DefineName("contribution")),
      sum_(recorder->DefineName("sum")),
      update_(recorder->DefineName("update")),
      publication_(recorder->DefineName("publish")) {}

void UpdateTrace::Contributed(int64_t step, int chunk, absl::Time begin) {
  if (!Wants(step)) return;
  recorder_->Span(contribution_, contribution_track_, begin, MonotonicNow(),
                  {step, chunk});
}

void UpdateTrace::Summed(int64_t step, int chunk, absl::Time begin,
                         absl::Time end) {
  if (!Wants(step)) return;
  recorder_->Span(sum_, update_track_, begin, end, {step, chunk});
}

void UpdateTrace::Updated(int64_t step, int chunk,
                          const std::vector<int>& nodes, absl::Time begin,
                          absl::Time end) {
  if (!Wants(step)) return;
  const TraceRecorder::About about = {step, chunk};
  recorder_->Span(update_, update_track_, begin, end, about);
  for (const int node : nodes) {
    recorder_->FlowEnd(ContributionFlow(step, chunk, node), update_track_,
                       begin, about);
  }
}

void UpdateTrace::Published(int64_t step, int chunk,
                            absl::Span<const int64_t> receivers,
                            absl::Time begin) {
  if (!Wants(step)) return;
  const TraceRecorder::About about = {step, chunk};
  recorder_->Span(publication_, publication_track_, begin, MonotonicNow(),
                  about);
  for (const int64_t receiver : receivers) {
    recorder_->FlowBegin(WeightsFlow(step + 1, chunk, receiver),
                         publication_track_, begin, about);
  }
}

}  // namespace tributary
