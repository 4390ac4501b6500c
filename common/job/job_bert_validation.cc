#include "common/job/job_bert_validation.h"

#include <cstdint>

#include "common/base/field_checks.h"
#include "common/base/status_macros.h"
#include "common/job/job_checks.h"

namespace tributary {
namespace {

constexpr int64_t kMaxBertVocabulary = int64_t{1} << 20;
constexpr int64_t kMaxTokenTypes = 1024;
// Parameters are aligned to this number of floats. Only with such a width are
// the weights and biases of query, key and value contiguous (StackedLinear).
constexpr int64_t kWidthMultiple = 16;

absl::Status ValidateSizes(const BertSpec& bert) {
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

}  // namespace

absl::Status ValidateBert(const BertSpec& bert) {
  TRIBUTARY_RETURN_IF_ERROR(ValidateSizes(bert));
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

}  // namespace tributary
