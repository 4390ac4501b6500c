#include "worker/data/labeled_text_data_set.h"

#include <utility>

#include "absl/status/status.h"
#include "common/base/status_macros.h"
#include "worker/data/files/data_file.h"
#include "worker/data/files/data_fingerprint.h"
#include "worker/data/text/labeled_texts.h"
#include "worker/data/text/text_encoding.h"
#include "worker/data/text/text_tokens.h"

namespace tributary {
namespace {

constexpr char kTokenizerField[] = "data.labeled_text.tokenizer";

// Reads a file and parses it. Sets `bytes` to its contents.
absl::StatusOr<LabeledTexts> Read(const LabeledTextSpec& spec,
                                  const std::string& path, std::string* bytes) {
  TRIBUTARY_RETURN_IF_ERROR(AppendWholeFile(path, kMaxDataBytes, bytes));
  return ParseLabeledTexts(spec, /*needs_labels=*/true, path, *bytes);
}

}  // namespace

absl::StatusOr<std::unique_ptr<LabeledTextDataSet>> LabeledTextDataSet::Open(
    const LabeledTextSpec& spec, const TextModel& model) {
  if (spec.train().empty()) {
    return absl::InvalidArgumentError("data.labeled_text.train: must be set");
  }
  TRIBUTARY_ASSIGN_OR_RETURN(
      std::unique_ptr<Tokenizer> tokenizer,
      OpenTokenizerOf(kTokenizerField, spec.tokenizer()));
  TextEncoding encoding;
  TRIBUTARY_ASSIGN_OR_RETURN(encoding.tokenizer_json,
                             WordPieceJson(*tokenizer, kTokenizerField));
  const bool pairs = spec.has_second_text_column();
  TRIBUTARY_ASSIGN_OR_RETURN(
      const SequenceEncoder encoder,
      SequenceEncoder::Create(std::move(tokenizer), kTokenizerField, model,
                              pairs));

  std::unique_ptr<LabeledTextDataSet> data(new LabeledTextDataSet());
  std::string train_bytes;
  TRIBUTARY_ASSIGN_OR_RETURN(const LabeledTexts train,
                             Read(spec, spec.train(), &train_bytes));
  TRIBUTARY_ASSIGN_OR_RETURN(encoding.classes, ClassesOfTexts(train));
  TRIBUTARY_ASSIGN_OR_RETURN(data->train_.labels,
                             NumberLabels(train, encoding.classes));
  std::string test_bytes;
  LabeledTexts test;
  if (spec.has_test()) {
    TRIBUTARY_ASSIGN_OR_RETURN(test, Read(spec, spec.test(), &test_bytes));
    TRIBUTARY_ASSIGN_OR_RETURN(data->test_.labels,
                               NumberLabels(test, encoding.classes));
  }
  TRIBUTARY_ASSIGN_OR_RETURN(data->train_.sequences, encoder.Encode(train));
  TRIBUTARY_ASSIGN_OR_RETURN(data->test_.sequences, encoder.Encode(test));
  data->fingerprint_ = DataFingerprint({train_bytes, test_bytes});
  data->encoding_ = encoding.ToJson();
  data->filler_ = encoder.special().filler();
  data->info_.kind = DataInfo::Kind::kSequences;
  data->info_.sample_shape = {model.context};
  data->info_.classes = static_cast<int64_t>(encoding.classes.size());
  data->info_.vocabulary = encoder.vocabulary();
  data->info_.token_types = pairs ? 2 : 1;
  return data;
}

void LabeledTextDataSet::Resize(int64_t samples, Batch* batch) const {
  const auto tokens = static_cast<size_t>(samples * info_.sample_shape[0]);
  batch->samples = samples;
  batch->tokens.resize(tokens);
  batch->token_types.resize(tokens);
  batch->lengths.resize(static_cast<size_t>(samples));
  batch->labels.resize(static_cast<size_t>(samples));
  batch->features.clear();
  batch->values.clear();
}

absl::Status LabeledTextDataSet::CopySample(const Sample& sample, int64_t place,
                                            Batch* batch) const {
  const Part& part = sample.held_out ? test_ : train_;
  const int64_t context = info_.sample_shape[0];
  const auto to = static_cast<size_t>(place);
  batch->lengths[to] = part.sequences.Copy(
      sample.index, context, filler_, batch->tokens.data() + place * context,
      batch->token_types.data() + place * context);
  batch->labels[to] = part.labels[static_cast<size_t>(sample.index)];
  return absl::OkStatus();
}

}  // namespace tributary
