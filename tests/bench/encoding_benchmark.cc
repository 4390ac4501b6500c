// Seconds per element of what exchange.wire_dtype and exchange.compression add
// to the exchange, one thread, for a chunk of 1 MiB in the cache. `Add` is one
// float32 addition, for comparison.
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "benchmark/benchmark.h"
#include "common/codec/eight_bit.h"
#include "common/codec/top_k.h"
#include "common/numerics/half.h"
#include "common/numerics/vector_ops.h"

namespace tributary {
namespace {

constexpr int64_t kElements = 1 << 18;

std::vector<float> Gradient(int seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> distribution(0, 1e-3f);
  std::vector<float> values(kElements);
  for (float& value : values) value = distribution(generator);
  return values;
}

void SetElements(benchmark::State& state) {
  state.counters["s/element"] = benchmark::Counter(
      kElements, benchmark::Counter::kIsIterationInvariantRate |
                     benchmark::Counter::kInvert);
}

void Add(benchmark::State& state) {
  const std::vector<float> x = Gradient(1);
  std::vector<float> sum = Gradient(2);
  for (auto _ : state) AddInto(x.data(), sum.data(), kElements);
  SetElements(state);
}
BENCHMARK(Add);

WireDtype BenchmarkDtype(const benchmark::State& state) {
  return static_cast<WireDtype>(state.range(0));
}

void AllHalves(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgName("dtype")
      ->Arg(ExchangeSpec::BFLOAT16)
      ->Arg(ExchangeSpec::FLOAT16);
}

void Round(benchmark::State& state) {
  std::vector<float> values = Gradient(1);
  for (auto _ : state) RoundTo(BenchmarkDtype(state), values.data(), kElements);
  SetElements(state);
}
BENCHMARK(Round)->Apply(AllHalves);

void SumOfLeaves(benchmark::State& state) {
  const std::vector<float> x = Gradient(1);
  std::vector<float> sum = Gradient(2);
  for (auto _ : state) {
    RoundAndAdd(BenchmarkDtype(state), x.data(), sum.data(), kElements);
  }
  SetElements(state);
}
BENCHMARK(SumOfLeaves)->Apply(AllHalves);

void SumOfSums(benchmark::State& state) {
  const std::vector<float> x = Gradient(1);
  std::vector<float> sum = Gradient(2);
  for (auto _ : state) {
    AddRounded(BenchmarkDtype(state), x.data(), sum.data(), kElements);
  }
  SetElements(state);
}
BENCHMARK(SumOfSums)->Apply(AllHalves);

void Encode(benchmark::State& state) {
  const std::vector<float> values = Gradient(1);
  std::vector<uint16_t> halves(kElements);
  for (auto _ : state) {
    EncodeHalf(BenchmarkDtype(state), values.data(), halves.data(), kElements);
  }
  SetElements(state);
}
BENCHMARK(Encode)->Apply(AllHalves);

void Decode(benchmark::State& state) {
  std::vector<float> values = Gradient(1);
  std::vector<uint16_t> halves(kElements);
  EncodeHalf(BenchmarkDtype(state), values.data(), halves.data(), kElements);
  for (auto _ : state) {
    DecodeHalf(BenchmarkDtype(state), halves.data(), values.data(), kElements);
  }
  SetElements(state);
}
BENCHMARK(Decode)->Apply(AllHalves);

// What a worker does with a chunk: the gradient is added to what was left.
void TopKWithFeedback(benchmark::State& state) {
  const double fraction = static_cast<double>(state.range(0)) / 1000;
  const std::vector<float> gradient = Gradient(1);
  std::vector<float> residual(kElements);
  size_t bytes = 0;
  for (auto _ : state) {
    bytes = EncodeTopK(fraction, gradient.data(), residual.data(), kElements)
                .size();
  }
  SetElements(state);
  state.counters["share_of_bytes"] =
      static_cast<double>(bytes) / (kElements * sizeof(float));
}
BENCHMARK(TopKWithFeedback)->ArgName("per_mille")->Arg(1)->Arg(10)->Arg(100);

void DecodeTopKChunk(benchmark::State& state) {
  const std::vector<float> zeros(kElements);
  std::vector<float> values = Gradient(1);
  const std::string payload =
      EncodeTopKDifference(0.01, zeros.data(), values.data(), kElements);
  for (auto _ : state) {
    benchmark::DoNotOptimize(CheckTopK(payload, kElements).ok());
    DecodeTopK(payload, 0, kElements, values.data());
  }
  SetElements(state);
}
BENCHMARK(DecodeTopKChunk);

void EightBitWithFeedback(benchmark::State& state) {
  const std::vector<float> gradient = Gradient(1);
  std::vector<float> residual(kElements);
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        EncodeEightBit(gradient.data(), residual.data(), kElements));
  }
  SetElements(state);
}
BENCHMARK(EightBitWithFeedback);

void DecodeEightBitChunk(benchmark::State& state) {
  const std::vector<float> zeros(kElements);
  std::vector<float> values = Gradient(1);
  const std::string payload =
      EncodeEightBitDifference(zeros.data(), values.data(), kElements);
  for (auto _ : state) {
    benchmark::DoNotOptimize(CheckEightBit(payload, kElements).ok());
    DecodeEightBit(payload, kElements, 0, kElements, values.data());
  }
  SetElements(state);
}
BENCHMARK(DecodeEightBitChunk);

}  // namespace
}  // namespace tributary

BENCHMARK_MAIN();
