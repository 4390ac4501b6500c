#include "common/codec/row_codec.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/codec/eight_bit_rows.h"
#include "common/codec/encoding.h"
#include "common/numerics/half.h"

namespace tributary {

Encoding RowEncoding(const JobSpec& job) {
  switch (job.sparse().wire_dtype()) {
    case SparseSpec::FLOAT32:
      return FLOAT32;
    case SparseSpec::BFLOAT16:
      return BFLOAT16;
    case SparseSpec::FLOAT16:
      return FLOAT16;
    case SparseSpec::INT8:
      return EIGHT_BIT_ROWS;
    default:
      return WeightsEncoding(job.exchange());
  }
}

int64_t EncodedRowBytes(Encoding encoding, int dim) {
  return encoding == EIGHT_BIT_ROWS ? EightBitRowBytes(dim)
                                    : PayloadBytes(encoding, dim);
}

void RoundRows(Encoding encoding, float* values, int64_t rows, int dim) {
  if (encoding == EIGHT_BIT_ROWS) return RoundEightBitRows(values, rows, dim);
  RoundTo(DtypeOf(encoding), values, rows * dim);
}

void SumRow(Encoding encoding, const float* a, const float* b, float* out,
            int dim) {
  if (encoding == EIGHT_BIT_ROWS) return SumEightBitRow(a, b, out, dim);
  SumRounded(DtypeOf(encoding), a, b, out, dim);
}

void EncodeRows(Encoding encoding, const float* values, int64_t rows, int dim,
                char* to) {
  if (rows == 0) return;
  switch (encoding) {
    case EIGHT_BIT_ROWS:
      return EncodeEightBitRows(values, rows, dim, to);
    case FLOAT32:
      std::memcpy(to, values, rows * EncodedRowBytes(FLOAT32, dim));
      return;
    default:
      EncodeHalf(DtypeOf(encoding), values, to, rows * dim);
  }
}

absl::Status DecodeRows(Encoding encoding, const char* from, int64_t rows,
                        int dim, float* values) {
  if (rows == 0) return absl::OkStatus();
  switch (encoding) {
    case EIGHT_BIT_ROWS: {
      const int64_t wrong = DecodeEightBitRows(from, rows, dim, values);
      if (wrong == rows) return absl::OkStatus();
      const int scale =
          static_cast<uint8_t>(from[wrong * EightBitRowBytes(dim)]);
      return absl::InvalidArgumentError(
          IsEightBitScale(scale)
              ? "an 8-bit row with the integer -128, expected -127 to 127"
              : absl::StrCat("an 8-bit row with scale ", scale,
                             ", expected 1 to 248, or 255 for NaN"));
    }
    case FLOAT32:
      std::memcpy(values, from, rows * EncodedRowBytes(FLOAT32, dim));
      return absl::OkStatus();
    default:
      DecodeHalf(DtypeOf(encoding), from, values, rows * dim);
      return absl::OkStatus();
  }
}

}  // namespace tributary
