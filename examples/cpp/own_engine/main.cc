// A worker with an engine of its own: matrix factorization with gradients
// written by hand. `tributary train` starts it for each worker:
//   tributary train ratings.textproto --worker-command .../own_engine
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "factorization.h"
#include "nlohmann/json.hpp"
#include "ratings.h"
#include "tributary/worker.h"

namespace {

// The numbers of the parameters, in the order of their declaration.
enum { kUserFactors, kMovieFactors };

void Uniform(tributary::Random* random, absl::Span<float> values) {
  for (float& value : values) value = random->Uniform() - 0.5f;
}

void Train(int rank, tributary::MicroBatch* micro_batch) {
  const Factors factors = {micro_batch->weights(kUserFactors),
                           micro_batch->weights(kMovieFactors)};
  const double loss = ComputeGradients(micro_batch->indexes(), rank, factors,
                                       {micro_batch->gradient(kUserFactors),
                                        micro_batch->gradient(kMovieFactors)});
  micro_batch->Ready(kMovieFactors);
  micro_batch->Ready(kUserFactors);
  micro_batch->Finish(loss);
}

absl::Status Work() {
  absl::StatusOr<tributary::Worker> worker = tributary::Worker::Connect();
  if (!worker.ok()) return worker.status();
  const int rank = nlohmann::json::parse(worker->job().config).value("rank", 4);
  const absl::Status declared =
      worker->Declare({{"user_factors", {kUsers, rank}, Uniform},
                       {"movie_factors", {kMovies, rank}, Uniform}});
  if (!declared.ok()) return declared;
  while (tributary::Step* step = worker->NextStep()) {
    for (tributary::MicroBatch& micro_batch : step->micro_batches()) {
      Train(rank, &micro_batch);
    }
    for (tributary::EvaluationPiece& piece : step->evaluation_pieces()) {
      const Score score =
          Evaluate(piece.begin(), piece.end(), rank,
                   {piece.weights(kUserFactors), piece.weights(kMovieFactors)});
      piece.Report(score.loss, score.correct, piece.end() - piece.begin());
    }
  }
  return worker->status();
}

}  // namespace

int main() { tributary::EndWorkerProcess(Work()); }
