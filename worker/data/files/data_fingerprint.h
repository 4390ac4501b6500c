// Fingerprint for detecting differences between data sets.
#ifndef TRIBUTARY_WORKER_DATA_FILES_DATA_FINGERPRINT_H_
#define TRIBUTARY_WORKER_DATA_FILES_DATA_FINGERPRINT_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tributary {

// Returns the XXH3-64 hash of the files' contents (decompressed) and sizes, in
// the given order. Not cryptographic: it detects mistakes, not tampering.
uint64_t DataFingerprint(absl::Span<const absl::string_view> files);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_FILES_DATA_FINGERPRINT_H_
