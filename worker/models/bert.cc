#include "worker/models/bert.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/field_checks.h"
#include "common/base/status_macros.h"
#include "common/job/job_checks.h"
#include "worker/models/blocks/spec_checks.h"
#include "worker/nn/layers/activation.h"
#include "worker/nn/layers/attention.h"
#include "worker/nn/layers/dropout.h"
#include "worker/nn/layers/first_row.h"
#include "worker/nn/layers/layer_norm.h"
#include "worker/nn/layers/linear.h"
#include "worker/nn/layers/residual.h"
#include "worker/nn/layers/sequence_embedding.h"

namespace tributary {
namespace {

// BERT's standard deviation of initial weights.
constexpr double kBertDeviation = 0.02;
constexpr char kWords[] = "bert.embeddings.word_embeddings.weight";

class BertBuilder {
 public:
  BertBuilder(const BertSpec& spec, int64_t classes)
      : spec_(spec),
        classes_(classes),
        graph_(SequenceInput::Elements(spec.context())) {}

  Graph Build() &&;

 private:
  int64_t stream_size() const { return spec_.context() * spec_.width(); }
  int64_t intermediate() const {
    return spec_.intermediate() == 0 ? 4 * spec_.width() : spec_.intermediate();
  }

  void AddEmbeddings();
  void AddBlock(const std::string& name);
  ValueId AddAttention(const std::string& name);
  void AddMaskedLanguageModel();
  void AddClassifier();
  void SetLoss(int64_t rows, int64_t width, ValueId logits);

  ValueId AddNorm(const std::string& name, ValueId value);
  Linear::Options LinearOptions(int64_t rows, int64_t inputs, int64_t outputs);
  ValueId AddLinear(const std::string& name, int64_t rows, int64_t inputs,
                    int64_t outputs, ValueId value);
  ValueId AddDropout(const std::string& name, ValueId value);
  // Adds a branch to the stream and normalizes the sum.
  void AddToStream(const std::string& name, ValueId branch);

  const BertSpec& spec_;
  const int64_t classes_;
  Graph graph_;
  ValueId stream_ = 0;
};

Graph BertBuilder::Build() && {
  AddEmbeddings();
  for (int64_t i = 0; i < spec_.layers(); ++i) {
    AddBlock(absl::StrCat("bert.encoder.layer.", i));
  }
  if (spec_.head() == BertSpec::SEQUENCE_CLASSIFICATION) {
    AddClassifier();
  } else {
    AddMaskedLanguageModel();
  }
  return std::move(graph_);
}

void BertBuilder::AddEmbeddings() {
  SequenceEmbedding::Options options;
  options.vocabulary = spec_.vocabulary();
  options.context = spec_.context();
  options.positions = spec_.positions();
  options.types = spec_.token_types();
  options.width = spec_.width();
  options.initializer = Initializer::Normal(kBertDeviation);
  stream_ = graph_.Add("bert.embeddings",
                       std::make_unique<SequenceEmbedding>(options),
                       {graph_.input()});
  stream_ = AddNorm("bert.embeddings.LayerNorm", stream_);
  stream_ = AddDropout("bert.embeddings", stream_);
}

void BertBuilder::AddBlock(const std::string& name) {
  const int64_t width = spec_.width(), rows = spec_.context();
  const std::string attention = name + ".attention";
  ValueId branch = AddAttention(attention + ".self");
  branch = AddLinear(attention + ".output.dense", rows, width, width, branch);
  AddToStream(attention + ".output", branch);

  branch = AddLinear(name + ".intermediate.dense", rows, width, intermediate(),
                     stream_);
  branch =
      graph_.Add(name + ".intermediate.gelu",
                 std::make_unique<ExactGelu>(rows * intermediate()), {branch});
  branch =
      AddLinear(name + ".output.dense", rows, intermediate(), width, branch);
  AddToStream(name + ".output", branch);
}

ValueId BertBuilder::AddAttention(const std::string& name) {
  StackedLinear::Options qkv;
  qkv.names = {"query", "key", "value"};
  qkv.rows = spec_.context();
  qkv.inputs = spec_.width();
  qkv.outputs = spec_.width();
  qkv.weight_initializer = Initializer::Normal(kBertDeviation);
  qkv.bias_initializer = Initializer::Constant(0);
  const ValueId projected =
      graph_.Add(name, std::make_unique<StackedLinear>(qkv), {stream_});
  Attention::Options attention;
  attention.time = spec_.context();
  attention.heads = spec_.heads();
  attention.head_size = spec_.width() / spec_.heads();
  attention.dropout = static_cast<float>(spec_.dropout());
  attention.causal = false;
  return graph_.Add(name + ".attention", std::make_unique<Attention>(attention),
                    {projected, graph_.input()});
}

void BertBuilder::AddMaskedLanguageModel() {
  const int64_t width = spec_.width(), rows = spec_.context();
  const std::string name = "cls.predictions";
  ValueId value =
      AddLinear(name + ".transform.dense", rows, width, width, stream_);
  value = graph_.Add(name + ".transform.gelu",
                     std::make_unique<ExactGelu>(stream_size()), {value});
  value = AddNorm(name + ".transform.LayerNorm", value);
  value = graph_.AddTied(
      name,
      std::make_unique<Linear>(LinearOptions(rows, width, spec_.vocabulary())),
      {value}, kWords);
  SetLoss(rows, spec_.vocabulary(), value);
}

void BertBuilder::AddClassifier() {
  const int64_t width = spec_.width();
  ValueId value =
      graph_.Add("bert.pooler.first",
                 std::make_unique<FirstRow>(spec_.context(), width), {stream_});
  value = AddLinear("bert.pooler.dense", /*rows=*/1, width, width, value);
  value =
      graph_.Add("bert.pooler.tanh", std::make_unique<Tanh>(width), {value});
  value = AddDropout("classifier", value);
  value = AddLinear("classifier", /*rows=*/1, width, classes_, value);
  SetLoss(/*rows=*/1, classes_, value);
}

void BertBuilder::SetLoss(int64_t rows, int64_t width, ValueId logits) {
  LossSpec loss;
  loss.kind = LossSpec::Kind::kSoftmaxCrossEntropy;
  loss.rows = rows;
  loss.width = width;
  graph_.SetLoss(loss, logits);
}

ValueId BertBuilder::AddNorm(const std::string& name, ValueId value) {
  return graph_.Add(name,
                    std::make_unique<LayerNorm>(
                        spec_.context(), spec_.width(), /*bias=*/true,
                        static_cast<float>(spec_.layer_norm_epsilon())),
                    {value});
}

Linear::Options BertBuilder::LinearOptions(int64_t rows, int64_t inputs,
                                           int64_t outputs) {
  Linear::Options options;
  options.rows = rows;
  options.inputs = inputs;
  options.outputs = outputs;
  options.weight_initializer = Initializer::Normal(kBertDeviation);
  options.bias_initializer = Initializer::Constant(0);
  return options;
}

ValueId BertBuilder::AddLinear(const std::string& name, int64_t rows,
                               int64_t inputs, int64_t outputs, ValueId value) {
  return graph_.Add(
      name, std::make_unique<Linear>(LinearOptions(rows, inputs, outputs)),
      {value});
}

ValueId BertBuilder::AddDropout(const std::string& name, ValueId value) {
  const float rate = static_cast<float>(spec_.dropout());
  if (rate == 0) return value;
  return graph_.Add(name + ".dropout",
                    std::make_unique<Dropout>(graph_.values()[value], rate),
                    {value});
}

void BertBuilder::AddToStream(const std::string& name, ValueId branch) {
  branch = AddDropout(name, branch);
  const ValueId sum =
      graph_.Add(name + ".residual", std::make_unique<Residual>(stream_size()),
                 {stream_, branch});
  stream_ = AddNorm(name + ".LayerNorm", sum);
}

}  // namespace

absl::StatusOr<Graph> BuildBert(const ModelSpec& spec, const DataInfo& info) {
  const BertSpec& bert = spec.bert();
  if (info.kind != DataInfo::Kind::kSequences ||
      info.sample_shape.size() != 1) {
    return Error("model.bert",
                 absl::StrCat("needs texts divided into tokens by "
                              "WordPiece, or data.random; the data are ",
                              KindName(info.kind)));
  }
  if (info.sample_shape[0] != bert.context()) {
    return Error("model.bert.context", bert.context(),
                 ", but the data come in sequences of ", info.sample_shape[0]);
  }
  if (info.vocabulary > bert.vocabulary()) {
    return Error(
        "model.bert.vocabulary",
        absl::StrCat(bert.vocabulary(), ", but the data's tokenizer has ",
                     info.vocabulary, " tokens; set it to that number"));
  }
  if (info.token_types > bert.token_types()) {
    return Error("model.bert.token_types", bert.token_types(),
                 ", but the data have ", info.token_types, " types of tokens");
  }
  if (spec.loss() != ModelSpec::CROSS_ENTROPY) {
    return Error("model.loss", "model.bert needs CROSS_ENTROPY");
  }
  TRIBUTARY_RETURN_IF_ERROR(
      Between("the data's classes", info.classes, 1, kMaxWidth));
  return BertBuilder(bert, info.classes).Build();
}

}  // namespace tributary
