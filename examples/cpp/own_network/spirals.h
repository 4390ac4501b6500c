// A data set in memory: points on interleaved spirals, one class per spiral.
#ifndef OWN_NETWORK_SPIRALS_H_
#define OWN_NETWORK_SPIRALS_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "tributary/registry.h"

// A sample is a pure function of its index, so every worker has the same ones.
// Four of five points are for training, the others are held out.
class Spirals : public tributary::DataSet {
 public:
  // Makes `samples` points in all, on `arms` spirals.
  Spirals(int64_t samples, int64_t arms);

  const tributary::DataInfo& info() const override { return info_; }
  int64_t train_samples() const override { return samples_ - held_out_; }
  int64_t evaluation_samples() const override { return held_out_; }
  uint64_t fingerprint() const override;
  void ReadTrain(int64_t epoch, absl::Span<const int64_t> indexes,
                 tributary::Batch* batch) const override;
  void ReadEvaluation(int64_t begin, int64_t end,
                      tributary::Batch* batch) const override;

 private:
  void Append(int64_t point, tributary::Batch* batch) const;

  const int64_t samples_;
  const int64_t arms_;
  const int64_t held_out_;
  tributary::DataInfo info_;
};

// Reads the members "samples" and "arms" of the job's data.external.config.
absl::StatusOr<std::unique_ptr<tributary::DataSet>> OpenSpirals(
    tributary::Config* config);

#endif  // OWN_NETWORK_SPIRALS_H_
