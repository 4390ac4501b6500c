// Measures the updates of rows of one table on one core, beside plain loops
// over as much memory: `sparse_updates [GIGABYTES [DIM [RULE]]]`. Prints the
// million rows per second of each, their ratios, and the bytes that a row takes
// besides its values and state.
//
// The keys of a step are uniformly distributed, so nearly each row that is read
// misses the caches. The plain loop adds the gradients of a step to the rows of
// an array, whose numbers it is given; it knows neither keys nor versions nor
// state. The variant with an index finds the rows with absl::flat_hash_map.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "common/base/buffer_pool.h"
#include "common/sparse/key_hash.h"
#include "common/sparse/row_gradients.h"
#include "common/sparse/sparse_table.h"
#include "proto/job.pb.h"

namespace tributary {
namespace {

constexpr int64_t kKeysPerStep = 1 << 16;
constexpr int kSteps = 40;

// Returns the numbers of the rows of a step, in the order of their keys.
std::vector<int64_t> RowsOfStep(int64_t step, int64_t rows) {
  std::vector<int64_t> numbers(kKeysPerStep);
  for (int64_t i = 0; i < kKeysPerStep; ++i) {
    numbers[i] = static_cast<int64_t>(
        KeyHash(static_cast<uint64_t>(step * kKeysPerStep + i + 1)) % rows);
  }
  std::sort(numbers.begin(), numbers.end(),
            [](int64_t a, int64_t b) { return KeyHash(a) < KeyHash(b); });
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

// Returns the million rows per second of kSteps calls of `step`.
double Measure(int64_t rows,
               const std::function<void(const std::vector<int64_t>&)>& step) {
  double seconds = 0;
  int64_t updates = 0;
  for (int i = 0; i < kSteps; ++i) {
    const std::vector<int64_t> numbers = RowsOfStep(i, rows);
    const auto begin = std::chrono::steady_clock::now();
    step(numbers);
    seconds +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
            .count();
    updates += static_cast<int64_t>(numbers.size());
  }
  return static_cast<double>(updates) / seconds / 1e6;
}

__attribute__((noinline)) void AddScaled(const float* __restrict x, float scale,
                                         int64_t count, float* __restrict sum) {
  for (int64_t i = 0; i < count; ++i) sum[i] -= scale * x[i];
}

int Run(double gigabytes, int dim, const std::string& rule) {
  SparseTable::Options options;
  options.spec.set_name("t");
  options.spec.set_dim(dim);
  if (rule == "row_wise_adagrad") {
    options.spec.mutable_row_wise_adagrad()->set_learning_rate(0.01);
  } else if (rule == "sgd") {
    options.spec.mutable_sgd()->set_learning_rate(0.01);
    options.spec.mutable_sgd()->set_momentum(0);
  } else {
    options.spec.mutable_adam()->set_learning_rate(0.01);
  }
  auto table = SparseTable::Create(options).value();
  const int state = table->rule().StateElements(dim);
  const auto rows =
      static_cast<int64_t>(gigabytes * 1e9 / (4.0 * (dim + state)));
  std::printf("%ld rows of %d values and %d of state, %ld keys a step\n",
              static_cast<long>(rows), dim, state,
              static_cast<long>(kKeysPerStep));

  const Buffer gradients = AllocateBuffer(kKeysPerStep * dim);
  for (int64_t i = 0; i < kKeysPerStep * dim; ++i) {
    gradients.get()[i] = static_cast<float>(i % 7 - 3) * 0.01f;
  }
  double plain = 0, indexed = 0;
  {
    const Buffer memory = AllocateBuffer(rows * dim);
    std::fill_n(memory.get(), rows * dim, 0.5f);
    plain = Measure(rows, [&](const std::vector<int64_t>& numbers) {
      for (size_t i = 0; i < numbers.size(); ++i) {
        AddScaled(gradients.get() + static_cast<int64_t>(i) * dim, 0.01f, dim,
                  memory.get() + numbers[i] * dim);
      }
    });
    absl::flat_hash_map<uint64_t, int64_t> index;
    index.reserve(rows);
    for (int64_t i = 0; i < rows; ++i) index[KeyHash(i)] = i;
    indexed = Measure(rows, [&](const std::vector<int64_t>& numbers) {
      for (size_t i = 0; i < numbers.size(); ++i) {
        AddScaled(gradients.get() + static_cast<int64_t>(i) * dim, 0.01f, dim,
                  memory.get() + index[KeyHash(numbers[i])] * dim);
      }
    });
  }

  // Every row exists before the measurement.
  for (int64_t begin = 0; begin < rows; begin += kKeysPerStep) {
    auto sum = std::make_shared<RowGradients>();
    for (int64_t i = begin; i < std::min(rows, begin + kKeysPerStep); ++i) {
      sum->keys.push_back(KeyHash(i));
    }
    std::sort(sum->keys.begin(), sum->keys.end());
    sum->values = gradients;
    if (const absl::Status status = table->Apply(sum, RowsUpdate());
        !status.ok()) {
      std::fprintf(stderr, "%s\n", status.ToString().c_str());
      return 1;
    }
  }
  const double updates =
      Measure(rows, [&](const std::vector<int64_t>& numbers) {
        auto sum = std::make_shared<RowGradients>();
        sum->keys.reserve(numbers.size());
        for (const int64_t number : numbers) {
          sum->keys.push_back(KeyHash(number));
        }
        sum->values = gradients;
        table->Apply(std::move(sum), RowsUpdate()).IgnoreError();
      });
  const Buffer values = AllocateBuffer(kKeysPerStep * dim);
  const double reads = Measure(rows, [&](const std::vector<int64_t>& numbers) {
    std::vector<uint64_t> keys;
    keys.reserve(numbers.size());
    for (const int64_t number : numbers) keys.push_back(KeyHash(number));
    table->Read(table->version(), keys, values.get()).IgnoreError();
  });
  const SparseTable::Size size = table->size();
  std::printf(
      "million rows/s: plain loop %.2f, with flat_hash_map %.2f, updates %.2f "
      "(%.2f of the plain loop, %.2f of that with an index), reads %.2f\n"
      "bytes a row besides values and state: %.1f\n",
      plain, indexed, updates, updates / plain, updates / indexed, reads,
      static_cast<double>(size.bytes) / static_cast<double>(size.rows) -
          4.0 * (dim + state));
  return 0;
}

}  // namespace
}  // namespace tributary

int main(int argc, char** argv) {
  return tributary::Run(argc > 1 ? std::atof(argv[1]) : 8,
                        argc > 2 ? std::atoi(argv[2]) : 64,
                        argc > 3 ? argv[3] : "row_wise_adagrad");
}
