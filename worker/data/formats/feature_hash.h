// The hash that makes keys of tables from text.
#ifndef TRIBUTARY_WORKER_DATA_FORMATS_FEATURE_HASH_H_
#define TRIBUTARY_WORKER_DATA_FORMATS_FEATURE_HASH_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tributary {

// Computes the keys of one feature; proto/DATA.md ("Keys") defines the hash.
// All functions are pure, and accept arbitrary bytes.
class FeatureHash {
 public:
  // `name` is the name of the feature, or empty if it shares its keys.
  explicit FeatureHash(absl::string_view name);

  // Returns the key of a text.
  uint64_t Key(absl::string_view text) const;
  // Returns the key of a combination of at least one text.
  uint64_t Key(absl::Span<const absl::string_view> texts) const;

 private:
  uint64_t prefix_;  // The hash of what precedes the text.
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_FORMATS_FEATURE_HASH_H_
