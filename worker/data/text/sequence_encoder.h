// Texts and pairs of texts as sequences of tokens for BERT.
#ifndef TRIBUTARY_WORKER_DATA_TEXT_SEQUENCE_ENCODER_H_
#define TRIBUTARY_WORKER_DATA_TEXT_SEQUENCE_ENCODER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/tokenizer/tokenizer.h"
#include "worker/data/text/labeled_texts.h"
#include "worker/data/text/sequence_tokens.h"
#include "worker/data/text/token_data.h"

namespace tributary {

// Tokenized samples of different lengths, stored one after the other.
struct Sequences {
  struct Sample {
    int64_t end;         // The index after the last token of the sample.
    int32_t first_type;  // The number of its tokens of type 0.
  };
  std::vector<int32_t> tokens;
  std::vector<Sample> samples;

  int64_t size() const { return static_cast<int64_t>(samples.size()); }
  // Writes the tokens of sample `index` to to[0, context), and their types to
  // types[0, context). If the sample is shorter than `context`, the remaining
  // tokens are `filler`. Returns the number of tokens of the sample.
  int32_t Copy(int64_t index, int64_t context, int32_t filler, int32_t* to,
               int32_t* types) const;
};

// Converts texts and pairs of texts to sequences of tokens. A text becomes
// [CLS] text [SEP], and a pair becomes [CLS] text [SEP] second [SEP], in which
// the second text and the last [SEP] have type 1.
//
// A text that is too long is truncated at its end. If a pair is too long, the
// longer text is truncated until both texts have the same number of tokens;
// then both are truncated. If the remaining number of tokens is odd, the text
// that was longer keeps one token more, or the second text if they were equally
// long. Hugging Face's tokenizers do the same with the strategy longest_first.
// Thread-safe.
class SequenceEncoder {
 public:
  // `tokenizer` must be a WordPiece tokenizer. `field` is the job's field that
  // names its file, for errors. Returns InvalidArgument if the tokenizer's
  // vocabulary lacks [CLS] or [SEP] or is larger than the model's vocabulary,
  // or if the model's context has no room for the special tokens and one token
  // of each text.
  static absl::StatusOr<SequenceEncoder> Create(
      std::unique_ptr<Tokenizer> tokenizer, const std::string& field,
      const TextModel& model, bool pairs);

  absl::StatusOr<Sequences> Encode(const LabeledTexts& texts) const;

  int64_t vocabulary() const { return tokenizer_->vocabulary(); }
  const SequenceTokens& special() const { return special_; }

 private:
  SequenceEncoder() = default;
  absl::Status Append(const LabeledTexts& texts, size_t row,
                      Sequences* sequences) const;

  std::unique_ptr<Tokenizer> tokenizer_;
  SequenceTokens special_;
  int64_t context_ = 0;
  bool pairs_ = false;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_TEXT_SEQUENCE_ENCODER_H_
