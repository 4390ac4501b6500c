// Made-up clicks as the samples of a job.
#ifndef TRIBUTARY_WORKER_DATA_CLICKS_GENERATED_CLICKS_H_
#define TRIBUTARY_WORKER_DATA_CLICKS_GENERATED_CLICKS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "proto/job.pb.h"
#include "worker/data/clicks/click_generator.h"
#include "worker/data/clicks/click_source.h"
#include "worker/data/formats/feature_reader.h"

namespace tributary {

// Generates samples when they are read, and stores none. The text of a number
// or a category is its value in decimal digits.
class GeneratedClicks final : public ClickSource {
 public:
  // `spec` must be valid. `reader` has found its columns with FindCriteoColumn.
  GeneratedClicks(const ClicksSpec& spec, FeatureReader reader);

  int64_t samples(bool held_out) const override {
    return held_out ? spec_.evaluation_samples() : spec_.samples();
  }
  // Returns a hash of the first samples, so that a machine which computes other
  // samples is found.
  uint64_t fingerprint() const override;
  void Read(bool held_out, int64_t index, float* numbers, int32_t* label,
            absl::Span<std::vector<uint64_t>* const> keys) const override;

 private:
  const ClicksSpec spec_;
  const FeatureReader reader_;
  const ClickGenerator generator_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_CLICKS_GENERATED_CLICKS_H_
