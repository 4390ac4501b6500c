// Data set of text files: bytes, divided into windows of tokens.
#ifndef TRIBUTARY_WORKER_DATA_TEXT_DATA_SET_H_
#define TRIBUTARY_WORKER_DATA_TEXT_DATA_SET_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "worker/data/data_set.h"

namespace tributary {

// Concatenates the bytes of all files; each byte is a token. Of N bytes, the
// first floor(N * (1 - validation_fraction)) are for training, and the rest is
// the held-out part.
//
// Training: the windows of an epoch are contiguous and do not overlap. Window i
// consists of the `context` bytes that start at byte phase + i * context, and
// the label of a byte is the byte that follows it. The phase, in [0, context),
// is drawn from the seed for each epoch, so that a byte appears at different
// positions of a window in different epochs. An epoch has floor(train_bytes /
// context) - 1 windows, which fit into the training part for every phase.
//
// Evaluation: windows are contiguous from the start of the held-out part, so
// that each of its bytes except the first is predicted exactly once. The last
// window may be shorter; it is padded with token 0 and labels -1 (not counted).
class TextDataSet final : public DataSet {
 public:
  // Reads the files that `spec` names. `context` is the length of a window in
  // bytes. `seed` determines the phases. Returns NotFound if a file does not
  // exist, and InvalidArgument if a field of `spec`, `context` or a file is
  // invalid, or if the text is too short.
  static absl::StatusOr<std::unique_ptr<TextDataSet>> Open(const TextSpec& spec,
                                                           int64_t context,
                                                           uint64_t seed);

  const DataInfo& info() const override { return info_; }
  int64_t train_samples() const override;
  int64_t evaluation_samples() const override;
  uint64_t fingerprint() const override { return fingerprint_; }
  void ReadTrain(int64_t epoch, absl::Span<const int64_t> indexes,
                 Batch* batch) const override;
  void ReadEvaluation(int64_t begin, int64_t end, Batch* batch) const override;

 private:
  TextDataSet(std::string text, int64_t train_bytes, int64_t context,
              uint64_t seed, uint64_t fingerprint);

  int64_t text_bytes() const { return static_cast<int64_t>(text_.size()); }
  // Returns the phase of the epoch: the index of the first byte of window 0.
  int64_t Phase(int64_t epoch) const;
  // Resizes the batch to `samples` windows.
  void Resize(int64_t samples, Batch* batch) const;
  // Writes the window that starts at byte `begin` to sample `place` of the
  // batch. Only bytes of the text before byte `end` serve as labels; the rest
  // of the window is padding.
  void CopyWindow(int64_t begin, int64_t end, int64_t place,
                  Batch* batch) const;

  const std::string text_;
  const int64_t train_bytes_;
  const int64_t context_;
  const uint64_t seed_;
  const uint64_t fingerprint_;
  DataInfo info_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_TEXT_DATA_SET_H_
