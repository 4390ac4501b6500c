// Looks up and updates the rows of row_exchange.py in one process, without an
// exchange. The arguments are those of row_worker.cc, and the numbers of
// micro-batches and of steps. Prints the CPU seconds of a step that tables
// take: neither drawing and sorting keys nor adding gradients counts.
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/buffer_pool.h"
#include "common/base/status_macros.h"
#include "common/sparse/row_gradients.h"
#include "common/sparse/sparse_table.h"
#include "tests/bench/sparse/drawn_keys.h"

namespace tributary {
namespace {

double CpuSeconds() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) +
         1e-9 * static_cast<double>(time.tv_nsec);
}

void SortUnique(std::vector<uint64_t>* keys) {
  std::sort(keys->begin(), keys->end());
  keys->erase(std::unique(keys->begin(), keys->end()), keys->end());
}

// Returns the CPU seconds of a step, after a quarter of the steps.
absl::StatusOr<double> Measure(uint64_t keys, int dim, size_t bags,
                               int micro_batches, int64_t steps) {
  SparseTable::Options options;
  options.spec.set_name("t");
  options.spec.set_dim(dim);
  options.spec.mutable_row_wise_adagrad()->set_learning_rate(0.01);
  TRIBUTARY_ASSIGN_OR_RETURN(const std::unique_ptr<SparseTable> table,
                             SparseTable::Create(options));
  const int64_t most = static_cast<int64_t>(bags) * dim;
  const Buffer values = AllocateBuffer(most);
  const Buffer gradients = AllocateBuffer(micro_batches * most);
  std::fill_n(gradients.get(), micro_batches * most, 1e-3f);
  double seconds = 0;
  for (int64_t step = 0; step < steps; ++step) {
    if (step == steps / 4) seconds = 0;
    auto sum = std::make_shared<RowGradients>();
    for (int micro_batch = 0; micro_batch < micro_batches; ++micro_batch) {
      std::vector<uint64_t> of_batch = DrawnKeys(step, micro_batch, bags, keys);
      SortUnique(&of_batch);
      sum->keys.insert(sum->keys.end(), of_batch.begin(), of_batch.end());
      const double begin = CpuSeconds();
      TRIBUTARY_RETURN_IF_ERROR(table->Read(step, of_batch, values.get()));
      seconds += CpuSeconds() - begin;
    }
    SortUnique(&sum->keys);
    sum->values = gradients;
    const double begin = CpuSeconds();
    TRIBUTARY_RETURN_IF_ERROR(table->Apply(std::move(sum), RowsUpdate()));
    seconds += CpuSeconds() - begin;
  }
  return seconds / static_cast<double>(steps - steps / 4);
}

}  // namespace
}  // namespace tributary

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  const absl::StatusOr<double> seconds = tributary::Measure(
      std::strtoull(argv[1], nullptr, 10), std::atoi(argv[2]),
      std::strtoull(argv[3], nullptr, 10), std::atoi(argv[4]),
      std::strtoll(argv[5], nullptr, 10));
  if (!seconds.ok()) {
    std::fprintf(stderr, "%s\n", seconds.status().ToString().c_str());
    return 1;
  }
  std::printf("%.6f\n", *seconds);
  return 0;
}
