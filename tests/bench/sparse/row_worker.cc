// A worker whose micro-batches only read rows and send their gradients; see
// row_exchange.py. The arguments are the number of keys that are drawn from,
// the number of values of a row, and the number of keys in a micro-batch.
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "tests/bench/sparse/drawn_keys.h"
#include "tributary/worker.h"

namespace tributary {
namespace {

absl::Status Work(uint64_t keys, size_t dim, size_t bags) {
  absl::StatusOr<Worker> worker = Worker::Connect();
  if (!worker.ok()) return worker.status();
  const absl::Status declared = worker->Declare(
      {{"w", {1}, [](Random*, absl::Span<float> w) { w[0] = 0; }}});
  if (!declared.ok()) return declared;
  std::vector<int64_t> ends(bags);
  std::iota(ends.begin(), ends.end(), 1);
  std::vector<float> vectors(bags * dim);
  const std::vector<float> gradients(bags * dim, 1e-3f);
  while (Step* const step = worker->NextStep()) {
    for (MicroBatch& micro_batch : step->micro_batches()) {
      const std::vector<uint64_t> of_batch =
          DrawnKeys(micro_batch.step(), micro_batch.number(), bags, keys);
      // The rows of the next step are requested ahead.
      worker->Announce(micro_batch.step() + 1, micro_batch.number(),
                       {{0, DrawnKeys(micro_batch.step() + 1,
                                      micro_batch.number(), bags, keys)}});
      const int look_up =
          micro_batch.LookUp(0, {of_batch, ends}, absl::MakeSpan(vectors));
      micro_batch.AddGradient(look_up, gradients);
      micro_batch.Add(0, {0.f});
      micro_batch.Finish(vectors[0]);
    }
  }
  return worker->status();
}

}  // namespace
}  // namespace tributary

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  tributary::EndWorkerProcess(tributary::Work(
      std::strtoull(argv[1], nullptr, 10), std::strtoull(argv[2], nullptr, 10),
      std::strtoull(argv[3], nullptr, 10)));
}
