#include "worker/exchange/task_weights.h"

#include <algorithm>
#include <vector>

namespace tributary {
namespace {

bool ReadsInPlace(const Task& task, const Exchange& exchange,
                  const DeviceArenas* device) {
  return device == nullptr ||
         (exchange.DeviceWeights(task.version) != nullptr &&
          exchange.DeviceWeightsAreLocal());
}

const float* WeightsOf(const Task& task, const WorkState& state,
                       const Exchange& exchange, const DeviceArenas* device) {
  if (device == nullptr) return state.Weights(task.version);
  return ReadsInPlace(task, exchange, device)
             ? exchange.DeviceWeights(task.version)
             : device->weights();
}

}  // namespace

TaskWeights::TaskWeights(const Task& task, WorkState* state,
                         const Exchange& exchange, DeviceArenas* device,
                         StepObserver* observer)
    : WeightsView(WeightsOf(task, *state, exchange, device)),
      task_(task),
      state_(state),
      layout_(exchange.layout()),
      on_device_(exchange.DeviceWeights(task.version)),
      copies_(ReadsInPlace(task, exchange, device) ? nullptr : device),
      observer_(observer) {}

bool TaskWeights::Await(int64_t begin, int64_t end) const {
  using Phase = StepObserver::Phase;
  if (observer_ != nullptr) observer_->OnPhase(Phase::kAwaitWeights);
  const bool there = copies_ == nullptr
                         ? state_->AwaitWeights(task_, begin, end)
                         : LoadAsTheyArrive(begin, end);
  if (observer_ != nullptr) observer_->OnPhase(Phase::kForward);
  return there;
}

bool TaskWeights::LoadAsTheyArrive(int64_t begin, int64_t end) const {
  constexpr int64_t kPiece =
      DeviceArenas::kMaximumCopyBytes / int64_t{sizeof(float)};
  for (; begin < end; begin += kPiece) {
    const int64_t stop = std::min(begin + kPiece, end);
    if (!state_->AwaitWeights(task_, begin, stop)) return false;
    Load(begin, stop);
  }
  return true;
}

void TaskWeights::Load(int64_t begin, int64_t end) const {
  const int first = static_cast<int>(begin / layout_.chunk_elements());
  const int last = static_cast<int>((end - 1) / layout_.chunk_elements()) + 1;
  std::vector<DeviceArenas::Version> versions;
  versions.reserve(last - first);
  for (int chunk = first; chunk < last; ++chunk) {
    versions.push_back({task_.version, state_->BaseVersion(chunk)});
  }
  if (on_device_ != nullptr) {
    copies_->Load(first, versions, on_device_, DeviceArenas::Memory::kDevice);
  } else {
    copies_->Load(first, versions, state_->Weights(task_.version));
  }
}

}  // namespace tributary
