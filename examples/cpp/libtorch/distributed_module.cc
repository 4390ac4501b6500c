#include "distributed_module.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <cstdint>

#include "absl/types/span.h"

namespace {

using ::tributary::ParameterGroup;

// The part of the mean by which servers move running statistics.
constexpr float kStatisticsRate = 0.1f;

// Returns a tensor over memory of the library. Nothing writes to weights, but
// LibTorch has no tensors of constants.
torch::Tensor View(absl::Span<const float> memory, const torch::Tensor& like) {
  return torch::from_blob(const_cast<float*>(memory.data()), like.sizes(),
                          torch::kFloat32);
}

// Running statistics are buffers, which have no gradients.
bool IsStatistic(const torch::Tensor& tensor) {
  return !tensor.requires_grad();
}

ParameterGroup GroupOf(const torch::Tensor& tensor) {
  if (IsStatistic(tensor)) return ParameterGroup::kStatistics;
  return tensor.dim() > 1 ? ParameterGroup::kDecay : ParameterGroup::kNoDecay;
}

void Seed(tributary::Random random) {
  const uint64_t high = random.Bits();
  torch::manual_seed(high << 32 | random.Bits());
}

}  // namespace

DistributedModule::DistributedModule(torch::nn::Module* module)
    : module_(module) {
  for (const auto& parameter : module->named_parameters()) {
    const int number = static_cast<int>(tensors_.size());
    names_.push_back(parameter.key());
    tensors_.push_back(parameter.value());
    // Runs when backward has computed the whole gradient of the parameter.
    tensors_.back().register_hook(
        [this, number](const torch::Tensor& gradient) {
          GiveGradient(number, gradient);
        });
  }
  for (const auto& buffer : module->named_buffers()) {
    // num_batches_tracked, which batch norm does not need, is an integer.
    if (!buffer.value().is_floating_point()) continue;
    names_.push_back(buffer.key());
    tensors_.push_back(buffer.value());
  }
}

std::vector<tributary::ParameterDeclaration> DistributedModule::Declarations()
    const {
  std::vector<tributary::ParameterDeclaration> declarations;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    // Keeps the initial values when SetWeights replaces those of the tensor.
    const torch::Tensor initial = tensors_[i].detach();
    declarations.push_back(
        {names_[i], initial.sizes().vec(),
         [initial](tributary::Random*, absl::Span<float> values) {
           View(values, initial).copy_(initial);
         },
         GroupOf(tensors_[i])});
  }
  return declarations;
}

template <typename Item>
void DistributedModule::SetWeights(Item* item) {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const torch::Tensor weights =
        View(item->weights(static_cast<int>(i)), tensors_[i]);
    // Forward changes running statistics, so they are a copy.
    tensors_[i].set_data(IsStatistic(tensors_[i]) ? weights.clone() : weights);
  }
}

void DistributedModule::Begin(tributary::MicroBatch* micro_batch) {
  micro_batch_ = micro_batch;
  SetWeights(micro_batch);
  module_->train();
  Seed(micro_batch->random());
}

void DistributedModule::Begin(tributary::EvaluationPiece* piece) {
  SetWeights(piece);
  module_->eval();
}

void DistributedModule::GiveGradient(int parameter,
                                     const torch::Tensor& gradient) {
  View(micro_batch_->gradient(parameter), gradient).copy_(gradient);
  micro_batch_->Ready(parameter);
}

// Forward has moved the statistics of this micro-batch from the step's weights.
// The servers move the weights by the mean of these differences.
void DistributedModule::GiveStatistics() {
  const auto samples = static_cast<float>(micro_batch_->indexes().size());
  for (int i = static_cast<int>(tensors_.size()) - 1; i >= 0; --i) {
    if (!IsStatistic(tensors_[i])) break;
    const torch::Tensor weights = View(micro_batch_->weights(i), tensors_[i]);
    GiveGradient(i, (weights - tensors_[i]) * (samples / kStatisticsRate));
  }
}

void DistributedModule::Finish(const torch::Tensor& loss_sum) {
  GiveStatistics();
  loss_sum.backward();
  // The gradients are sent, so the next backward need not add to them.
  module_->zero_grad(/*set_to_none=*/true);
  micro_batch_->Finish(loss_sum.item<double>());
}
