#include "worker/exchange/task_weights.h"

#include <algorithm>
#include <vector>

namespace tributary {
namespace {

const float* WeightsOf(const Task& task, const WorkState& state,
                       const MemoryView& on_device,
                       const DeviceArenas* device) {
  if (device == nullptr) return state.Weights(task.version);
  return on_device.place == MemoryPlace::kDevice ? on_device.values
                                                 : device->weights();
}

}  // namespace

TaskWeights::TaskWeights(const Task& task, WorkState* state,
                         const Exchange& exchange, DeviceArenas* device,
                         StepObserver* observer)
    : TaskWeights(task, state, exchange.layout(),
                  exchange.DeviceWeights(task.version), device, observer) {}

TaskWeights::TaskWeights(const Task& task, WorkState* state,
                         const ArenaLayout& layout, const MemoryView& on_device,
                         DeviceArenas* device, StepObserver* observer)
    : WeightsView(WeightsOf(task, *state, on_device, device)),
      task_(task),
      state_(state),
      layout_(layout),
      on_device_(on_device),
      copies_(on_device.place == MemoryPlace::kDevice ? nullptr : device),
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
  if (on_device_.empty()) {
    copies_->Load(first, versions, state_->Weights(task_.version));
  } else {
    copies_->Load(first, versions, on_device_.values, on_device_.place);
  }
}

}  // namespace tributary
