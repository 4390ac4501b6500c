#include "worker/models/gpt_decoder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/data/batch.h"
#include "worker/device/reals.h"
#include "worker/models/gpt.h"
#include "worker/nn/layers/linear.h"

namespace tributary {
namespace {

// Tokens of a prompt that are computed together. More would make matrix
// products hardly faster.
constexpr int64_t kMostRows = 128;
constexpr int64_t kAlignment = 64;

// Assigns places in one block of memory.
class Places {
 public:
  int64_t Add(int64_t bytes) {
    const int64_t place = total_;
    total_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return place;
  }
  int64_t total() const { return total_; }

 private:
  int64_t total_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<GptDecoder>> GptDecoder::Create(
    const ModelSpec& spec, Device* device) {
  DataInfo info;
  info.kind = DataInfo::Kind::kTokens;
  info.sample_shape = {spec.gpt().context()};
  info.classes = spec.gpt().vocabulary();
  TRIBUTARY_ASSIGN_OR_RETURN(Graph graph, BuildGpt(spec, info));
  TRIBUTARY_RETURN_IF_ERROR(graph.status());
  ParameterTable table = graph.table();
  // Offsets do not depend on this value.
  table.set_chunk_elements(int64_t{1} << 20);
  TRIBUTARY_ASSIGN_OR_RETURN(ArenaLayout layout, ArenaLayout::Create(table));
  std::unique_ptr<GptDecoder> decoder(
      new GptDecoder(spec.gpt(), device, std::move(graph), std::move(layout)));
  TRIBUTARY_RETURN_IF_ERROR(decoder->Allocate());
  return decoder;
}

GptDecoder::GptDecoder(const GptSpec& spec, Device* device, Graph graph,
                       ArenaLayout layout)
    : spec_(spec),
      device_(device),
      graph_(std::move(graph)),
      layout_(std::move(layout)),
      rows_(std::min(spec_.context(), kMostRows)) {
  token_table_ = Find("transformer.wte.weight");
  position_table_ = Find("transformer.wpe.weight");
  for (int64_t i = 0; i < spec_.layers(); ++i) {
    const std::string name = absl::StrCat("transformer.h.", i, ".");
    Block block;
    block.norm_1 = FindAffine(name + "ln_1");
    block.qkv = FindAffine(name + "attn.c_attn");
    block.projection = FindAffine(name + "attn.c_proj");
    block.norm_2 = FindAffine(name + "ln_2");
    block.up = FindAffine(name + "mlp.c_fc");
    block.down = FindAffine(name + "mlp.c_proj");
    blocks_.push_back(block);
  }
  last_norm_ = FindAffine("transformer.ln_f");
  head_ = spec_.tied_head() ? token_table_ : Find("lm_head.weight");
}

int GptDecoder::Find(const std::string& name) const {
  const std::vector<Parameter>& parameters = layout_.parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

GptDecoder::Affine GptDecoder::FindAffine(const std::string& name) const {
  return {Find(name + ".weight"), Find(name + ".bias")};
}

AttentionOps::CacheShape GptDecoder::cache_shape() const {
  return {spec_.heads(), spec_.width() / spec_.heads(), spec_.context()};
}

absl::Status GptDecoder::Allocate() {
  const int64_t row = spec_.width() * device_->real_bytes();
  const int64_t floats = sizeof(float);
  const int64_t logits = graph_.loss().width;
  Places places;
  const int64_t stream = places.Add(rows_ * row);
  const int64_t branch = places.Add(rows_ * row);
  const int64_t normed = places.Add(rows_ * row);
  const int64_t qkv = places.Add(3 * rows_ * row);
  const int64_t attended = places.Add(rows_ * row);
  const int64_t hidden = places.Add(4 * rows_ * row);
  const int64_t activated = places.Add(4 * rows_ * row);
  const int64_t outputs = places.Add(logits * device_->real_bytes());
  const int64_t mean = places.Add(rows_ * floats);
  const int64_t inverse = places.Add(rows_ * floats);
  const int64_t bias = places.Add(logits * floats);
  const int64_t tokens = places.Add(rows_ * int64_t{sizeof(int32_t)});
  const int64_t cache =
      device_->ops().attention->CacheElements(cache_shape()) * floats;
  std::vector<int64_t> caches;
  for (size_t i = 0; i < blocks_.size(); ++i)
    caches.push_back(places.Add(cache));

  memory_bytes_ = places.total();
  TRIBUTARY_ASSIGN_OR_RETURN(
      memory_, device_->Allocate(static_cast<size_t>(memory_bytes_)));
  const auto at = [this](int64_t place) -> void* {
    return static_cast<char*>(memory_.get()) + place;
  };
  const auto reals = [&](int64_t place) {
    return static_cast<Real*>(at(place));
  };
  tensors_ = {reals(stream),
              reals(branch),
              reals(normed),
              reals(qkv),
              reals(attended),
              reals(hidden),
              reals(activated),
              reals(outputs),
              static_cast<float*>(at(mean)),
              static_cast<float*>(at(inverse)),
              /*head_bias=*/nullptr,
              static_cast<int32_t*>(at(tokens))};
  for (size_t i = 0; i < blocks_.size(); ++i) {
    blocks_[i].cache = static_cast<float*>(at(caches[i]));
  }
  if (graph_.loss().padding > 0) {
    std::vector<float> values(logits, 0.0f);
    std::fill(values.begin() + vocabulary(), values.end(),
              Linear::kPaddingLogit);
    tensors_.head_bias = static_cast<float*>(at(bias));
    device_->CopyFromHost(tensors_.head_bias, values.data(),
                          values.size() * sizeof(float));
  }
  return copies_.Prepare(graph_, layout_, device_);
}

void GptDecoder::SetWeights(const float* weights) {
  weights_ = weights;
  copies_.Renew();
  cached_.clear();
  dropped_ = 0;
}

absl::Status GptDecoder::NextTokenLogits(absl::Span<const int32_t> tokens,
                                         absl::Span<float> logits) {
  if (tokens.empty()) {
    return absl::InvalidArgumentError(
        "tokens is empty, expected at least one token");
  }
  if (static_cast<int64_t>(logits.size()) != vocabulary()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "room for ", logits.size(), " logits, ", vocabulary(), " wanted"));
  }
  for (const int32_t token : tokens) {
    if (token >= 0 && token < vocabulary()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("token ", token, " is not from 0 to ", vocabulary() - 1,
                     ", the tokens of the model"));
  }
  const size_t context = static_cast<size_t>(spec_.context());
  const bool extends =
      tokens.size() > dropped_ + cached_.size() &&
      tokens.size() <= dropped_ + context &&
      std::equal(cached_.begin(), cached_.end(), tokens.begin() + dropped_);
  if (!extends) {
    cached_.clear();
    const size_t kept =
        tokens.size() <= context ? tokens.size() : context - context / 4;
    dropped_ = tokens.size() - kept;
  }
  tokens.remove_prefix(dropped_ + cached_.size());
  while (!tokens.empty()) {
    const auto part = tokens.subspan(0, static_cast<size_t>(rows_));
    Compute(part, /*last=*/part.size() == tokens.size());
    tokens.remove_prefix(part.size());
  }
  const absl::Status status =
      CopyRealsToHost(device_, tensors_.logits, vocabulary(), logits.data());
  if (!status.ok()) cached_.clear();
  return status;
}

void GptDecoder::Compute(absl::Span<const int32_t> tokens, bool last) {
  const int64_t rows = static_cast<int64_t>(tokens.size());
  const int64_t past = static_cast<int64_t>(cached_.size());
  const int64_t width = spec_.width();
  device_->CopyFromHost(tensors_.tokens, tokens.data(),
                        tokens.size() * sizeof(int32_t));
  EmbeddingOps::ForwardArguments embedding;
  embedding.batch = 1;
  embedding.time = rows;
  embedding.width = width;
  embedding.tokens = tensors_.tokens;
  embedding.token_table = Weight(token_table_);
  embedding.position_table = Weight(position_table_) + past * width;
  embedding.y = tensors_.stream;
  device_->ops().embedding->Forward(embedding);
  bool add = false;
  for (const Block& block : blocks_) {
    Norm(block.norm_1, rows, add);
    add = true;
    Multiply(block.qkv, rows, width, 3 * width, tensors_.normed, tensors_.qkv);
    device_->ops().attention->Decode({cache_shape(), past, rows, tensors_.qkv,
                                      block.cache, tensors_.attended});
    Multiply(block.projection, rows, width, width, tensors_.attended,
             tensors_.branch);
    Norm(block.norm_2, rows, add);
    LinearOps::GeluForwardArguments up;
    up.shape = {rows, width, 4 * width};
    up.x = tensors_.normed;
    up.weight = ProductWeight(block.up.weight);
    up.bias = Weight(block.up.bias);
    up.z = tensors_.hidden;
    up.y = tensors_.activated;
    device_->ops().linear->GeluForward(up);
    Multiply(block.down, rows, 4 * width, width, tensors_.activated,
             tensors_.branch);
  }
  if (last) {
    Norm(last_norm_, rows, add);
    Head(rows);
  }
  cached_.insert(cached_.end(), tokens.begin(), tokens.end());
}

void GptDecoder::Norm(const Affine& norm, int64_t rows, bool add) {
  LayerNormOps::ForwardArguments args;
  args.rows = rows;
  args.width = spec_.width();
  args.x = tensors_.stream;
  args.scale = Weight(norm.weight);
  args.shift = Weight(norm.bias);
  args.y = tensors_.normed;
  args.mean = tensors_.mean;
  args.inverse_deviation = tensors_.inverse_deviation;
  if (add) {
    args.branch = tensors_.branch;
    args.sum = tensors_.branch;
  }
  device_->ops().layer_norm->Forward(args);
  if (add) std::swap(tensors_.stream, tensors_.branch);
}

void GptDecoder::Multiply(const Affine& layer, int64_t rows, int64_t inputs,
                          int64_t outputs, const Real* x, Real* y) {
  device_->ops().linear->Forward({{rows, inputs, outputs},
                                  x,
                                  ProductWeight(layer.weight),
                                  Weight(layer.bias),
                                  y});
}

void GptDecoder::Head(int64_t rows) {
  const Real* const last =
      RealAt(*device_, tensors_.normed, (rows - 1) * spec_.width());
  device_->ops().linear->Forward({{1, spec_.width(), graph_.loss().width},
                                  last,
                                  ProductWeight(head_),
                                  tensors_.head_bias,
                                  tensors_.logits});
}

const float* GptDecoder::Weight(int parameter) const {
  return parameter < 0 ? nullptr
                       : weights_ + layout_.parameters()[parameter].offset;
}

const Real* GptDecoder::ProductWeight(int parameter) {
  return copies_.Get(device_, parameter, Weight(parameter));
}

}  // namespace tributary
