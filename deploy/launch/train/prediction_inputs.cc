#include "deploy/launch/train/prediction_inputs.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/text/counted.h"
#include "common/tokenizer/tokenizer.h"
#include "common/tokenizer/tokenizer_files.h"
#include "server/checkpoint/final_folder.h"
#include "worker/data/files/data_file.h"
#include "worker/data/formats/csv_encoding.h"
#include "worker/data/formats/csv_format.h"
#include "worker/data/formats/idx_format.h"
#include "worker/data/idx_data_set.h"
#include "worker/data/images/encoded_pictures.h"
#include "worker/data/images/open_pictures.h"
#include "worker/data/images/picture_encoding.h"
#include "worker/data/images/picture_transform.h"
#include "worker/data/text/labeled_texts.h"
#include "worker/data/text/sequence_encoder.h"
#include "worker/data/text/text_encoding.h"

namespace tributary {
namespace {

// Samples in memory.
class FeatureInputs final : public PredictionInputs {
 public:
  // `features` has `samples` samples of the shape of `info`.
  FeatureInputs(DataInfo info, int64_t samples, std::vector<float> features,
                std::vector<std::string> classes)
      : info_(std::move(info)),
        samples_(samples),
        features_(std::move(features)),
        classes_(std::move(classes)) {}

  int64_t samples() const override { return samples_; }
  DataInfo info() const override { return info_; }
  std::vector<std::string> classes() const override { return classes_; }

  absl::Status Read(int64_t begin, int64_t end, Batch* batch) const override {
    const int64_t width = static_cast<int64_t>(features_.size()) / samples_;
    *batch = Batch();
    batch->samples = end - begin;
    batch->features.assign(features_.begin() + begin * width,
                           features_.begin() + end * width);
    return absl::OkStatus();
  }

 private:
  const DataInfo info_;
  const int64_t samples_;
  const std::vector<float> features_;
  const std::vector<std::string> classes_;
};

absl::Status WrongColumns(const std::string& path, int64_t columns,
                          int64_t expected) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": ", Counted(columns, "column"), "; the model needs ",
                   expected, ", or ", expected + 1, " with the label"));
}

// Reads the file as the training data were read.
absl::StatusOr<CsvTable> ReadEncodedTable(const CsvEncoding& encoding,
                                          CsvOptions options,
                                          const std::string& bytes,
                                          const std::string& path,
                                          int64_t features) {
  if (encoding.features() != features) {
    return absl::DataLossError(
        absl::StrCat("the final model has ", features, " inputs, but its ",
                     kEncodingName, " describes ", encoding.features()));
  }
  const int64_t columns = CountCsvColumns(bytes, options.delimiter);
  const bool labeled = columns == encoding.columns();
  if (!labeled && columns != encoding.columns() - 1) {
    return WrongColumns(path, columns, encoding.columns() - 1);
  }
  options.labeled = labeled;
  options.label_column = static_cast<int32_t>(encoding.label());
  options.category_columns = encoding.CategoryColumns(labeled);
  options.ignored_columns = encoding.LeftOutColumns(labeled);
  options.log_transform = encoding.log_transform();
  // Accepts any number as a label, which is not used.
  options.regression = true;
  TRIBUTARY_ASSIGN_OR_RETURN(CsvTable table, ParseCsv(bytes, options, path));
  TRIBUTARY_RETURN_IF_ERROR(encoding.Encode(path, &table));
  return table;
}

// Reads a file of numbers, with or without the label.
absl::StatusOr<CsvTable> ReadNumbers(int64_t label_column, CsvOptions options,
                                     const std::string& bytes,
                                     const std::string& path,
                                     int64_t features) {
  options.labeled = false;
  TRIBUTARY_ASSIGN_OR_RETURN(CsvTable table, ParseCsv(bytes, options, path));
  if (table.features == features) return table;
  if (table.features != features + 1) {
    return WrongColumns(path, table.features, features);
  }
  const int64_t label =
      label_column < 0 ? table.features + label_column : label_column;
  std::vector<float> cells;
  for (int64_t row = 0; row < table.rows; ++row) {
    for (int64_t i = 0; i < table.features; ++i) {
      if (i != label) cells.push_back(table.cells[row * table.features + i]);
    }
  }
  table.cells = std::move(cells);
  return table;
}

absl::StatusOr<std::unique_ptr<PredictionInputs>> OpenTable(
    const CsvSpec& spec, const std::string& stored, const std::string& path,
    int64_t features) {
  std::string bytes;
  TRIBUTARY_RETURN_IF_ERROR(
      AppendLines(path, kMaxDataBytes, kMaxCsvLineBytes, &bytes));
  CsvOptions options;
  options.delimiter = spec.delimiter()[0];
  DataInfo info;
  info.sample_shape = {features};
  if (stored.empty()) {
    TRIBUTARY_ASSIGN_OR_RETURN(
        CsvTable table,
        ReadNumbers(spec.label_column(), options, bytes, path, features));
    return std::make_unique<FeatureInputs>(std::move(info), table.rows,
                                           std::move(table.cells),
                                           std::vector<std::string>());
  }
  TRIBUTARY_ASSIGN_OR_RETURN(const CsvEncoding encoding,
                             CsvEncoding::FromJson(stored));
  TRIBUTARY_ASSIGN_OR_RETURN(
      CsvTable table,
      ReadEncodedTable(encoding, options, bytes, path, features));
  return std::make_unique<FeatureInputs>(
      std::move(info), table.rows, std::move(table.cells), encoding.classes());
}

absl::StatusOr<std::unique_ptr<PredictionInputs>> OpenIdx(
    const IdxSpec& spec, const std::string& path) {
  std::string bytes;
  TRIBUTARY_RETURN_IF_ERROR(AppendWholeFile(path, kMaxDataBytes, &bytes));
  TRIBUTARY_ASSIGN_OR_RETURN(const IdxImages images,
                             ParseIdxImages(bytes, path));
  DataInfo info;
  info.kind = DataInfo::Kind::kImages;
  info.sample_shape = {1, images.height, images.width};
  const std::array<float, 256> scaled = ScaledPixels(spec);
  std::vector<float> features;
  features.reserve(images.pixels.size());
  for (const char pixel : images.pixels) {
    features.push_back(scaled[static_cast<unsigned char>(pixel)]);
  }
  return std::make_unique<FeatureInputs>(std::move(info), images.count,
                                         std::move(features),
                                         std::vector<std::string>());
}

// Pictures, which are decoded when they are read.
class PictureInputs final : public PredictionInputs {
 public:
  PictureInputs(const ImagesSpec& spec, PictureEncoding encoding,
                std::unique_ptr<PictureSource> source)
      : spec_(spec),
        encoding_(std::move(encoding)),
        source_(std::move(source)),
        transform_(spec, encoding_.height, encoding_.width, /*seed=*/0) {}

  int64_t samples() const override { return source_->size(); }
  DataInfo info() const override {
    DataInfo info;
    info.kind = DataInfo::Kind::kImages;
    info.sample_shape = {spec_.channels(), encoding_.height, encoding_.width};
    return info;
  }
  std::vector<std::string> classes() const override {
    return encoding_.classes;
  }
  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    const auto* const files = dynamic_cast<EncodedPictures*>(source_.get());
    if (files == nullptr) return names;
    for (const EncodedPicture& picture : files->pictures()) {
      names.push_back(picture.file_name);
    }
    return names;
  }

  absl::Status Read(int64_t begin, int64_t end, Batch* batch) const override {
    const int64_t pixels =
        spec_.channels() * encoding_.height * encoding_.width;
    *batch = Batch();
    batch->samples = end - begin;
    batch->features.resize(static_cast<size_t>((end - begin) * pixels));
    for (int64_t i = begin; i < end; ++i) {
      TRIBUTARY_ASSIGN_OR_RETURN(const Picture picture, source_->Read(i));
      TRIBUTARY_RETURN_IF_ERROR(Check(picture, i));
      transform_.HeldOut(picture,
                         batch->features.data() + (i - begin) * pixels);
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Check(const Picture& picture, int64_t index) const {
    absl::Status status = transform_.Check(picture.height, picture.width);
    // Without the fields, training refuses pictures of different sizes.
    if (status.ok() && spec_.height() == 0 &&
        (picture.height != encoding_.height ||
         picture.width != encoding_.width)) {
      status = absl::InvalidArgumentError(
          absl::StrCat("has ", picture.height, " x ", picture.width,
                       " pixels, but the model was trained with pictures of ",
                       encoding_.height, " x ", encoding_.width));
    }
    if (status.ok()) return status;
    return absl::InvalidArgumentError(
        absl::StrCat(source_->Name(index), ": ", status.message()));
  }

  const ImagesSpec spec_;
  const PictureEncoding encoding_;
  const std::unique_ptr<PictureSource> source_;
  const PictureTransform transform_;
};

absl::StatusOr<std::unique_ptr<PredictionInputs>> OpenPictureInputs(
    const ImagesSpec& spec, const std::string& stored,
    const std::string& path) {
  PictureEncoding encoding;
  if (!stored.empty()) {
    TRIBUTARY_ASSIGN_OR_RETURN(encoding, PictureEncoding::FromJson(stored));
  } else if (spec.height() == 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the run has no ", kEncodingName,
        ", which contains the size of the model's pictures; it was trained by "
        "an older release"));
  }
  if (spec.height() != 0) {
    encoding.height = spec.height();
    encoding.width = spec.width();
  }
  TRIBUTARY_ASSIGN_OR_RETURN(
      std::unique_ptr<PictureSource> source,
      OpenUnlabeledPictures(
          path, spec.channels(),
          [](const std::string& file, std::string* bytes) {
            return AppendWholeFile(file, kMaxDataBytes, bytes);
          },
          spec.format()));
  return std::make_unique<PictureInputs>(spec, std::move(encoding),
                                         std::move(source));
}

// Texts, as sequences of tokens.
class TextInputs final : public PredictionInputs {
 public:
  // `filler` is the token that follows the end of a sequence.
  TextInputs(DataInfo info, Sequences sequences, int32_t filler,
             std::vector<std::string> classes)
      : info_(std::move(info)),
        sequences_(std::move(sequences)),
        filler_(filler),
        classes_(std::move(classes)) {}

  int64_t samples() const override { return sequences_.size(); }
  DataInfo info() const override { return info_; }
  std::vector<std::string> classes() const override { return classes_; }

  absl::Status Read(int64_t begin, int64_t end, Batch* batch) const override {
    const int64_t context = info_.sample_shape[0];
    const int64_t count = end - begin;
    *batch = Batch();
    batch->samples = count;
    batch->tokens.resize(static_cast<size_t>(count * context));
    batch->token_types.resize(static_cast<size_t>(count * context));
    for (int64_t i = 0; i < count; ++i) {
      batch->lengths.push_back(sequences_.Copy(
          begin + i, context, filler_, batch->tokens.data() + i * context,
          batch->token_types.data() + i * context));
    }
    // The model checks that there is one for each sample, and does not use it.
    batch->labels.assign(static_cast<size_t>(count), 0);
    return absl::OkStatus();
  }

 private:
  const DataInfo info_;
  const Sequences sequences_;
  const int32_t filler_;
  const std::vector<std::string> classes_;
};

absl::StatusOr<std::unique_ptr<PredictionInputs>> OpenTexts(
    const BertSpec& bert, const LabeledTextSpec& spec,
    const std::string& stored, const std::string& path) {
  if (stored.empty()) {
    return absl::NotFoundError(
        absl::StrCat("the run has no ", kEncodingName,
                     ", which contains the tokenizer and the classes' names"));
  }
  TRIBUTARY_ASSIGN_OR_RETURN(TextEncoding encoding,
                             TextEncoding::FromJson(stored));
  TRIBUTARY_ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer,
                             ParseTokenizerJson(encoding.tokenizer_json));
  TRIBUTARY_ASSIGN_OR_RETURN(
      const SequenceEncoder encoder,
      SequenceEncoder::Create(std::move(tokenizer),
                              "data.labeled_text.tokenizer",
                              {"model.bert", bert.context(), bert.vocabulary()},
                              spec.has_second_text_column()));
  TRIBUTARY_ASSIGN_OR_RETURN(const LabeledTexts texts,
                             ReadTextsToPredict(spec, path));
  TRIBUTARY_ASSIGN_OR_RETURN(Sequences sequences, encoder.Encode(texts));
  DataInfo info;
  info.kind = DataInfo::Kind::kSequences;
  info.sample_shape = {bert.context()};
  info.vocabulary = encoder.vocabulary();
  info.token_types = spec.has_second_text_column() ? 2 : 1;
  return std::make_unique<TextInputs>(std::move(info), std::move(sequences),
                                      encoder.special().filler(),
                                      std::move(encoding.classes));
}

}  // namespace

absl::StatusOr<std::unique_ptr<PredictionInputs>> OpenPredictionInputs(
    const JobSpec& job, const std::string& encoding, const std::string& path,
    int64_t features) {
  if (job.model().has_bert() && !job.data().has_labeled_text()) {
    return absl::InvalidArgumentError(
        "predict needs a classifier: a job whose data are data.labeled_text; "
        "`tributary evaluate` evaluates a masked language model");
  }
  if (job.has_sparse()) {
    return absl::InvalidArgumentError(
        "--data: predictions of other samples are not supported yet for models "
        "with sparse tables; leave it out to predict the held-out samples");
  }
  switch (job.data().source_case()) {
    case DataSpec::kCsv:
      return OpenTable(job.data().csv(), encoding, path, features);
    case DataSpec::kIdx:
      return OpenIdx(job.data().idx(), path);
    case DataSpec::kImages:
      return OpenPictureInputs(job.data().images(), encoding, path);
    case DataSpec::kLabeledText:
      return OpenTexts(job.model().bert(), job.data().labeled_text(), encoding,
                       path);
    case DataSpec::kExternal:
      return absl::InvalidArgumentError(absl::StrCat(
          "--data: the samples of the run are those of the data set \"",
          job.data().external().name(),
          "\" of a program; leave out --data to predict its held-out samples, "
          "or others with --set data.external.config=..."));
    default:
      return absl::InvalidArgumentError(
          "predict needs a job whose data are data.csv, data.idx, data.images "
          "or data.labeled_text; `tributary sample` generates text with gpt "
          "models");
  }
}

}  // namespace tributary
