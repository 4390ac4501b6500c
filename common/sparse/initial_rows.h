// The values of rows before their first gradient.
#ifndef TRIBUTARY_COMMON_SPARSE_INITIAL_ROWS_H_
#define TRIBUTARY_COMMON_SPARSE_INITIAL_ROWS_H_

#include <cstdint>

#include "proto/job.pb.h"

namespace tributary {

// Computes the initial values of the rows of a table: random numbers that are a
// pure function of the seed, the table's name, the key and the column. Element
// i of the row of key k uses number i of the random stream with seed
// KeyHash(seed xor FNV-1a-64(name)), purpose 9 (kRowValues), a = the lower and
// b = the upper 32 bits of k; see "Random numbers" in proto/MODELS.md.
// Immutable.
class InitialRows {
 public:
  // `spec` must be valid.
  InitialRows(const SparseTableSpec& spec, uint64_t seed);

  // Writes the row of `key` to `values`, [dim].
  void Write(uint64_t key, float* values) const;

 private:
  const int dim_;
  const bool normal_;
  const double scale_;  // The bound, or the standard deviation.
  const uint64_t seed_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_SPARSE_INITIAL_ROWS_H_
