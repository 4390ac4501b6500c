#include "common/job/job_data_validation.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/field_checks.h"
#include "common/base/status_macros.h"
#include "common/job/job.h"
#include "common/job/job_checks.h"
#include "common/text/counted.h"

namespace tributary {
namespace {

using Paths = google::protobuf::RepeatedPtrField<std::string>;
using Numbers = google::protobuf::RepeatedField<double>;

// job_checks.h explains the purpose of the limits.
constexpr int64_t kMaxSamples = int64_t{1} << 40;
// Labels in IDX files are bytes.
constexpr int64_t kMaxIdxClasses = 256;
constexpr int64_t kByteValues = 256;
constexpr int64_t kMaxRandomElements = int64_t{1} << 28;
// A sample has at most 3 * 2^26 features.
constexpr int64_t kMaxSide = int64_t{1} << 13;
constexpr double kMaxRatio = 100;

bool TakesImages(const ModelSpec& model) {
  return model.has_cnn() || model.has_resnet();
}

absl::Status ValidateIdx(const IdxSpec& idx) {
  if (idx.directory().empty()) return Required("data.idx.directory");
  TRIBUTARY_RETURN_IF_ERROR(
      Between("data.idx.classes", idx.classes(), 2, kMaxIdxClasses));
  if (std::abs(idx.mean()) > kMaxScale) {
    return Error("data.idx.mean", idx.mean(), " is not between ", -kMaxScale,
                 " and ", kMaxScale);
  }
  if (idx.deviation() < 1 / kMaxScale) {
    return Error("data.idx.deviation", idx.deviation(), " is not at least ",
                 1 / kMaxScale);
  }
  return Positive("data.idx.deviation", idx.deviation());
}

absl::Status ValidateCsv(const CsvSpec& csv) {
  if (csv.train().empty()) return Required("data.csv.train");
  if (csv.has_test() && csv.test().empty()) {
    return Error("data.csv.test", "is empty; leave it out for no evaluation");
  }
  constexpr absl::string_view kReserved = "\" #.+-";
  const char delimiter =
      csv.delimiter().size() == 1 ? csv.delimiter()[0] : '\0';
  if (absl::ascii_isalnum(delimiter) ||
      (absl::ascii_iscntrl(delimiter) && delimiter != '\t') ||
      kReserved.find(delimiter) != absl::string_view::npos) {
    return Error("data.csv.delimiter",
                 "must be one character, such as \",\", "
                 "\";\" or \"\\t\", that is not part of numbers or comments");
  }
  if (std::count(csv.ignored_column().begin(), csv.ignored_column().end(),
                 csv.label_column()) > 0) {
    return Error("data.csv.ignored_column", csv.label_column(),
                 " is data.csv.label_column, which must be read; leave it out");
  }
  if (csv.classes() == 0) return absl::OkStatus();
  return Between("data.csv.classes", csv.classes(), 2, kMaxClasses);
}

absl::Status ValidateText(const TextSpec& text) {
  if (text.path().empty()) return Required("data.text.path");
  for (int i = 0; i < text.path_size(); ++i) {
    if (text.path(i).empty()) {
      return Error(absl::StrCat("data.text.path[", i, "]"), "is empty");
    }
  }
  if (text.validation_fraction() <= 0 || text.validation_fraction() >= 1) {
    return Error("data.text.validation_fraction", text.validation_fraction(),
                 " is not above 0 and below 1");
  }
  return absl::OkStatus();
}

absl::Status ValidateTokens(const TokensSpec& tokens) {
  if (tokens.path().empty()) return Required("data.tokens.path");
  if (tokens.has_validation_fraction() && !tokens.validation_path().empty()) {
    return Error("data.tokens.validation_fraction",
                 "has no effect with data.tokens.validation_path; leave one "
                 "of them out");
  }
  if (tokens.validation_fraction() <= 0 || tokens.validation_fraction() >= 1) {
    return Error("data.tokens.validation_fraction",
                 tokens.validation_fraction(), " is not above 0 and below 1");
  }
  return absl::OkStatus();
}

absl::Status ValidateLabeledText(const LabeledTextSpec& text) {
  if (text.train().empty()) return Required("data.labeled_text.train");
  if (text.has_test() && text.test().empty()) {
    return Error("data.labeled_text.test",
                 "is empty; leave it out for no evaluation");
  }
  if (text.tokenizer().empty()) return Required("data.labeled_text.tokenizer");
  if (text.has_second_text_column() && text.second_text_column().empty()) {
    return Error("data.labeled_text.second_text_column",
                 "is empty; leave it out if there are no pairs of texts");
  }
  const auto& first = text.text_column();
  const auto& second = text.second_text_column();
  const auto& label = text.label_column();
  if (first.empty()) return Required("data.labeled_text.text_column");
  if (label.empty()) return Required("data.labeled_text.label_column");
  if (first == second || first == label || second == label) {
    return Error("data.labeled_text",
                 "text_column, second_text_column and label_column must name "
                 "different columns");
  }
  return absl::OkStatus();
}

absl::Status ValidatePaths(const std::string& field, const Paths& paths) {
  for (int i = 0; i < paths.size(); ++i) {
    if (paths.Get(i).empty()) {
      return Error(absl::StrCat(field, "[", i, "]"), "is empty");
    }
  }
  return absl::OkStatus();
}

absl::Status ValidateCriteo(const CriteoSpec& criteo) {
  if (criteo.train().empty()) return Required("data.criteo.train");
  TRIBUTARY_RETURN_IF_ERROR(ValidatePaths("data.criteo.train", criteo.train()));
  return ValidatePaths("data.criteo.test", criteo.test());
}

absl::Status ValidateClicks(const ClicksSpec& clicks) {
  constexpr double kMaxExponent = 4;
  TRIBUTARY_RETURN_IF_ERROR(
      Between("data.clicks.samples", clicks.samples(), 1, kMaxSamples));
  TRIBUTARY_RETURN_IF_ERROR(Between("data.clicks.evaluation_samples",
                                    clicks.evaluation_samples(), 0,
                                    kMaxSamples));
  if (!(clicks.scale() > 0 && clicks.scale() <= 1)) {
    return Error("data.clicks.scale", clicks.scale(),
                 " is not above 0 and at most 1");
  }
  if (clicks.exponent() >= 0 && clicks.exponent() <= kMaxExponent) {
    return absl::OkStatus();
  }
  return Error("data.clicks.exponent", clicks.exponent(),
               " is not between 0 and ", kMaxExponent);
}

// Limits a sample to 2^28 elements: an image of 1,024 x 1,024 pixels with 256
// channels.
absl::Status ValidateRandom(const JobSpec& job) {
  const RandomSpec& random = job.data().random();
  TRIBUTARY_RETURN_IF_ERROR(
      Between("data.random.samples", random.samples(), 1, kMaxBatch));
  if (PredictsTokens(job) || job.model().has_synthetic()) {
    return absl::OkStatus();
  }
  TRIBUTARY_RETURN_IF_ERROR(
      Between("data.random.classes", random.classes(), 2, kMaxClasses));
  if (job.model().has_bert()) return absl::OkStatus();
  if (random.shape().empty()) return Required("data.random.shape");
  if (random.shape_size() > 3 ||
      (TakesImages(job.model()) && random.shape_size() != 3)) {
    return Error("data.random.shape", "has ",
                 Counted(random.shape_size(), "dimension"),
                 "; write [features], or [channels, height, width] "
                 "for model.cnn and model.resnet");
  }
  int64_t elements = 1;
  for (int i = 0; i < random.shape_size(); ++i) {
    TRIBUTARY_RETURN_IF_ERROR(
        Between(absl::StrCat("data.random.shape[", i, "]"), random.shape(i), 1,
                kMaxWidth));
    elements *= random.shape(i);
    if (elements > kMaxRandomElements) {
      return Error("data.random.shape", "a sample has more than ",
                   kMaxRandomElements, " elements");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckPicturePaths(const std::string& field, const Paths& paths) {
  for (int i = 0; i < paths.size(); ++i) {
    if (paths[i].empty()) {
      return Error(absl::StrCat(field, "[", i, "]"), "is empty");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckPictureSizes(const ImagesSpec& images) {
  TRIBUTARY_RETURN_IF_ERROR(
      Between("data.images.height", images.height(), 0, kMaxSide));
  TRIBUTARY_RETURN_IF_ERROR(
      Between("data.images.width", images.width(), 0, kMaxSide));
  TRIBUTARY_RETURN_IF_ERROR(
      Between("data.images.resize", images.resize(), 0, kMaxSide));
  if ((images.height() == 0) != (images.width() == 0)) {
    return Error("data.images.height",
                 "set both height and width, or neither of them");
  }
  if (images.resize() == 0) return absl::OkStatus();
  if (images.height() == 0) {
    return Error("data.images.resize", "needs data.images.height and width");
  }
  if (images.resize() < images.height() || images.resize() < images.width()) {
    return Error("data.images.resize", images.resize(),
                 " is less than height or width, so that the model's picture ",
                 "cannot be cut out");
  }
  return absl::OkStatus();
}

absl::Status CheckCount(const std::string& field, const Numbers& values,
                        int64_t channels) {
  if (values.size() <= 1 || values.size() == channels) return absl::OkStatus();
  return Error(field, "has ", values.size(), " numbers; write one, or one for ",
               "each of the ", channels, " channels");
}

absl::Status CheckPixels(const ImagesSpec& images) {
  if (images.channels() != 1 && images.channels() != 3) {
    return Error("data.images.channels", images.channels(),
                 " is neither 3 (color) nor 1 (gray)");
  }
  TRIBUTARY_RETURN_IF_ERROR(
      CheckCount("data.images.mean", images.mean(), images.channels()));
  TRIBUTARY_RETURN_IF_ERROR(CheckCount("data.images.deviation",
                                       images.deviation(), images.channels()));
  for (const double mean : images.mean()) {
    if (!(std::abs(mean) <= kMaxScale)) {
      return Error("data.images.mean", mean, " is not between ", -kMaxScale,
                   " and ", kMaxScale);
    }
  }
  for (const double deviation : images.deviation()) {
    if (!(deviation >= 1 / kMaxScale && deviation <= kMaxScale)) {
      return Error("data.images.deviation", deviation, " is not between ",
                   1 / kMaxScale, " and ", kMaxScale);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckCropRange(const std::string& field, double least, double most,
                            double lowest, double highest) {
  if (least >= lowest && least > 0 && least <= most && most <= highest) {
    return absl::OkStatus();
  }
  return Error(field, "the range from ", least, " to ", most,
               " is invalid; it must be above 0, at least ", lowest,
               ", at most ", highest, ", and not empty");
}

absl::Status CheckAugmentation(const AugmentationSpec& augmentation) {
  const std::string prefix = "data.images.augmentation.";
  const double flip = augmentation.flip_probability();
  if (!(flip >= 0 && flip <= 1)) {
    return Error(absl::StrCat(prefix, "flip_probability"), flip,
                 " is not between 0 and 1");
  }
  TRIBUTARY_RETURN_IF_ERROR(Between(absl::StrCat(prefix, "crop_padding"),
                                    augmentation.crop_padding(), 0, kMaxSide));
  if (!augmentation.has_resized_crop()) return absl::OkStatus();
  if (augmentation.crop_padding() != 0) {
    return Error(absl::StrCat(prefix, "crop_padding"),
                 "has no effect with resized_crop; set one of them");
  }
  const AugmentationSpec::ResizedCrop& crop = augmentation.resized_crop();
  TRIBUTARY_RETURN_IF_ERROR(
      CheckCropRange(absl::StrCat(prefix, "resized_crop.min_area"),
                     crop.min_area(), crop.max_area(), 0, 1));
  return CheckCropRange(absl::StrCat(prefix, "resized_crop.min_ratio"),
                        crop.min_ratio(), crop.max_ratio(), 1 / kMaxRatio,
                        kMaxRatio);
}

absl::Status ValidateImages(const ImagesSpec& images) {
  if (images.train().empty()) return Required("data.images.train");
  TRIBUTARY_RETURN_IF_ERROR(
      CheckPicturePaths("data.images.train", images.train()));
  TRIBUTARY_RETURN_IF_ERROR(
      CheckPicturePaths("data.images.test", images.test()));
  TRIBUTARY_RETURN_IF_ERROR(CheckPictureSizes(images));
  TRIBUTARY_RETURN_IF_ERROR(CheckPixels(images));
  if (images.classes() != 0) {
    TRIBUTARY_RETURN_IF_ERROR(
        Between("data.images.classes", images.classes(), 2, kMaxClasses));
  }
  return CheckAugmentation(images.augmentation());
}

// Checks the fields that describe samples which are only indexes.
absl::Status ValidateIndexes(const JobSpec& job) {
  const ExternalDataSpec& data = job.data().external();
  if (data.has_config()) {
    return Error("data.external.config",
                 "has no effect without data.external.name, the data set that "
                 "would read it; leave it out");
  }
  if (!job.model().has_external()) {
    return Error("data.external.name", "is required for model.", ModelKind(job),
                 ", which computes from samples, not from their indexes");
  }
  if (!data.has_train_samples()) return Required("data.external.train_samples");
  return absl::OkStatus();
}

absl::Status ValidateExternalData(const JobSpec& job) {
  const ExternalDataSpec& data = job.data().external();
  if (data.has_name()) {
    TRIBUTARY_RETURN_IF_ERROR(
        ValidateExternalName("data.external.name", data.name()));
    TRIBUTARY_RETURN_IF_ERROR(
        ValidateExternalConfig("data.external.config", data.config()));
  } else {
    TRIBUTARY_RETURN_IF_ERROR(ValidateIndexes(job));
  }
  if (data.has_train_samples()) {
    TRIBUTARY_RETURN_IF_ERROR(Between("data.external.train_samples",
                                      data.train_samples(), 1, kMaxSamples));
  }
  TRIBUTARY_RETURN_IF_ERROR(Between("data.external.evaluation_samples",
                                    data.evaluation_samples(), 0, kMaxSamples));
  TRIBUTARY_RETURN_IF_ERROR(
      ValidateExternalName("data.external.unit", data.unit()));
  TRIBUTARY_RETURN_IF_ERROR(Between("data.external.units_per_sample",
                                    data.units_per_sample(), 1, kMaxWidth));
  if (job.model().has_gpt() && data.has_units_per_sample() &&
      data.units_per_sample() != job.model().gpt().context()) {
    return Error("data.external.units_per_sample", data.units_per_sample(),
                 " is not model.gpt.context ", job.model().gpt().context(),
                 ", the tokens of a sample; leave it out");
  }
  return absl::OkStatus();
}

absl::Status ValidateBertData(const JobSpec& job) {
  const DataSpec& data = job.data();
  if (data.has_external() && job.model().bert().has_mask_probability()) {
    return Error("model.bert.mask_probability",
                 "does not apply to data.external, whose data set chooses the "
                 "predicted tokens; leave it out");
  }
  if (data.has_random() || data.has_external()) return absl::OkStatus();
  const bool classifies =
      job.model().bert().head() == BertSpec::SEQUENCE_CLASSIFICATION;
  if (data.has_labeled_text()) {
    if (classifies) return absl::OkStatus();
    return Error("model.bert.head",
                 "is MASKED_LANGUAGE_MODEL, but data.labeled_text has classes; "
                 "set it to SEQUENCE_CLASSIFICATION");
  }
  if (!data.has_text() && !data.has_tokens()) {
    return Error("data",
                 "model.bert reads data.text, data.tokens, data.labeled_text, "
                 "data.random, or a data set that the workers' program "
                 "registers (data.external)");
  }
  if (classifies) {
    return Error("model.bert.head",
                 "is SEQUENCE_CLASSIFICATION, which needs texts with labels; "
                 "set data.labeled_text, or set the head to "
                 "MASKED_LANGUAGE_MODEL");
  }
  if (data.text().tokenizer().empty() && data.tokens().tokenizer().empty()) {
    return Error(
        data.has_text() ? "data.text.tokenizer" : "data.tokens.tokenizer",
        "is required with model.bert: name a WordPiece tokenizer, such as "
        "vocab.txt, tokenizer.json or a folder of Hugging Face");
  }
  return absl::OkStatus();
}

// Checks that data, model and loss fit together.
absl::Status ValidateDataFitModel(const JobSpec& job) {
  const DataSpec& data = job.data();
  if (job.model().has_bert()) {
    TRIBUTARY_RETURN_IF_ERROR(ValidateBertData(job));
  }
  if (job.model().has_gpt() && !data.has_text() && !data.has_random() &&
      !data.has_external() && !data.has_tokens()) {
    return Error("data",
                 "model.gpt needs text data; set data.text or data.tokens");
  }
  const bool reads_text = job.model().has_gpt() || job.model().has_bert();
  if (data.has_tokens() && !reads_text) {
    return Error("data.tokens", "model.", ModelKind(job),
                 " cannot read tokens; use model.gpt or model.bert");
  }
  if (data.has_labeled_text() && !job.model().has_bert()) {
    return Error("data.labeled_text", "model.", ModelKind(job),
                 " cannot read texts with labels; use model.bert with head "
                 "SEQUENCE_CLASSIFICATION");
  }
  const bool ids = data.has_tokens() || data.text().has_tokenizer();
  if (job.model().has_gpt() && ids && !job.model().gpt().has_vocabulary() &&
      !job.model().gpt().has_preset()) {
    return Error("model.gpt.vocabulary", "is required with ",
                 data.has_tokens() ? "data.tokens" : "data.text.tokenizer",
                 ": set it to the number of tokens of the tokenizer, such as "
                 "50257 for GPT-2's");
  }
  if (job.model().has_gpt() && data.has_text() && !ids &&
      job.model().gpt().vocabulary() != kByteValues) {
    return Error("model.gpt.vocabulary", job.model().gpt().vocabulary(),
                 " tokens, but those of data.text are the ", kByteValues,
                 " byte values; ",
                 job.model().gpt().preset() == GptSpec::PRESET_UNSPECIFIED
                     ? "leave it out, or set data.text.tokenizer"
                     : "set data.text.tokenizer, or set it to 256");
  }
  if (TakesImages(job.model()) && !data.has_idx() && !data.has_images() &&
      !data.has_random() && !data.has_external()) {
    return Error("data", "model.", ModelKind(job),
                 " needs images; set data.images or data.idx");
  }
  if (!reads_text && !job.model().has_synthetic() && data.has_text()) {
    return Error("data.text", "model.", ModelKind(job),
                 " cannot read text; use model.gpt or model.bert");
  }
  if (job.model().has_synthetic() && !data.has_random()) {
    return Error("data", "model.synthetic reads no data; set data.random={}");
  }
  if (job.model().loss() == ModelSpec::MEAN_SQUARED_ERROR) {
    if (!data.has_csv() && !data.has_external()) {
      return Error("model.loss",
                   "MEAN_SQUARED_ERROR needs data.csv or data.external");
    }
    if (data.csv().classes() != 0) {
      return Error("data.csv.classes",
                   "there are no classes with MEAN_SQUARED_ERROR; leave it "
                   "out");
    }
  }
  if (job.model().loss() == ModelSpec::BINARY_CROSS_ENTROPY &&
      data.csv().classes() != 0) {
    return Error("data.csv.classes",
                 "labels are 0 and 1 with BINARY_CROSS_ENTROPY; leave it out");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateData(const JobSpec& job) {
  absl::Status status;
  switch (job.data().source_case()) {
    case DataSpec::kIdx:
      status = ValidateIdx(job.data().idx());
      break;
    case DataSpec::kCsv:
      status = ValidateCsv(job.data().csv());
      break;
    case DataSpec::kText:
      status = ValidateText(job.data().text());
      break;
    case DataSpec::kRandom:
      status = ValidateRandom(job);
      break;
    case DataSpec::kExternal:
      status = ValidateExternalData(job);
      break;
    case DataSpec::kTokens:
      status = ValidateTokens(job.data().tokens());
      break;
    case DataSpec::kImages:
      status = ValidateImages(job.data().images());
      break;
    case DataSpec::kLabeledText:
      status = ValidateLabeledText(job.data().labeled_text());
      break;
    case DataSpec::kCriteo:
      status = ValidateCriteo(job.data().criteo());
      break;
    case DataSpec::kClicks:
      status = ValidateClicks(job.data().clicks());
      break;
    case DataSpec::SOURCE_NOT_SET:
      return Error("data",
                   "is required: set idx, csv, text, tokens, labeled_text, "
                   "images, random, criteo, clicks or external");
  }
  TRIBUTARY_RETURN_IF_ERROR(status);
  return ValidateDataFitModel(job);
}

}  // namespace tributary
