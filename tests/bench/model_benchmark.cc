// Time of one micro-batch's forward and backward, one thread, for the models
// that torch_peer.py times (which also runs the optimizer), in float32
// (bfloat16:0) and in bfloat16 (bfloat16:1).
#include <benchmark/benchmark.h>

#include <string>

#include "tests/support/model_harness.h"

namespace tributary {
namespace {

void StepOf(benchmark::State& state, const std::string& spec,
            const DataInfo& info, int64_t samples) {
  const bool bfloat16 = state.range(0) != 0;
  ModelHarness harness(ParseModel(spec), info, samples,
                       bfloat16 ? Precision::kBfloat16 : Precision::kFloat32);
  const Batch batch = MakeBatch(info, samples, /*seed=*/1);
  harness.Step(batch);
  for (auto _ : state) {
    benchmark::DoNotOptimize(harness.Step(batch).loss);
  }
  state.counters["parameters"] =
      static_cast<double>(harness.layout().parameter_count());
  state.counters["samples/s"] =
      benchmark::Counter(static_cast<double>(samples),
                         benchmark::Counter::kIsIterationInvariantRate);
}

void BothPrecisions(benchmark::internal::Benchmark* b) {
  b->ArgName("bfloat16")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);
}

BENCHMARK_CAPTURE(StepOf, mlp, "mlp { hidden: 512 hidden: 512 }",
                  RowInfo(784, 10), 64)
    ->Apply(BothPrecisions);
BENCHMARK_CAPTURE(StepOf, cnn,
                  "cnn { block { channels: 32 kernel: 5 } "
                  "block { channels: 64 kernel: 5 } hidden: 128 }",
                  ImageInfo(1, 28, 28, 10), 64)
    ->Apply(BothPrecisions);
BENCHMARK_CAPTURE(StepOf, gpt, "gpt { context: 128 }", TokenInfo(128, 256), 8)
    ->Apply(BothPrecisions);
BENCHMARK_CAPTURE(StepOf, bigmlp,
                  "mlp { hidden: 4096 hidden: 4096 hidden: 4096 }",
                  RowInfo(4096, 4096), 16)
    ->Apply(BothPrecisions);
BENCHMARK_CAPTURE(StepOf, resnet18, "resnet {}", ImageInfo(3, 32, 32, 10), 32)
    ->Apply(BothPrecisions);

}  // namespace
}  // namespace tributary

BENCHMARK_MAIN();
