#include "worker/models/gpt.h"

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/field_checks.h"
#include "common/base/status_macros.h"
#include "common/job/job_checks.h"
#include "worker/models/blocks/spec_checks.h"
#include "worker/nn/layers/activation.h"
#include "worker/nn/layers/attention.h"
#include "worker/nn/layers/dropout.h"
#include "worker/nn/layers/embedding.h"
#include "worker/nn/layers/layer_norm.h"
#include "worker/nn/layers/linear.h"
#include "worker/nn/layers/residual.h"

namespace tributary {
namespace {

// GPT-2's standard deviation of initial weights.
constexpr double kGptDeviation = 0.02;

// Returns how much is missing to a multiple.
int64_t PaddingOf(int64_t vocabulary, int64_t multiple) {
  return (multiple - vocabulary % multiple) % multiple;
}

class GptBuilder {
 public:
  GptBuilder(const GptSpec& spec, int64_t vocabulary, double smoothing)
      : spec_(spec),
        vocabulary_(vocabulary),
        padding_(PaddingOf(vocabulary, spec.vocabulary_multiple())),
        smoothing_(static_cast<float>(smoothing)),
        graph_(spec.context()) {}

  Graph Build() &&;

 private:
  int64_t stream_size() const { return spec_.context() * spec_.width(); }

  void AddBlock(const std::string& name);
  ValueId AddNorm(const std::string& name);
  ValueId AddLinear(const std::string& name, int64_t inputs, int64_t outputs,
                    double deviation, ValueId value);
  ValueId AddDropout(const std::string& name, ValueId value);
  void AddToStream(const std::string& name, ValueId branch);
  void AddHead();

  const GptSpec& spec_;
  const int64_t vocabulary_;
  const int64_t padding_;  // Tokens that the head adds.
  const float smoothing_;
  Graph graph_;
  ValueId stream_ = 0;
};

Graph GptBuilder::Build() && {
  Embedding::Options embedding;
  embedding.vocabulary = vocabulary_;
  embedding.context = spec_.context();
  embedding.width = spec_.width();
  embedding.padding = spec_.tied_head() ? padding_ : 0;
  embedding.initializer = Initializer::Normal(kGptDeviation);
  stream_ = graph_.Add("transformer", std::make_unique<Embedding>(embedding),
                       {graph_.input()});
  stream_ = AddDropout("transformer", stream_);
  for (int64_t i = 0; i < spec_.layers(); ++i) {
    AddBlock(absl::StrCat("transformer.h.", i));
  }
  stream_ = AddNorm("transformer.ln_f");
  AddHead();
  return std::move(graph_);
}

void GptBuilder::AddBlock(const std::string& name) {
  const int64_t width = spec_.width();
  const double residual_deviation =
      kGptDeviation / std::sqrt(2.0 * static_cast<double>(spec_.layers()));

  const std::string attn = name + ".attn";
  ValueId branch = AddNorm(name + ".ln_1");
  branch = AddLinear(attn + ".c_attn", width, 3 * width, kGptDeviation, branch);
  Attention::Options attention;
  attention.time = spec_.context();
  attention.heads = spec_.heads();
  attention.head_size = width / spec_.heads();
  attention.dropout = static_cast<float>(spec_.dropout());
  branch = graph_.Add(attn, std::make_unique<Attention>(attention), {branch});
  branch =
      AddLinear(attn + ".c_proj", width, width, residual_deviation, branch);
  AddToStream(attn, branch);

  const std::string mlp = name + ".mlp";
  branch = AddNorm(name + ".ln_2");
  branch = AddLinear(mlp + ".c_fc", width, 4 * width, kGptDeviation, branch);
  branch = graph_.Add(mlp + ".gelu", std::make_unique<Gelu>(4 * stream_size()),
                      {branch});
  branch =
      AddLinear(mlp + ".c_proj", 4 * width, width, residual_deviation, branch);
  AddToStream(mlp, branch);
}

ValueId GptBuilder::AddNorm(const std::string& name) {
  return graph_.Add(
      name,
      std::make_unique<LayerNorm>(spec_.context(), spec_.width(), spec_.bias()),
      {stream_});
}

ValueId GptBuilder::AddLinear(const std::string& name, int64_t inputs,
                              int64_t outputs, double deviation,
                              ValueId value) {
  Linear::Options options;
  options.rows = spec_.context();
  options.inputs = inputs;
  options.outputs = outputs;
  options.bias = spec_.bias();
  options.weight_initializer = Initializer::Normal(deviation);
  options.bias_initializer = Initializer::Constant(0);
  return graph_.Add(name, std::make_unique<Linear>(options), {value});
}

ValueId GptBuilder::AddDropout(const std::string& name, ValueId value) {
  const float rate = static_cast<float>(spec_.dropout());
  if (rate == 0) return value;
  return graph_.Add(name + ".dropout",
                    std::make_unique<Dropout>(stream_size(), rate), {value});
}

void GptBuilder::AddToStream(const std::string& name, ValueId branch) {
  branch = AddDropout(name, branch);
  stream_ =
      graph_.Add(name + ".residual", std::make_unique<Residual>(stream_size()),
                 {stream_, branch});
}

void GptBuilder::AddHead() {
  Linear::Options options;
  options.rows = spec_.context();
  options.inputs = spec_.width();
  options.outputs = vocabulary_;
  options.padding = padding_;
  options.bias = false;
  options.weight_initializer = Initializer::Normal(kGptDeviation);
  auto head = std::make_unique<Linear>(options);
  const ValueId logits =
      spec_.tied_head() ? graph_.AddTied("lm_head", std::move(head), {stream_},
                                         "transformer.wte.weight")
                        : graph_.Add("lm_head", std::move(head), {stream_});
  LossSpec loss;
  loss.kind = LossSpec::Kind::kSoftmaxCrossEntropy;
  loss.rows = spec_.context();
  loss.width = vocabulary_ + padding_;
  loss.padding = padding_;
  loss.smoothing = smoothing_;
  graph_.SetLoss(loss, logits);
}

}  // namespace

absl::StatusOr<Graph> BuildGpt(const ModelSpec& spec, const DataInfo& info) {
  const GptSpec& gpt = spec.gpt();
  if (info.kind != DataInfo::Kind::kTokens || info.sample_shape.size() != 1) {
    return Error("model.gpt", absl::StrCat("needs text; the data are ",
                                           KindName(info.kind)));
  }
  if (info.sample_shape[0] != gpt.context()) {
    return Error("model.gpt.context", gpt.context(),
                 ", but the data come in sequences of ", info.sample_shape[0]);
  }
  if (spec.loss() != ModelSpec::CROSS_ENTROPY) {
    return Error("model.loss", "model.gpt needs CROSS_ENTROPY");
  }
  TRIBUTARY_RETURN_IF_ERROR(
      Between("the data's vocabulary", info.classes, 1, kMaxWidth));
  return GptBuilder(gpt, info.classes, spec.label_smoothing()).Build();
}

}  // namespace tributary
