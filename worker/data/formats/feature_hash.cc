#include "worker/data/formats/feature_hash.h"

#include "common/numerics/mix_bits.h"

namespace tributary {
namespace {

constexpr char kAfterName = '\0';
constexpr char kBetweenTexts = '\x1f';

// FNV-1a with 64 bits. MixBits follows it, because the last bytes change few of
// its upper bits.
constexpr uint64_t kFnvStart = 0xcbf29ce484222325;

uint64_t Fnv(uint64_t hash, char byte) {
  return (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
}

uint64_t Fnv(uint64_t hash, absl::string_view bytes) {
  for (const char byte : bytes) hash = Fnv(hash, byte);
  return hash;
}

}  // namespace

FeatureHash::FeatureHash(absl::string_view name)
    : prefix_(Fnv(Fnv(kFnvStart, name), kAfterName)) {}

uint64_t FeatureHash::Key(absl::string_view text) const {
  return MixBits(Fnv(prefix_, text));
}

uint64_t FeatureHash::Key(absl::Span<const absl::string_view> texts) const {
  uint64_t hash = Fnv(prefix_, texts[0]);
  for (const absl::string_view text : texts.subspan(1)) {
    hash = Fnv(Fnv(hash, kBetweenTexts), text);
  }
  return MixBits(hash);
}

}  // namespace tributary
