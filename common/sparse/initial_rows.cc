#include "common/sparse/initial_rows.h"

#include <cmath>
#include <string>

#include "common/numerics/normal_quantile.h"
#include "common/numerics/philox.h"
#include "common/sparse/key_hash.h"

namespace tributary {
namespace {

uint64_t SeedOf(const std::string& table, uint64_t seed) {
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a.
  for (const char c : table) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  }
  return KeyHash(seed ^ hash);
}

double ScaleOf(const SparseTableSpec& spec) {
  switch (spec.initial_case()) {
    case SparseTableSpec::kUniform:
      return spec.uniform();
    case SparseTableSpec::kNormal:
      return spec.normal();
    case SparseTableSpec::INITIAL_NOT_SET:
      break;
  }
  return 1 / std::sqrt(static_cast<double>(spec.dim()));
}

}  // namespace

InitialRows::InitialRows(const SparseTableSpec& spec, uint64_t seed)
    : dim_(spec.dim()),
      normal_(spec.initial_case() == SparseTableSpec::kNormal),
      scale_(ScaleOf(spec)),
      seed_(SeedOf(spec.name(), seed)) {}

void InitialRows::Write(uint64_t key, float* values) const {
  const RandomStream stream = {seed_, RandomPurpose::kRowValues,
                               static_cast<uint32_t>(key),
                               static_cast<uint32_t>(key >> 32)};
  const auto bound = static_cast<float>(scale_);
  for (int begin = 0; begin < dim_; begin += 4) {
    const PhiloxBlock block = stream.Block(static_cast<uint64_t>(begin) / 4);
    for (int i = 0; i < 4 && begin + i < dim_; ++i) {
      values[begin + i] =
          normal_ ? static_cast<float>(scale_ * NormalQuantile(block[i]))
                  : bound * (2 * UniformFloat(block[i]) - 1);
    }
  }
}

}  // namespace tributary
