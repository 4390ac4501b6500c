// Interface for sources of clicks with Criteo's columns.
#ifndef TRIBUTARY_WORKER_DATA_CLICKS_CLICK_SOURCE_H_
#define TRIBUTARY_WORKER_DATA_CLICKS_CLICK_SOURCE_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace tributary {

// Samples with the columns of Criteo's data sets. Immutable and therefore
// thread-safe.
class ClickSource {
 public:
  virtual ~ClickSource() = default;

  // Returns the number of training samples, which is at least 1, or of held-out
  // samples.
  virtual int64_t samples(bool held_out) const = 0;
  // See DataSet::fingerprint.
  virtual uint64_t fingerprint() const = 0;
  // Reads a sample. `numbers` receives the kCriteoNumbers features, and `label`
  // 0 or 1. The keys of feature i of the job are appended to keys[i].
  virtual void Read(bool held_out, int64_t index, float* numbers,
                    int32_t* label,
                    absl::Span<std::vector<uint64_t>* const> keys) const = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_CLICKS_CLICK_SOURCE_H_
