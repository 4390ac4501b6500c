// Division of a sequence of tokens into samples: windows of `context` tokens.
#ifndef TRIBUTARY_WORKER_DATA_TOKEN_WINDOWS_H_
#define TRIBUTARY_WORKER_DATA_TOKEN_WINDOWS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "worker/data/batch.h"

namespace tributary {

// A sequence of token ids. Immutable and thread-safe.
class TokenSource {
 public:
  virtual ~TokenSource() = default;
  // Returns the number of tokens.
  virtual int64_t size() const = 0;
  // Writes the tokens [begin, begin + count) to `to`. Returns an error, which
  // names the file, if they cannot be read.
  virtual absl::Status Copy(int64_t begin, int64_t count,
                            int32_t* to) const = 0;
};

// The first `train_tokens` tokens of the source are for training, and the rest
// is the held-out part.
//
// Training: the windows of an epoch are contiguous and do not overlap. Window i
// consists of the `context` tokens that start at token phase + i * context, and
// the label of a token is the token that follows it. The phase, in [0,
// context), is drawn from the seed for each epoch, so that a token appears at
// different positions of a window in different epochs. An epoch has
// floor(train_tokens / context) - 1 windows, which fit into the training part
// for every phase.
//
// Evaluation: windows are contiguous from the start of the held-out part, so
// that each of its tokens except the first is predicted exactly once. The last
// window may be shorter; it is padded with token 0 and labels -1 (not counted).
//
// Immutable and therefore thread-safe.
class TokenWindows {
 public:
  // Returns InvalidArgument if the training part has no window or the held-out
  // part has no token to predict. `what` begins the message; `unit` is the
  // plural noun for tokens in it.
  static absl::Status Check(const std::string& what, const std::string& unit,
                            int64_t train_tokens, int64_t held_out_tokens,
                            int64_t context);

  // `source` must outlive this object. Requires that Check is OK. `seed`
  // determines the phases.
  TokenWindows(const TokenSource* source, int64_t train_tokens, int64_t context,
               uint64_t seed);

  int64_t train_samples() const;
  int64_t evaluation_samples() const;
  void ReadTrain(int64_t epoch, absl::Span<const int64_t> indexes,
                 Batch* batch) const;
  void ReadEvaluation(int64_t begin, int64_t end, Batch* batch) const;

 private:
  // Returns the phase of the epoch: the index of the first token of window 0.
  int64_t Phase(int64_t epoch) const;
  // Resizes the batch to `samples` windows.
  void Resize(int64_t samples, Batch* batch) const;
  // Writes the window that starts at token `begin` to sample `place` of the
  // batch. Only tokens before `end` serve as labels; the rest of the window is
  // padding.
  absl::Status CopyWindow(int64_t begin, int64_t end, int64_t place,
                          Batch* batch) const;

  const TokenSource* const source_;
  const int64_t train_tokens_;
  const int64_t context_;
  const uint64_t seed_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_TOKEN_WINDOWS_H_
