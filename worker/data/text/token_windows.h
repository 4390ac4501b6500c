// Division of a sequence of tokens into samples: windows of equal length.
#ifndef TRIBUTARY_WORKER_DATA_TEXT_TOKEN_WINDOWS_H_
#define TRIBUTARY_WORKER_DATA_TEXT_TOKEN_WINDOWS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "worker/data/text/token_data.h"

namespace tributary {

// Divides a sequence of tokens into windows of equal length.
//
// For training, the windows of an epoch are contiguous and do not overlap.
// Window i begins at token phase + i * size. The phase, in [0, size), is drawn
// from the seed for each epoch, so that a token appears at different positions
// of a window in different epochs. An epoch has floor(train_tokens / size) - 1
// windows, which fit into the training part for every phase, together with the
// token after the last window.
//
// For evaluation, windows are contiguous from the start of the held-out part.
// The last one may be shorter. If the model predicts the next token, the last
// held-out token is only a label, and part of no window.
//
// Immutable and therefore thread-safe.
class TokenWindows {
 public:
  struct Options {
    // Number of tokens that a sample has in addition to those of its window,
    // such as [CLS] and [SEP]. A window has `context` - `extra_tokens` tokens.
    int64_t extra_tokens = 0;
    // True if the label of a token is the token after it. If false, the caller
    // sets the labels.
    bool predicts_next = true;
    // The seed for the phase of each epoch, which is the position of the
    // epoch's first window.
    uint64_t seed = 0;
  };
  // The tokens [begin, begin + tokens).
  struct Window {
    int64_t begin;
    int64_t tokens;  // At least 1; less than the size only in evaluation.
  };

  // Returns InvalidArgument if the model's context is out of range, the
  // training part has no window, or the held-out part has no token to predict.
  static absl::StatusOr<TokenWindows> Create(const TokenData& data,
                                             const TextModel& model,
                                             const Options& options);

  int64_t train_windows() const;
  int64_t evaluation_windows() const;
  // Return a window of the training or the held-out part. `index` must be below
  // train_windows() or evaluation_windows().
  Window Train(int64_t epoch, int64_t index) const;
  Window Evaluation(int64_t index) const;

 private:
  TokenWindows(const TokenData& data, int64_t size, const Options& options);

  // Returns the phase of the epoch: the index of the first token of window 0.
  int64_t Phase(int64_t epoch) const;

  int64_t size_;
  int64_t train_tokens_;
  int64_t evaluation_end_;  // The index after the last token of a window.
  uint64_t seed_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_TEXT_TOKEN_WINDOWS_H_
