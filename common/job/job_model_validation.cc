#include "common/job/job_model_validation.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "common/base/field_checks.h"
#include "common/base/status_macros.h"
#include "common/job/job.h"
#include "common/job/job_checks.h"

namespace tributary {
namespace {

// job_checks.h explains the purpose of the limits.
constexpr int64_t kMaxChannels = int64_t{1} << 16;
constexpr int64_t kMaxWindow = 1024;
constexpr int kMaxLayers = 1000;
constexpr int kMaxStages = 8;
constexpr int64_t kMaxStageBlocks = 100;
// The limit on the arena's size.
constexpr int64_t kMaxSyntheticParameters = int64_t{1} << 33;
constexpr int64_t kMaxVocabulary = int64_t{1} << 19;
constexpr int64_t kMaxVocabularyMultiple = 1024;
constexpr double kMaxFloats = 0x1p50;
constexpr int64_t kMaxBertVocabulary = int64_t{1} << 20;
constexpr int64_t kMaxTokenTypes = 1024;
// Parameters are aligned to this number of floats. Only with such a width are
// the weights and biases of query, key and value contiguous (StackedLinear).
constexpr int64_t kWidthMultiple = 16;

// Returns the name of the model's field, such as "model.mlp".
std::string KindOf(const ModelSpec& model) {
  JobSpec job;
  *job.mutable_model() = model;
  return absl::StrCat("model.", ModelKind(job));
}

template <typename Widths>
absl::Status ValidateHidden(const std::string& path, const Widths& hidden) {
  if (hidden.size() > kMaxLayers) {
    return Error(path, "has ", hidden.size(), " layers, at most ", kMaxLayers,
                 " are allowed");
  }
  for (int i = 0; i < hidden.size(); ++i) {
    TRIBUTARY_RETURN_IF_ERROR(
        Between(absl::StrCat(path, "[", i, "]"), hidden.Get(i), 1, kMaxWidth));
  }
  return absl::OkStatus();
}

absl::Status ValidateMlp(const MlpSpec& mlp) {
  TRIBUTARY_RETURN_IF_ERROR(ValidateHidden("model.mlp.hidden", mlp.hidden()));
  return BelowOne("model.mlp.dropout", mlp.dropout());
}

absl::Status ValidateBlock(const std::string& path,
                           const CnnSpec::Block& block) {
  const auto at = [&](absl::string_view field) {
    return absl::StrCat(path, ".", field);
  };
  if (!block.has_channels()) return Required(at("channels"));
  TRIBUTARY_RETURN_IF_ERROR(
      Between(at("channels"), block.channels(), 1, kMaxChannels));
  TRIBUTARY_RETURN_IF_ERROR(
      Between(at("kernel"), block.kernel(), 1, kMaxWindow));
  TRIBUTARY_RETURN_IF_ERROR(
      Between(at("stride"), block.stride(), 1, kMaxWindow));
  if (block.padding() < -1 || block.padding() >= block.kernel()) {
    return Error(at("padding"), block.padding(),
                 " is not between 0 and kernel - 1 = ", block.kernel() - 1,
                 ", nor -1 for the default");
  }
  return Between(at("pool_size"), block.pool_size(), 1, kMaxWindow);
}

absl::Status ValidateCnn(const CnnSpec& cnn) {
  if (cnn.block_size() > kMaxLayers) {
    return Error("model.cnn.block", "there are ", cnn.block_size(),
                 " blocks, at most ", kMaxLayers, " are allowed");
  }
  for (int i = 0; i < cnn.block_size(); ++i) {
    TRIBUTARY_RETURN_IF_ERROR(
        ValidateBlock(absl::StrCat("model.cnn.block[", i, "]"), cnn.block(i)));
  }
  TRIBUTARY_RETURN_IF_ERROR(ValidateHidden("model.cnn.hidden", cnn.hidden()));
  return BelowOne("model.cnn.dropout", cnn.dropout());
}

absl::Status ValidateResnet(const ResnetSpec& resnet) {
  if (resnet.layers_size() > kMaxStages) {
    return Error("model.resnet.layers", "there are ", resnet.layers_size(),
                 " stages, at most ", kMaxStages, " are allowed");
  }
  for (int i = 0; i < resnet.layers_size(); ++i) {
    TRIBUTARY_RETURN_IF_ERROR(
        Between(absl::StrCat("model.resnet.layers[", i, "]"), resnet.layers(i),
                1, kMaxStageBlocks));
  }
  // The number of channels doubles with each stage.
  return Between("model.resnet.width", resnet.width(), 1,
                 kMaxChannels >> (kMaxStages - 1));
}

absl::Status ValidateGpt(const GptSpec& gpt) {
  TRIBUTARY_RETURN_IF_ERROR(
      Between("model.gpt.layers", gpt.layers(), 1, kMaxTransformerBlocks));
  // A block has a layer four times as wide.
  TRIBUTARY_RETURN_IF_ERROR(
      Between("model.gpt.width", gpt.width(), 1, kMaxWidth / 4));
  TRIBUTARY_RETURN_IF_ERROR(
      Between("model.gpt.heads", gpt.heads(), 1, gpt.width()));
  if (gpt.width() % gpt.heads() != 0) {
    return Error("model.gpt.heads", gpt.heads(),
                 " does not divide model.gpt.width ", gpt.width());
  }
  TRIBUTARY_RETURN_IF_ERROR(
      Between("model.gpt.context", gpt.context(), 1, kMaxContext));
  TRIBUTARY_RETURN_IF_ERROR(BelowOne("model.gpt.dropout", gpt.dropout()));
  TRIBUTARY_RETURN_IF_ERROR(
      Between("model.gpt.vocabulary", gpt.vocabulary(), 2, kMaxVocabulary));
  return Between("model.gpt.vocabulary_multiple", gpt.vocabulary_multiple(), 1,
                 kMaxVocabularyMultiple);
}

absl::Status ValidateBertSizes(const BertSpec& bert) {
  TRIBUTARY_RETURN_IF_ERROR(
      Between("model.bert.layers", bert.layers(), 1, kMaxTransformerBlocks));
  TRIBUTARY_RETURN_IF_ERROR(
      Between("model.bert.width", bert.width(), 1, kMaxWidth));
  if (bert.width() % kWidthMultiple != 0) {
    return Error("model.bert.width", bert.width(), " is not a multiple of ",
                 kWidthMultiple);
  }
  TRIBUTARY_RETURN_IF_ERROR(
      Between("model.bert.heads", bert.heads(), 1, bert.width()));
  if (bert.width() % bert.heads() != 0) {
    return Error("model.bert.heads", bert.heads(),
                 " does not divide model.bert.width ", bert.width());
  }
  TRIBUTARY_RETURN_IF_ERROR(
      Between("model.bert.intermediate", bert.intermediate(), 0, kMaxWidth));
  TRIBUTARY_RETURN_IF_ERROR(
      Between("model.bert.positions", bert.positions(), 1, kMaxContext));
  TRIBUTARY_RETURN_IF_ERROR(
      Between("model.bert.context", bert.context(), 2, bert.positions()));
  TRIBUTARY_RETURN_IF_ERROR(Between("model.bert.vocabulary", bert.vocabulary(),
                                    2, kMaxBertVocabulary));
  return Between("model.bert.token_types", bert.token_types(), 1,
                 kMaxTokenTypes);
}

absl::Status ValidateBert(const BertSpec& bert) {
  TRIBUTARY_RETURN_IF_ERROR(ValidateBertSizes(bert));
  TRIBUTARY_RETURN_IF_ERROR(BelowOne("model.bert.dropout", bert.dropout()));
  TRIBUTARY_RETURN_IF_ERROR(
      Positive("model.bert.layer_norm_epsilon", bert.layer_norm_epsilon()));
  TRIBUTARY_RETURN_IF_ERROR(
      Positive("model.bert.mask_probability", bert.mask_probability()));
  TRIBUTARY_RETURN_IF_ERROR(
      BelowOne("model.bert.mask_probability", bert.mask_probability()));
  if (bert.head() == BertSpec::SEQUENCE_CLASSIFICATION &&
      bert.has_mask_probability()) {
    return Error("model.bert.mask_probability",
                 "has no effect with head SEQUENCE_CLASSIFICATION; leave it "
                 "out");
  }
  return absl::OkStatus();
}

absl::Status ValidateExternalModel(const ExternalModelSpec& model) {
  TRIBUTARY_RETURN_IF_ERROR(
      ValidateExternalName("model.external.name", model.name()));
  return ValidateExternalConfig("model.external.config", model.config());
}

absl::Status ValidateSynthetic(const SyntheticSpec& synthetic) {
  if (!synthetic.has_parameters()) {
    return Required("model.synthetic.parameters");
  }
  return Between("model.synthetic.parameters", synthetic.parameters(), 1,
                 kMaxSyntheticParameters);
}

absl::Status ValidateDcn(const DcnV2Spec& dcn) {
  TRIBUTARY_RETURN_IF_ERROR(
      Between("model.dcn_v2.cross_layers", dcn.cross_layers(), 1, kMaxLayers));
  TRIBUTARY_RETURN_IF_ERROR(
      Between("model.dcn_v2.rank", dcn.rank(), 0, kMaxWidth));
  TRIBUTARY_RETURN_IF_ERROR(
      ValidateHidden("model.dcn_v2.hidden", dcn.hidden()));
  return BelowOne("model.dcn_v2.dropout", dcn.dropout());
}

absl::Status ValidateFactorization(const MatrixFactorizationSpec& model) {
  if (model.item_feature().empty()) {
    return Required("model.matrix_factorization.item_feature");
  }
  return ValidateHidden("model.matrix_factorization.hidden", model.hidden());
}

absl::Status ValidateLoss(const ModelSpec& model) {
  if (!ReadsFeatures(model)) {
    if (LossOfModel(model) != ModelSpec::BINARY_CROSS_ENTROPY) {
      return absl::OkStatus();
    }
    return Error("model.loss",
                 "BINARY_CROSS_ENTROPY works with model.dlrm, deepfm, dcn_v2, "
                 "wide_and_deep and matrix_factorization only; leave it out");
  }
  switch (LossOfModel(model)) {
    case ModelSpec::BINARY_CROSS_ENTROPY:
      return absl::OkStatus();
    case ModelSpec::MEAN_SQUARED_ERROR:
      if (model.has_matrix_factorization()) return absl::OkStatus();
      [[fallthrough]];
    default:
      return Error(
          "model.loss", ModelSpec::Loss_Name(LossOfModel(model)),
          " does not work with this model; set BINARY_CROSS_ENTROPY",
          model.has_matrix_factorization() ? " or MEAN_SQUARED_ERROR" : "");
  }
}

absl::Status ValidateLabelSmoothing(const ModelSpec& model) {
  TRIBUTARY_RETURN_IF_ERROR(
      BelowOne("model.label_smoothing", model.label_smoothing()));
  if (model.label_smoothing() == 0) return absl::OkStatus();
  if (model.loss() == ModelSpec::MEAN_SQUARED_ERROR) {
    return Error("model.label_smoothing",
                 "does not apply to model.loss MEAN_SQUARED_ERROR, whose "
                 "labels are numbers; leave it out");
  }
  if (ReadsFeatures(model)) {
    return Error("model.label_smoothing",
                 "does not apply to model.loss BINARY_CROSS_ENTROPY; leave it "
                 "out");
  }
  if (model.has_synthetic() || model.has_external()) {
    return Error("model.label_smoothing", "does not apply to model.",
                 model.has_synthetic() ? "synthetic, whose loss is 0"
                                       : "external, which computes the loss "
                                         "itself",
                 "; leave it out");
  }
  return absl::OkStatus();
}

absl::Status ValidateInitialWeights(const ModelSpec& model) {
  if (!model.has_initial_weights()) return absl::OkStatus();
  if (model.initial_weights().path().empty()) {
    return Required("model.initial_weights.path");
  }
  if (!model.has_synthetic()) return absl::OkStatus();
  return Error("model.initial_weights",
               "does not apply to model.synthetic, which does not learn; leave "
               "it out");
}

}  // namespace

absl::Status ValidateModel(const ModelSpec& model) {
  TRIBUTARY_RETURN_IF_ERROR(ValidateInitialWeights(model));
  TRIBUTARY_RETURN_IF_ERROR(ValidateLabelSmoothing(model));
  TRIBUTARY_RETURN_IF_ERROR(ValidateLoss(model));
  switch (model.kind_case()) {
    case ModelSpec::kMlp:
      return ValidateMlp(model.mlp());
    case ModelSpec::kCnn:
      return ValidateCnn(model.cnn());
    case ModelSpec::kResnet:
      return ValidateResnet(model.resnet());
    case ModelSpec::kGpt:
      return ValidateGpt(model.gpt());
    case ModelSpec::kBert:
      return ValidateBert(model.bert());
    case ModelSpec::kDlrm:
      TRIBUTARY_RETURN_IF_ERROR(
          ValidateHidden("model.dlrm.bottom", model.dlrm().bottom()));
      return ValidateHidden("model.dlrm.top", model.dlrm().top());
    case ModelSpec::kDeepfm:
      TRIBUTARY_RETURN_IF_ERROR(
          ValidateHidden("model.deepfm.hidden", model.deepfm().hidden()));
      return BelowOne("model.deepfm.dropout", model.deepfm().dropout());
    case ModelSpec::kDcnV2:
      return ValidateDcn(model.dcn_v2());
    case ModelSpec::kWideAndDeep:
      TRIBUTARY_RETURN_IF_ERROR(ValidateHidden("model.wide_and_deep.hidden",
                                               model.wide_and_deep().hidden()));
      return BelowOne("model.wide_and_deep.dropout",
                      model.wide_and_deep().dropout());
    case ModelSpec::kMatrixFactorization:
      return ValidateFactorization(model.matrix_factorization());
    case ModelSpec::kSynthetic:
      return ValidateSynthetic(model.synthetic());
    case ModelSpec::kExternal:
      return ValidateExternalModel(model.external());
    case ModelSpec::KIND_NOT_SET:
      return Error("model", "is required: set one of ",
                   absl::StrJoin(ModelKinds(), ", "));
    default:
      // The function that builds the model checks its fields.
      return absl::OkStatus();
  }
}

absl::Status ValidateFeatures(const ModelSpec& model,
                              const FeatureList& features) {
  const std::string name = KindOf(model);
  const std::vector<int64_t>& dims = features.dims;
  if (!ReadsFeatures(model)) {
    if (dims.empty() || model.has_external()) return absl::OkStatus();
    return Error("sparse.feature", name,
                 " reads no features; use model.dlrm, deepfm, dcn_v2, "
                 "wide_and_deep or matrix_factorization, or leave sparse out");
  }
  if (dims.empty()) {
    return Error(name, "reads features; set sparse.feature");
  }
  const bool towers = model.has_matrix_factorization() &&
                      !model.matrix_factorization().hidden().empty();
  const bool equal = model.has_dlrm() || model.has_deepfm() ||
                     (model.has_matrix_factorization() && !towers);
  const bool biased = model.has_deepfm() || model.has_matrix_factorization();
  for (size_t i = 0; i < dims.size(); ++i) {
    const std::string field = absl::StrCat("sparse.feature[", i, "].table");
    if (biased && dims[i] < 2) {
      return Error(field, "has dim ", dims[i], "; ", name,
                   " needs a table whose dim is at least 2");
    }
    if (equal && dims[i] != dims[0]) {
      return Error(field, "has dim ", dims[i], ", but that of sparse.feature",
                   "[0] has dim ", dims[0], "; ", name,
                   " needs tables of one dim");
    }
  }
  if (!model.has_matrix_factorization()) return absl::OkStatus();
  const std::string& item = model.matrix_factorization().item_feature();
  const auto found =
      std::find(features.names.begin(), features.names.end(), item);
  if (found == features.names.end() || found == features.names.begin()) {
    return Error("model.matrix_factorization.item_feature", "'", item,
                 "' must be the name of a sparse.feature other than the first");
  }
  return absl::OkStatus();
}

absl::Status ValidateModelFeatures(const JobSpec& job) {
  FeatureList features;
  for (const SparseFeatureSpec& feature : job.sparse().feature()) {
    const auto table = std::find_if(
        job.sparse().table().begin(), job.sparse().table().end(),
        [&](const SparseTableSpec& t) { return t.name() == feature.table(); });
    if (table == job.sparse().table().end()) return absl::OkStatus();
    features.names.push_back(feature.has_name() ? feature.name()
                                                : feature.column());
    features.dims.push_back(table->dim());
  }
  return ValidateFeatures(job.model(), features);
}

absl::Status ValidateModelMemory(const JobSpec& job) {
  if (!job.model().has_gpt()) return absl::OkStatus();
  const GptSpec& gpt = job.model().gpt();
  const int64_t samples =
      std::max(job.batch().global(), job.evaluation().batch());
  const double tokens = static_cast<double>(samples) * gpt.context();
  const double scores = tokens * gpt.context() * gpt.heads() * gpt.layers();
  const double activations =
      tokens * 16 * std::max<int64_t>(gpt.width(), 256) * gpt.layers();
  if (std::max(scores, activations) > kMaxFloats) {
    return Error("model.gpt.context", gpt.context(), " with a batch of ",
                 samples, " needs more memory than any machine has");
  }
  return absl::OkStatus();
}

}  // namespace tributary
