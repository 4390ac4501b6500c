// A short number that differs when data differ.
#ifndef TRIBUTARY_WORKER_DATA_DATA_FINGERPRINT_H_
#define TRIBUTARY_WORKER_DATA_DATA_FINGERPRINT_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tributary {

// XXH3-64 over the contents of files (inflated, if they were compressed) and
// their sizes, in the given order. Not cryptographic: it finds mistakes, not
// forgeries.
uint64_t DataFingerprint(absl::Span<const absl::string_view> files);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_DATA_FINGERPRINT_H_
