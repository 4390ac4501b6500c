#include "tests/support/model_harness.h"

#include <google/protobuf/text_format.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/numerics/philox.h"

namespace tributary {
namespace {

[[noreturn]] void Die(absl::string_view what) {
  std::fprintf(stderr, "%.*s\n", static_cast<int>(what.size()), what.data());
  std::abort();
}

template <typename T>
T Value(absl::StatusOr<T> value) {
  if (!value.ok()) Die(value.status().ToString());
  return *std::move(value);
}

}  // namespace

ModelSpec ParseModel(absl::string_view text) {
  ModelSpec spec;
  if (!google::protobuf::TextFormat::ParseFromString(std::string(text),
                                                     &spec)) {
    Die(text);
  }
  return spec;
}

DataInfo ImageInfo(int64_t channels, int64_t height, int64_t width,
                   int64_t classes) {
  return {DataInfo::Kind::kImages, {channels, height, width}, classes};
}
DataInfo RowInfo(int64_t features, int64_t classes) {
  return {DataInfo::Kind::kRows, {features}, classes};
}
DataInfo FeatureInfo(int64_t numbers, const std::vector<int64_t>& dims) {
  DataInfo info = RowInfo(numbers, /*classes=*/2);
  info.vector_dims = dims;
  for (size_t i = 0; i < dims.size(); ++i) {
    info.vector_names.push_back(absl::StrCat("C", i));
  }
  return info;
}
DataInfo TokenInfo(int64_t context, int64_t vocabulary) {
  return {DataInfo::Kind::kTokens, {context}, vocabulary};
}

Batch MakeBatch(const DataInfo& info, int64_t samples, uint32_t seed) {
  int64_t elements = samples;
  for (const int64_t size : info.sample_shape) elements *= size;
  const bool text = info.kind == DataInfo::Kind::kTokens;
  const RandomStream stream{seed, RandomPurpose::kSampleOrder, 0, 0};
  uint64_t number = 0;
  const auto next = [&] { return stream.Block(number++)[0]; };

  Batch batch;
  batch.samples = samples;
  for (int64_t i = 0; i < elements; ++i) {
    if (text) {
      batch.tokens.push_back(next() % info.classes);
    } else {
      batch.features.push_back(2 * UniformFloat(next()) - 1);
    }
  }
  for (int64_t i = 0; i < (text ? elements : samples); ++i) {
    if (info.classes > 0) {
      batch.labels.push_back(next() % info.classes);
    } else {
      batch.values.push_back(UniformFloat(next()));
    }
  }
  for (const int64_t dim : info.vector_dims) {
    for (int64_t i = 0; i < dim * samples; ++i) {
      batch.vectors.push_back(2 * UniformFloat(next()) - 1);
    }
  }
  return batch;
}

ModelHarness::ModelHarness(const ModelSpec& spec, const DataInfo& info,
                           int64_t max_samples, Precision precision)
    : ModelHarness(spec, info, max_samples, CreateCpuDevice(precision)) {}

ModelHarness::ModelHarness(const ModelSpec& spec, const DataInfo& info,
                           int64_t max_samples, std::unique_ptr<Device> device)
    : device_(std::move(device)),
      model_(Value(CreateModel(spec, info, max_samples, device_.get()))),
      weights_(nullptr, nullptr),
      gradients_(nullptr, nullptr) {
  ParameterTable table = model_->table();
  table.set_chunk_elements(4096);
  layout_ = std::make_unique<ArenaLayout>(Value(ArenaLayout::Create(table)));
  const size_t bytes = layout_->arena_elements() * sizeof(float);
  weights_ = Value(device_->Allocate(bytes));
  gradients_ = Value(device_->Allocate(bytes));
  std::vector<float> initial(layout_->arena_elements());
  model_->Initialize(/*seed=*/1, *layout_, initial.data());
  device_->CopyFromHost(weights(), initial.data(), bytes);
}

absl::StatusOr<LossSums> ModelHarness::TryStep(const Batch& batch, int64_t step,
                                               int micro_batch,
                                               ModelCalls* calls) {
  vectors_.assign(batch.vectors.size(), NAN);
  ObservedGradients sink(gradients(), calls, vectors_.data());
  return model_->ForwardBackward(batch, /*seed=*/1, step, micro_batch,
                                 ObservedWeights(weights(), calls), &sink,
                                 calls);
}

LossSums ModelHarness::Step(const Batch& batch, int64_t step, int micro_batch,
                            ModelCalls* calls) {
  return Value(TryStep(batch, step, micro_batch, calls));
}

std::vector<float> ModelHarness::Gradients() {
  std::vector<float> values(layout_->arena_elements());
  const absl::Status copied = device_->CopyToHost(
      values.data(), gradients(), values.size() * sizeof(float));
  if (!copied.ok()) Die(copied.ToString());
  return values;
}

const Parameter& ModelHarness::FindParameter(const std::string& name) const {
  for (const Parameter& parameter : layout_->parameters()) {
    if (parameter.name == name) return parameter;
  }
  Die("no parameter " + name);
}

}  // namespace tributary
