// 8-bit quantization of rows: payloads of encoding EIGHT_BIT_ROWS (see Encoding
// in proto/parameter_server.proto).
//
// The values of a row are integers from -127 to 127 times one power of two, the
// smallest, but at least 2^-126, for which the largest magnitude of the row
// fits (a shared exponent of eight bits, as in the Microscaling formats of the
// Open Compute Project, 2023). The nearest integer is taken, ties to even, so
// the error of a value is at most 1/127 of the row's largest magnitude (or
// 2^-126). A row with infinity, NaN, or a magnitude above 127 * 2^121 becomes
// NaN. There is no -0. Denormal numbers count as zero.
//
// Rounding is idempotent: the scale of a rounded row is that of the row. So
// encoding loses nothing of rounded rows. The results have the same bits on
// every x86-64.
#ifndef TRIBUTARY_COMMON_CODEC_EIGHT_BIT_ROWS_H_
#define TRIBUTARY_COMMON_CODEC_EIGHT_BIT_ROWS_H_

#include <cstdint>

namespace tributary {

// Returns the size in bytes of a row of `dim` values: its scale, then an
// integer for each value.
constexpr int64_t EightBitRowBytes(int64_t dim) { return 1 + dim; }

// Rounds `rows` rows in place: `values` is [rows, dim].
void RoundEightBitRows(float* values, int64_t rows, int dim);
// Computes out = rounded (a + b), for one row. The arrays must not overlap.
void SumEightBitRow(const float* a, const float* b, float* out, int dim);

// Rounds and encodes `rows` rows. `to` has EightBitRowBytes(dim) bytes for each
// row.
void EncodeEightBitRows(const float* values, int64_t rows, int dim, char* to);
// Returns whether an encoder writes this scale.
constexpr bool IsEightBitScale(int scale) {
  return (scale >= 1 && scale <= 248) || scale == 255;
}
// Decodes `rows` rows. Returns the number of the first row that no encoder
// writes, because of its scale or because it has the integer -128; or `rows` if
// there is none.
int64_t DecodeEightBitRows(const char* from, int64_t rows, int dim,
                           float* values);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_CODEC_EIGHT_BIT_ROWS_H_
