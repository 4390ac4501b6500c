// Trains any torch::nn::Module as a worker of a job.
#ifndef EXAMPLES_CPP_LIBTORCH_DISTRIBUTED_MODULE_H_
#define EXAMPLES_CPP_LIBTORCH_DISTRIBUTED_MODULE_H_

#include <torch/nn/module.h>

#include <string>
#include <vector>

#include "tributary/worker.h"

// A module whose weights come from a job's servers:
//
//   DistributedModule distributed(&network);
//   worker->Declare(distributed.Declarations());
//   ... for each micro-batch:
//     distributed.Begin(&micro_batch);
//     distributed.Finish(SumOfLosses(network.forward(inputs), targets));
//   ... for each piece of the evaluation:
//     distributed.Begin(&piece);
//     piece.Report(...);
//
// The module's parameters are views of the memory into which the library
// receives weights. Backward copies each gradient, as soon as it is final, to
// the memory from which the library sends it. Otherwise only running statistics
// are copied.
//
// All parameters and buffers must be on the CPU; parameters must be float32 and
// require gradients, and the loss must depend on all of them. Buffers of type
// float32 must be running statistics, as those of batch norm are. Not
// thread-safe.
class DistributedModule {
 public:
  // Do not use `module` after this object is destroyed. Its current values are
  // the initial values, so they must be equal in all workers.
  explicit DistributedModule(torch::nn::Module* module);
  DistributedModule(const DistributedModule&) = delete;
  DistributedModule& operator=(const DistributedModule&) = delete;

  // Returns what the worker must declare: the parameters, then the running
  // statistics. One-dimensional parameters (biases, and weights of norms) have
  // no weight decay.
  std::vector<tributary::ParameterDeclaration> Declarations() const;

  // Waits for the item's weights, and prepares the module for training or for
  // evaluation. Seeds LibTorch's random numbers for the micro-batch.
  void Begin(tributary::MicroBatch* micro_batch);
  void Begin(tributary::EvaluationPiece* piece);

  // Computes the gradients, gives them to the micro-batch of the last Begin,
  // and finishes it. `loss_sum` is the sum of the losses of its samples.
  void Finish(const torch::Tensor& loss_sum);

 private:
  template <typename Item>
  void SetWeights(Item* item);
  void GiveGradient(int parameter, const torch::Tensor& gradient);
  void GiveStatistics();

  torch::nn::Module* const module_;
  // Parameters, then running statistics, with their names.
  std::vector<std::string> names_;
  std::vector<torch::Tensor> tensors_;
  tributary::MicroBatch* micro_batch_ = nullptr;
};

#endif  // EXAMPLES_CPP_LIBTORCH_DISTRIBUTED_MODULE_H_
