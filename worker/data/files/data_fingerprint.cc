#include "worker/data/files/data_fingerprint.h"

#include <xxhash.h>

namespace tributary {

void DataHasher::FreeState::operator()(XXH3_state_s* state) const {
  XXH3_freeState(state);
}

DataHasher::DataHasher() : state_(XXH3_createState()) {
  XXH3_64bits_reset(state_.get());
}

void DataHasher::BeginFile(int64_t size) {
  // Hash the size first, little-endian on every machine, so that moving bytes
  // from one file to the next changes the fingerprint.
  unsigned char bytes[8];
  for (int i = 0; i < 8; ++i) {
    bytes[i] =
        static_cast<unsigned char>(static_cast<uint64_t>(size) >> (8 * i));
  }
  XXH3_64bits_update(state_.get(), bytes, sizeof(bytes));
}

void DataHasher::Append(absl::string_view bytes) {
  XXH3_64bits_update(state_.get(), bytes.data(), bytes.size());
}

uint64_t DataHasher::Fingerprint() const {
  return XXH3_64bits_digest(state_.get());
}

uint64_t DataFingerprint(absl::Span<const absl::string_view> files) {
  DataHasher hasher;
  for (const absl::string_view file : files) {
    hasher.BeginFile(static_cast<int64_t>(file.size()));
    hasher.Append(file);
  }
  return hasher.Fingerprint();
}

}  // namespace tributary
