// Fingerprint for detecting differences between data sets.
#ifndef TRIBUTARY_WORKER_DATA_FILES_DATA_FINGERPRINT_H_
#define TRIBUTARY_WORKER_DATA_FILES_DATA_FINGERPRINT_H_

#include <cstdint>
#include <memory>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

struct XXH3_state_s;

namespace tributary {

// Returns the XXH3-64 hash of the files' contents (decompressed) and sizes, in
// the given order. Not cryptographic: it detects mistakes, not tampering.
uint64_t DataFingerprint(absl::Span<const absl::string_view> files);

// Computes DataFingerprint of files that are read piece by piece. Not
// thread-safe.
class DataHasher {
 public:
  DataHasher();

  // Begins the next file, which has `size` bytes.
  void BeginFile(int64_t size);
  // Adds the next bytes of the file.
  void Append(absl::string_view bytes);
  // Returns the fingerprint of all files added so far.
  uint64_t Fingerprint() const;

 private:
  struct FreeState {
    void operator()(XXH3_state_s* state) const;
  };
  const std::unique_ptr<XXH3_state_s, FreeState> state_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_FILES_DATA_FINGERPRINT_H_
