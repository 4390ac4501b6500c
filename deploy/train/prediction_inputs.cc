#include "deploy/train/prediction_inputs.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/text/counted.h"
#include "common/tokenizer/tokenizer.h"
#include "common/tokenizer/tokenizer_files.h"
#include "deploy/flags/run_files.h"
#include "server/checkpoint/final_folder.h"
#include "worker/data/files/data_file.h"
#include "worker/data/formats/csv_encoding.h"
#include "worker/data/formats/csv_format.h"
#include "worker/data/formats/idx_format.h"
#include "worker/data/idx_data_set.h"
#include "worker/data/text/labeled_texts.h"
#include "worker/data/text/text_encoding.h"

namespace tributary {
namespace {

absl::Status WrongColumns(const std::string& path, int64_t columns,
                          int64_t expected) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": ", Counted(columns, "column"), "; the model needs ",
                   expected, ", or ", expected + 1, " with the label"));
}

// Reads the file as the training data were read, with the encoding that is
// stored with the model.
absl::StatusOr<PredictionInputs> ReadEncodedTable(const JobSpec& job,
                                                  const CsvEncoding& encoding,
                                                  const std::string& path,
                                                  int64_t features) {
  if (encoding.features() != features) {
    return absl::DataLossError(
        absl::StrCat("the final model has ", features, " inputs, but its ",
                     kEncodingName, " describes ", encoding.features()));
  }
  std::string bytes;
  TRIBUTARY_RETURN_IF_ERROR(AppendWholeFile(path, kMaxDataBytes, &bytes));
  CsvOptions options;
  options.delimiter = job.data().csv().delimiter()[0];
  const int64_t columns = CountCsvColumns(bytes, options.delimiter);
  const bool labeled = columns == encoding.columns();
  if (!labeled && columns != encoding.columns() - 1) {
    return WrongColumns(path, columns, encoding.columns() - 1);
  }
  options.labeled = labeled;
  options.label_column = static_cast<int32_t>(encoding.label());
  options.category_columns = encoding.CategoryColumns(labeled);
  // Accepts any number as a label, which is not used.
  options.regression = true;
  TRIBUTARY_ASSIGN_OR_RETURN(CsvTable table, ParseCsv(bytes, options, path));
  TRIBUTARY_RETURN_IF_ERROR(encoding.Encode(path, &table));
  PredictionInputs inputs;
  inputs.info.sample_shape = {features};
  inputs.samples = table.rows;
  inputs.features = std::move(table.cells);
  return inputs;
}

absl::StatusOr<PredictionInputs> ReadPlainTable(const JobSpec& job,
                                                const std::string& path,
                                                int64_t features) {
  std::string bytes;
  TRIBUTARY_RETURN_IF_ERROR(AppendWholeFile(path, kMaxDataBytes, &bytes));
  CsvOptions options;
  options.labeled = false;
  options.delimiter = job.data().csv().delimiter()[0];
  TRIBUTARY_ASSIGN_OR_RETURN(CsvTable table, ParseCsv(bytes, options, path));
  PredictionInputs inputs;
  inputs.info.sample_shape = {features};
  inputs.samples = table.rows;
  if (table.features == features) {
    inputs.features = std::move(table.cells);
    return inputs;
  }
  if (table.features != features + 1) {
    return WrongColumns(path, table.features, features);
  }
  const int64_t column = job.data().csv().label_column();
  const int64_t label = column < 0 ? table.features + column : column;
  for (int64_t row = 0; row < table.rows; ++row) {
    for (int64_t i = 0; i < table.features; ++i) {
      if (i == label) continue;
      inputs.features.push_back(table.cells[row * table.features + i]);
    }
  }
  return inputs;
}

}  // namespace

void PredictionInputs::Read(int64_t begin, int64_t count, Batch* batch) const {
  *batch = Batch();
  batch->samples = count;
  if (info.kind != DataInfo::Kind::kSequences) {
    int64_t width = 1;
    for (const int64_t size : info.sample_shape) width *= size;
    const auto from = features.begin() + begin * width;
    batch->features.assign(from, from + count * width);
    return;
  }
  const int64_t context = info.sample_shape[0];
  batch->tokens.resize(static_cast<size_t>(count * context));
  batch->token_types.resize(static_cast<size_t>(count * context));
  for (int64_t i = 0; i < count; ++i) {
    batch->lengths.push_back(sequences.Copy(
        begin + i, context, filler, batch->tokens.data() + i * context,
        batch->token_types.data() + i * context));
  }
  // They are not used.
  batch->labels.assign(static_cast<size_t>(count), 0);
}

absl::Status CheckPredictable(const JobSpec& job) {
  const DataSpec& data = job.data();
  if (job.model().has_bert() && !data.has_labeled_text()) {
    return absl::InvalidArgumentError(
        "predict needs a classifier: a job whose data are data.labeled_text; "
        "`tributary evaluate` evaluates a masked language model");
  }
  if (!data.has_csv() && !data.has_idx() && !data.has_labeled_text()) {
    return absl::InvalidArgumentError(
        "predict needs a job whose data are data.csv, data.idx or "
        "data.labeled_text; `tributary sample` generates text with gpt models");
  }
  if (job.model().has_external() || job.model().has_synthetic()) {
    return absl::InvalidArgumentError(
        "predict needs a model that is part of Tributary");
  }
  return absl::OkStatus();
}

absl::StatusOr<PredictionInputs> ReadTableInputs(const JobSpec& job,
                                                 const std::string& run,
                                                 const std::string& path,
                                                 int64_t features) {
  TRIBUTARY_ASSIGN_OR_RETURN(const std::string stored, ReadEncoding(run));
  if (stored.empty()) return ReadPlainTable(job, path, features);
  TRIBUTARY_ASSIGN_OR_RETURN(const CsvEncoding encoding,
                             CsvEncoding::FromJson(stored));
  TRIBUTARY_ASSIGN_OR_RETURN(PredictionInputs inputs,
                             ReadEncodedTable(job, encoding, path, features));
  inputs.classes = encoding.classes();
  return inputs;
}

absl::StatusOr<PredictionInputs> ReadImageInputs(const JobSpec& job,
                                                 const std::string& path) {
  std::string bytes;
  TRIBUTARY_RETURN_IF_ERROR(AppendWholeFile(path, kMaxDataBytes, &bytes));
  TRIBUTARY_ASSIGN_OR_RETURN(const IdxImages images,
                             ParseIdxImages(bytes, path));
  PredictionInputs inputs;
  inputs.info.kind = DataInfo::Kind::kImages;
  inputs.info.sample_shape = {1, images.height, images.width};
  inputs.samples = images.count;
  const std::array<float, 256> scaled = ScaledPixels(job.data().idx());
  for (const char pixel : images.pixels) {
    inputs.features.push_back(scaled[static_cast<unsigned char>(pixel)]);
  }
  return inputs;
}

absl::StatusOr<PredictionInputs> ReadTextInputs(const JobSpec& job,
                                                const std::string& run,
                                                const std::string& path) {
  TRIBUTARY_ASSIGN_OR_RETURN(const std::string stored, ReadEncoding(run));
  if (stored.empty()) {
    return absl::NotFoundError(absl::StrCat(
        FinalFolder(run), "/", kEncodingName,
        ": no such file; it contains the tokenizer and the classes' names"));
  }
  TRIBUTARY_ASSIGN_OR_RETURN(TextEncoding encoding,
                             TextEncoding::FromJson(stored));
  TRIBUTARY_ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer,
                             ParseTokenizerJson(encoding.tokenizer_json));
  const BertSpec& bert = job.model().bert();
  const LabeledTextSpec& spec = job.data().labeled_text();
  TRIBUTARY_ASSIGN_OR_RETURN(
      const SequenceEncoder encoder,
      SequenceEncoder::Create(std::move(tokenizer),
                              "data.labeled_text.tokenizer",
                              {"model.bert", bert.context(), bert.vocabulary()},
                              spec.has_second_text_column()));
  TRIBUTARY_ASSIGN_OR_RETURN(const LabeledTexts texts,
                             ReadTextsToPredict(spec, path));
  PredictionInputs inputs;
  TRIBUTARY_ASSIGN_OR_RETURN(inputs.sequences, encoder.Encode(texts));
  inputs.info.kind = DataInfo::Kind::kSequences;
  inputs.info.sample_shape = {bert.context()};
  inputs.info.vocabulary = encoder.vocabulary();
  inputs.info.token_types = spec.has_second_text_column() ? 2 : 1;
  inputs.samples = inputs.sequences.size();
  inputs.classes = std::move(encoding.classes);
  inputs.filler = encoder.special().filler();
  return inputs;
}

}  // namespace tributary
