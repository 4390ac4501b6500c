#include "worker/data/files/data_fingerprint.h"

#include <xxhash.h>

#include <memory>
#include <string>

namespace tributary {
namespace {

struct FreeState {
  void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
};

}  // namespace

uint64_t DataFingerprint(absl::Span<const absl::string_view> files) {
  const std::unique_ptr<XXH3_state_t, FreeState> state(XXH3_createState());
  XXH3_64bits_reset(state.get());
  for (const absl::string_view file : files) {
    // Hash the size first, little-endian on every machine, so that moving bytes
    // from one file to the next changes the fingerprint.
    unsigned char size[8];
    for (int i = 0; i < 8; ++i) {
      size[i] = static_cast<unsigned char>(uint64_t{file.size()} >> (8 * i));
    }
    XXH3_64bits_update(state.get(), size, sizeof(size));
    XXH3_64bits_update(state.get(), file.data(), file.size());
  }
  return XXH3_64bits_digest(state.get());
}

}  // namespace tributary
