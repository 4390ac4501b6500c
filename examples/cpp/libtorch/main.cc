// A worker that computes with LibTorch. `tributary train` starts it for each
// worker:
//   tributary train digits.textproto --worker-command PATH/read_digits
#include <torch/nn/functional/loss.h>
#include <torch/utils.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "digits.h"
#include "distributed_module.h"
#include "network.h"
#include "tributary/worker.h"

namespace {

torch::Tensor SumOfLosses(const torch::Tensor& logits,
                          const torch::Tensor& labels) {
  return torch::nn::functional::cross_entropy(
      logits, labels,
      torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum));
}

void Train(Network* network, DistributedModule* distributed,
           tributary::MicroBatch* micro_batch) {
  // Draws the images while the weights are in flight.
  const Digits digits = TrainingDigits(micro_batch->indexes());
  distributed->Begin(micro_batch);
  const torch::Tensor logits = network->forward(digits.images);
  distributed->Finish(SumOfLosses(logits, digits.labels));
}

void Evaluate(Network* network, DistributedModule* distributed,
              tributary::EvaluationPiece* piece) {
  const torch::NoGradGuard no_grad;
  const Digits digits = HeldOutDigits(piece->begin(), piece->end());
  distributed->Begin(piece);
  const torch::Tensor logits = network->forward(digits.images);
  const torch::Tensor correct = logits.argmax(/*dim=*/1) == digits.labels;
  piece->Report(SumOfLosses(logits, digits.labels).item<double>(),
                correct.sum().item<int64_t>(), piece->end() - piece->begin());
}

absl::Status Work() {
  absl::StatusOr<tributary::Worker> worker = tributary::Worker::Connect();
  if (!worker.ok()) return worker.status();
  torch::set_num_threads(1);
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  // Every worker must have the same initial values.
  torch::manual_seed(worker->job().seed);
  Network network;
  DistributedModule distributed(&network);
  const absl::Status declared = worker->Declare(distributed.Declarations());
  if (!declared.ok()) return declared;
  while (tributary::Step* step = worker->NextStep()) {
    for (tributary::MicroBatch& micro_batch : step->micro_batches()) {
      Train(&network, &distributed, &micro_batch);
    }
    for (tributary::EvaluationPiece& piece : step->evaluation_pieces()) {
      Evaluate(&network, &distributed, &piece);
    }
  }
  return worker->status();
}

// LibTorch reports errors as exceptions.
absl::Status WorkWithoutExceptions() {
  try {
    return Work();
  } catch (const c10::Error& error) {
    return absl::InternalError(error.what_without_backtrace());
  }
}

}  // namespace

int main() { tributary::EndWorkerProcess(WorkWithoutExceptions()); }
