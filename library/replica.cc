#include "tributary/replica.h"

#include <utility>

#include "library/replica_state.h"

namespace tributary {

Replica::Replica(std::unique_ptr<ReplicaState> state)
    : state_(std::move(state)) {}
Replica::~Replica() = default;

const std::string& Replica::device() const { return state_->name; }
const std::vector<ParameterPlace>& Replica::parameters() const {
  return state_->parameters;
}
int64_t Replica::elements() const { return state_->layout->arena_elements(); }
int64_t Replica::micro_batch_samples() const {
  return state_->network->max_samples();
}

std::vector<float> Replica::InitialWeights(uint64_t seed) const {
  std::vector<float> weights(static_cast<size_t>(elements()));
  state_->network->Initialize(seed, *state_->layout, weights.data());
  return weights;
}

}  // namespace tributary
