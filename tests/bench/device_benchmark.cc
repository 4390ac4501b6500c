// Speed of the CPU device's operations in float32, over the shapes of the
// benchmark models (mlp, cnn, gpt, bigmlp), one thread.
// `--benchmark_filter=Linear` and the like pick some. Rates are in FLOP/s for
// products and in bytes/s, counting each tensor once, for the rest.
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "benchmark/benchmark.h"
#include "worker/device/device.h"
#include "worker/device/reals.h"

namespace tributary {
namespace {

// Tensors for one benchmark, filled with numbers from [-0.5, 0.5).
class Workspace {
 public:
  float* Floats(int64_t count) {
    std::vector<float> values(count);
    for (float& value : values) {
      value = static_cast<float>(generator_() >> 8) * 0x1p-24f - 0.5f;
    }
    auto* to = static_cast<float*>(Allocate(count * sizeof(float)));
    device_->CopyFromHost(to, values.data(), count * sizeof(float));
    return to;
  }

  Real* Reals(int64_t count) { return AsReals(Floats(count)); }

  int32_t* Integers(int64_t count, uint32_t bound) {
    std::vector<int32_t> values(count);
    for (int32_t& value : values) {
      value = static_cast<int32_t>(generator_() % bound);
    }
    auto* to = static_cast<int32_t*>(Allocate(count * sizeof(int32_t)));
    device_->CopyFromHost(to, values.data(), count * sizeof(int32_t));
    return to;
  }

  Device& device() { return *device_; }

 private:
  void* Allocate(size_t bytes) {
    memory_.push_back(device_->Allocate(bytes).value());
    return memory_.back().get();
  }

  std::unique_ptr<Device> device_ = CreateCpuDevice();
  std::vector<Device::Memory> memory_;
  std::mt19937 generator_{1};
};

void SetFlops(benchmark::State& state, double flops_per_iteration) {
  state.counters["FLOP/s"] = benchmark::Counter(
      flops_per_iteration, benchmark::Counter::kIsIterationInvariantRate);
}

void SetBytes(benchmark::State& state, int64_t floats_per_iteration) {
  state.SetBytesProcessed(state.iterations() * floats_per_iteration *
                          static_cast<int64_t>(sizeof(float)));
}

// ---- Linear: rows, inputs, outputs.

void LinearShapes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"rows", "inputs", "outputs"});
  for (const auto& shape : std::vector<std::vector<int64_t>>{
           {64, 784, 512},    // mlp
           {64, 512, 512},    //
           {64, 512, 10},     //
           {64, 3136, 128},   // cnn
           {1024, 128, 384},  // gpt
           {1024, 128, 128},  //
           {1024, 128, 512},  //
           {1024, 512, 128},  //
           {1024, 128, 256},  //
           {16, 4096, 4096},  // bigmlp
       }) {
    b->Args(shape);
  }
}

struct LinearTensors {
  LinearTensors(Workspace& w, const benchmark::State& state)
      : shape{state.range(0), state.range(1), state.range(2)},
        x(w.Reals(shape.rows * shape.inputs)),
        weight(w.Reals(shape.inputs * shape.outputs)),
        y(w.Reals(shape.rows * shape.outputs)),
        bias(w.Floats(shape.outputs)) {}
  double Flops() const {
    return 2.0 * static_cast<double>(shape.rows * shape.inputs) *
           static_cast<double>(shape.outputs);
  }
  LinearShape shape;
  Real *x, *weight, *y;
  float* bias;
};

void LinearForward(benchmark::State& state) {
  Workspace w;
  const LinearTensors t(w, state);
  for (auto _ : state) {
    w.device().ops().linear->Forward({t.shape, t.x, t.weight, t.bias, t.y});
  }
  SetFlops(state, t.Flops());
}
BENCHMARK(LinearForward)->Apply(LinearShapes);

void LinearBackwardInput(benchmark::State& state) {
  Workspace w;
  const LinearTensors t(w, state);
  for (auto _ : state) {
    w.device().ops().linear->BackwardInput({t.shape, t.y, t.weight,
                                            /*accumulate=*/false, t.x});
  }
  SetFlops(state, t.Flops());
}
BENCHMARK(LinearBackwardInput)->Apply(LinearShapes);

void LinearBackwardWeight(benchmark::State& state) {
  Workspace w;
  const LinearTensors t(w, state);
  float* const dweight = w.Floats(t.shape.inputs * t.shape.outputs);
  for (auto _ : state) {
    w.device().ops().linear->BackwardWeight(
        {t.shape, t.x, t.y, /*accumulate=*/false, dweight, t.bias});
  }
  SetFlops(state, t.Flops());
}
BENCHMARK(LinearBackwardWeight)->Apply(LinearShapes);

// ---- Convolution and pooling: cnn's two layers, index 0 and 1.

ConvolutionShape CnnConvolution(int64_t layer) {
  return layer == 0 ? ConvolutionShape{64, 1, 28, 28, 32, 28, 28, 5, 1, 2}
                    : ConvolutionShape{64, 32, 14, 14, 64, 14, 14, 5, 1, 2};
}

PoolShape CnnPool(int64_t layer) {
  return layer == 0 ? PoolShape{64, 32, 28, 28, 14, 14, 2}
                    : PoolShape{64, 64, 14, 14, 7, 7, 2};
}

struct ConvolutionTensors {
  ConvolutionTensors(Workspace& w, const ConvolutionShape& s)
      : shape(s),
        x(w.Reals(s.batch * s.in_channels * s.in_height * s.in_width)),
        weight(w.Reals(s.out_channels * s.in_channels * s.kernel * s.kernel)),
        y(w.Reals(s.batch * s.out_channels * s.out_height * s.out_width)),
        bias(w.Floats(s.out_channels)) {}
  double Flops() const {
    return 2.0 *
           static_cast<double>(shape.batch * shape.out_channels *
                               shape.out_height * shape.out_width *
                               shape.in_channels * shape.kernel * shape.kernel);
  }
  ConvolutionShape shape;
  Real *x, *weight, *y;
  float* bias;
};

void ConvolutionForward(benchmark::State& state) {
  Workspace w;
  const ConvolutionTensors t(w, CnnConvolution(state.range(0)));
  for (auto _ : state) {
    w.device().ops().convolution->Forward(
        {t.shape, t.x, t.weight, t.bias, t.y});
  }
  SetFlops(state, t.Flops());
}
BENCHMARK(ConvolutionForward)->Arg(0)->Arg(1);

void ConvolutionBackwardInput(benchmark::State& state) {
  Workspace w;
  const ConvolutionTensors t(w, CnnConvolution(state.range(0)));
  for (auto _ : state) {
    w.device().ops().convolution->BackwardInput({t.shape, t.y, t.weight, t.x});
  }
  SetFlops(state, t.Flops());
}
BENCHMARK(ConvolutionBackwardInput)->Arg(1);

void ConvolutionBackwardWeight(benchmark::State& state) {
  Workspace w;
  const ConvolutionTensors t(w, CnnConvolution(state.range(0)));
  float* const dweight = w.Floats(t.shape.out_channels * t.shape.in_channels *
                                  t.shape.kernel * t.shape.kernel);
  for (auto _ : state) {
    w.device().ops().convolution->BackwardWeight(
        {t.shape, t.x, t.y, dweight, t.bias});
  }
  SetFlops(state, t.Flops());
}
BENCHMARK(ConvolutionBackwardWeight)->Arg(0)->Arg(1);

void MaxPool(benchmark::State& state) {
  Workspace w;
  const PoolShape s = CnnPool(state.range(0));
  const int64_t in = s.batch * s.channels * s.in_height * s.in_width;
  const int64_t out = s.batch * s.channels * s.out_height * s.out_width;
  Real *x = w.Reals(in), *y = w.Reals(out);
  int32_t* argmax = w.Integers(out, 1);
  for (auto _ : state) {
    w.device().ops().pooling->MaxForward({s, x, y, argmax});
    w.device().ops().pooling->MaxBackward({s, y, argmax, x});
  }
  SetBytes(state, 2 * (in + 2 * out));
}
BENCHMARK(MaxPool)->Arg(0)->Arg(1);

// ---- Element by element: number of elements.

void Relu(benchmark::State& state) {
  Workspace w;
  const int64_t count = state.range(0);
  Real *x = w.Reals(count), *dy = w.Reals(count);
  for (auto _ : state) {
    w.device().ops().elementwise->ReluForward({count, x, x});
    w.device().ops().elementwise->ReluBackward({count, x, dy, dy});
  }
  SetBytes(state, 5 * count);
}
BENCHMARK(Relu)->Arg(64 * 512)->Arg(64 * 32 * 28 * 28);

void Gelu(benchmark::State& state) {
  Workspace w;
  const int64_t count = state.range(0);
  Real *x = w.Reals(count), *y = w.Reals(count), *dy = w.Reals(count);
  for (auto _ : state) {
    w.device().ops().elementwise->GeluForward({count, x, y});
    w.device().ops().elementwise->GeluBackward({count, x, dy, dy});
  }
  SetBytes(state, 5 * count);
}
BENCHMARK(Gelu)->Arg(1024 * 512);

void Dropout(benchmark::State& state) {
  Workspace w;
  const int64_t count = state.range(0);
  Real *x = w.Reals(count), *y = w.Reals(count);
  const RandomStream stream = {1, RandomPurpose::kDropout, 2, 3};
  for (auto _ : state)
    w.device().ops().elementwise->Dropout({count, stream, 0.1f, x, y});
  SetBytes(state, 2 * count);
}
BENCHMARK(Dropout)->Arg(1024 * 128);

// ---- Sequences: gpt's shapes.

void LayerNorm(benchmark::State& state) {
  Workspace w;
  const int64_t rows = state.range(0), width = state.range(1);
  Real *x = w.Reals(rows * width), *y = w.Reals(rows * width),
       *dx = w.Reals(rows * width);
  float *scale = w.Floats(width), *shift = w.Floats(width),
        *mean = w.Floats(rows), *inverse = w.Floats(rows),
        *dscale = w.Floats(width), *dshift = w.Floats(width);
  for (auto _ : state) {
    w.device().ops().layer_norm->Forward(
        {rows, width, x, scale, shift, y, mean, inverse});
    w.device().ops().layer_norm->Backward(
        {rows, width, x, scale, mean, inverse, y,
         /*accumulate=*/false, dx, dscale, dshift});
  }
  SetBytes(state, 5 * rows * width);
}
BENCHMARK(LayerNorm)->Args({1024, 128});

void Attention(benchmark::State& state) {
  Workspace w;
  const AttentionShape s = {state.range(0), state.range(1), state.range(2),
                            state.range(3)};
  const float rate = static_cast<float>(state.range(4)) / 100;
  const int64_t count = s.batch * s.time * s.heads * s.head_size;
  const RandomStream stream = {1, RandomPurpose::kDropout, 2, 3};
  Real *qkv = w.Reals(3 * count), *y = w.Reals(count), *dy = w.Reals(count),
       *dqkv = w.Reals(3 * count);
  float* saved = w.Floats(w.device().ops().attention->SavedElements(s));
  for (auto _ : state) {
    w.device().ops().attention->Forward({s, qkv, stream, rate, y, saved});
    w.device().ops().attention->Backward(
        {s, qkv, y, saved, dy, stream, rate, dqkv});
  }
  // Two products forward, five backward, half of each by causality.
  SetFlops(state, 7.0 * static_cast<double>(count * s.time));
}
BENCHMARK(Attention)
    ->ArgNames({"batch", "time", "heads", "head_size", "dropout_percent"})
    ->Args({8, 128, 4, 32, 0})
    ->Args({12, 64, 4, 32, 0})
    ->Args({8, 128, 4, 32, 10});

void CrossEntropy(benchmark::State& state) {
  Workspace w;
  const int64_t rows = state.range(0), classes = state.range(1);
  Real *logits = w.Reals(rows * classes), *dlogits = w.Reals(rows * classes);
  const int32_t* labels = w.Integers(rows, static_cast<uint32_t>(classes));
  for (auto _ : state) {
    LossOps& ops = *w.device().ops().loss;
    ops.BeginSoftmaxCrossEntropy({rows, classes, logits, labels, dlogits});
    benchmark::DoNotOptimize(ops.Await());
  }
  SetBytes(state, 2 * rows * classes);
}
BENCHMARK(CrossEntropy)->Args({64, 10})->Args({1024, 256})->Args({16, 4096});

}  // namespace
}  // namespace tributary

BENCHMARK_MAIN();
