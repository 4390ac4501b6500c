#include "tests/simulation/jobs/tiny_network.h"

#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/simulation/jobs/random.h"
#include "worker/nn/layers/activation.h"
#include "worker/nn/layers/dropout.h"
#include "worker/nn/layers/layer_norm.h"
#include "worker/nn/layers/linear.h"
#include "worker/nn/layers/residual.h"

namespace tributary::simulation {
namespace {

constexpr int64_t kFeatures = 4;
constexpr int64_t kWidth =
    4;  // Of all values, and the largest number of classes.

// A layer that takes time.
class SlowLayer final : public Layer {
 public:
  SlowLayer(std::unique_ptr<Layer> layer, OnLayer on_layer)
      : layer_(std::move(layer)), on_layer_(std::move(on_layer)) {}

  LayerSpec Spec() const override { return layer_->Spec(); }
  int64_t SavedElements(const Device& device, int64_t samples) const override {
    return layer_->SavedElements(device, samples);
  }
  void Forward(const LayerCall& call,
               const LayerTensors& tensors) const override {
    on_layer_();
    layer_->Forward(call, tensors);
  }
  void Backward(const LayerCall& call,
                const LayerTensors& tensors) const override {
    on_layer_();
    layer_->Backward(call, tensors);
  }

 private:
  const std::unique_ptr<Layer> layer_;
  const OnLayer on_layer_;
};

// Adds layers to a graph.
class Builder {
 public:
  // The network reads `vectors` elements of vectors.
  Builder(uint64_t seed, int64_t vectors, const OnLayer& on_layer)
      : random_(Mix(seed, 61)),
        on_layer_(on_layer),
        graph_(kFeatures + vectors, vectors) {}

  Graph Build() {
    const ValueId first = Add(
        "first", MakeLinear(graph_.values()[graph_.input()]), {graph_.input()});
    ValueId value = first;
    const int64_t blocks = random_.Uniform(2, 4);
    for (int64_t i = 0; i < blocks; ++i) {
      const std::string name = absl::StrCat("block.", i);
      value =
          Add(absl::StrCat(name, ".sum"), std::make_unique<Residual>(kWidth),
              {value, AddBranch(name, value)});
    }
    if (random_.Chance(0.5)) {
      value = Add("skip", std::make_unique<Residual>(kWidth), {value, first});
    }
    value = AddLinear("last", value);
    graph_.SetLoss(LossSpec::SoftmaxCrossEntropy(kWidth), value);
    return std::move(graph_);
  }

 private:
  static std::unique_ptr<Layer> MakeLinear(int64_t inputs) {
    return std::make_unique<Linear>(Linear::FanInOptions(inputs, kWidth));
  }

  ValueId AddBranch(const std::string& name, ValueId value) {
    if (random_.Chance(0.3)) {
      value = Add(absl::StrCat(name, ".norm"),
                  std::make_unique<LayerNorm>(/*rows=*/1, kWidth,
                                              /*bias=*/true),
                  {value});
    }
    value = AddLinear(name, value);
    const int64_t kind = random_.Uniform(0, 2);
    if (kind == 0) {
      value = Add(absl::StrCat(name, ".tanh"), std::make_unique<Tanh>(kWidth),
                  {value});
    } else if (kind == 1) {
      value = Add(absl::StrCat(name, ".gelu"), std::make_unique<Gelu>(kWidth),
                  {value});
    }
    if (random_.Chance(0.3)) {
      value = Add(absl::StrCat(name, ".dropout"),
                  std::make_unique<Dropout>(kWidth, 0.2f), {value});
    }
    return value;
  }

  // Adds a linear layer, which may share the weight of an earlier one.
  ValueId AddLinear(const std::string& name, ValueId value) {
    if (!linear_.empty() && random_.Chance(0.4)) {
      const auto last = static_cast<int64_t>(linear_.size()) - 1;
      const std::string& shared =
          linear_[static_cast<size_t>(random_.Uniform(0, last))];
      return graph_.AddTied(name, Slow(MakeLinear(kWidth)), {value},
                            absl::StrCat(shared, ".weight"));
    }
    linear_.push_back(name);
    return Add(name, MakeLinear(kWidth), {value});
  }

  ValueId Add(const std::string& name, std::unique_ptr<Layer> layer,
              std::vector<ValueId> inputs) {
    return graph_.Add(name, Slow(std::move(layer)), std::move(inputs));
  }

  std::unique_ptr<Layer> Slow(std::unique_ptr<Layer> layer) const {
    if (on_layer_ == nullptr) return layer;
    return std::make_unique<SlowLayer>(std::move(layer), on_layer_);
  }

  Random random_;
  const OnLayer on_layer_;
  Graph graph_;
  std::vector<std::string> linear_;  // Those with a weight of their own.
};

// Returns the number of elements of the vector of each feature.
std::vector<int64_t> VectorDims(const SparseSpec& sparse) {
  std::vector<int64_t> dims;
  for (const SparseFeatureSpec& feature : sparse.feature()) {
    for (const SparseTableSpec& table : sparse.table()) {
      if (table.name() == feature.table()) dims.push_back(table.dim());
    }
  }
  return dims;
}

class TinySamples final : public DataSet {
 public:
  TinySamples(const JobSpec& job, const DataFacts& facts, bool wrong)
      : seed_(job.seed()),
        with_nan_(job.on_nonfinite() == JobSpec::SKIP),
        steps_per_nan_(8 * static_cast<uint64_t>(job.batch().global())),
        wrong_(wrong),
        sparse_(job.sparse()),
        values_(Random(Mix(seed_, 62)).Uniform(2, 60)),
        facts_(facts) {
    info_.sample_shape = {kFeatures};
    // Models that read features predict one of two classes.
    info_.classes = job.has_sparse() ? 2 : kWidth;
    info_.vector_dims = VectorDims(sparse_);
    for (const SparseFeatureSpec& feature : sparse_.feature()) {
      info_.vector_names.push_back(feature.column());
    }
  }

  const DataInfo& info() const override { return info_; }
  int64_t train_samples() const override { return facts_.train_samples(); }
  int64_t evaluation_samples() const override {
    return facts_.evaluation_pieces();
  }
  uint64_t fingerprint() const override { return facts_.fingerprint(); }
  void ReadTrain(int64_t epoch, absl::Span<const int64_t> indexes,
                 Batch* batch) const override {
    batch->feature_keys.resize(sparse_.feature_size());
    for (const int64_t index : indexes) {
      const uint64_t number = Mix(Mix(seed_, static_cast<uint64_t>(epoch)),
                                  static_cast<uint64_t>(index));
      AddSample(number, batch);
      float& feature = batch->features.back();
      if (with_nan_ && number % steps_per_nan_ == 0) {
        feature = std::numeric_limits<float>::quiet_NaN();
      }
      if (wrong_ && epoch == 0 && index == 0) feature += 1;
    }
  }
  void ReadEvaluation(int64_t begin, int64_t end, Batch* batch) const override {
    batch->feature_keys.resize(sparse_.feature_size());
    for (int64_t piece = begin; piece < end; ++piece) {
      AddSample(Mix(seed_ + 9, static_cast<uint64_t>(piece)), batch);
    }
  }

 private:
  void AddSample(uint64_t number, Batch* batch) const {
    ++batch->samples;
    Random random(number);
    for (int64_t i = 0; i < kFeatures; ++i) {
      batch->features.push_back(static_cast<float>(random.Fraction()) - 0.5f);
    }
    batch->labels.push_back(
        static_cast<int32_t>(random.Uniform(0, info_.classes - 1)));
    for (int i = 0; i < sparse_.feature_size(); ++i) {
      const bool one = sparse_.feature(i).pooling() == SparseFeatureSpec::NONE;
      FeatureKeys& feature = batch->feature_keys[i];
      for (int64_t k = one ? 1 : random.Uniform(0, 3); k > 0; --k) {
        feature.keys.push_back(DrawKey(&random));
      }
      feature.ends.push_back(static_cast<int64_t>(feature.keys.size()));
    }
  }

  // Returns one of few keys, some of which are rare.
  uint64_t DrawKey(Random* random) const {
    const int64_t value = random->Uniform(0, random->Uniform(0, values_ - 1));
    if (value < 2) return value == 0 ? 0 : std::numeric_limits<uint64_t>::max();
    return Mix(seed_, static_cast<uint64_t>(value));
  }

  const uint64_t seed_;
  const bool with_nan_;
  const uint64_t steps_per_nan_;
  const bool wrong_;
  const SparseSpec sparse_;
  const int64_t values_;  // Number of different keys.
  const DataFacts facts_;
  DataInfo info_;
};

}  // namespace

Graph BuildTinyNetwork(uint64_t seed, const SparseSpec& sparse,
                       const OnLayer& on_layer) {
  const std::vector<int64_t> dims = VectorDims(sparse);
  return Builder(seed, std::accumulate(dims.begin(), dims.end(), int64_t{0}),
                 on_layer)
      .Build();
}

std::unique_ptr<DataSet> MakeTinySamples(const JobSpec& job,
                                         const DataFacts& facts, bool wrong) {
  return std::make_unique<TinySamples>(job, facts, wrong);
}

}  // namespace tributary::simulation
