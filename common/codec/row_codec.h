// Rounding and encoding of rows of tables and of their gradients, as selected
// by the fields exchange.wire_dtype and sparse.wire_dtype of the job; see
// Encoding in proto/parameter_server.proto.
#ifndef TRIBUTARY_COMMON_CODEC_ROW_CODEC_H_
#define TRIBUTARY_COMMON_CODEC_ROW_CODEC_H_

#include <cstdint>

#include "absl/status/status.h"
#include "proto/job.pb.h"
#include "proto/parameter_server.pb.h"

namespace tributary {

// Returns the encoding of rows and of their gradients in a job with tables. It
// is FLOAT32, BFLOAT16, FLOAT16 or EIGHT_BIT_ROWS, as in all functions below.
Encoding RowEncoding(const JobSpec& job);

// Returns the size in bytes of a row of `dim` values.
int64_t EncodedRowBytes(Encoding encoding, int dim);

// Rounds `rows` rows in place: `values` is [rows, dim]. Does nothing for
// FLOAT32.
void RoundRows(Encoding encoding, float* values, int64_t rows, int dim);
// Computes out = rounded (a + b), for one row. The operands must be rounded and
// the arrays must not overlap.
void SumRow(Encoding encoding, const float* a, const float* b, float* out,
            int dim);

// Rounds and encodes `rows` rows. `to` has EncodedRowBytes for each row.
void EncodeRows(Encoding encoding, const float* values, int64_t rows, int dim,
                char* to);
// Decodes `rows` rows. Returns InvalidArgument, with the reason, for bytes that
// no encoder writes. `from` may be unaligned.
absl::Status DecodeRows(Encoding encoding, const char* from, int64_t rows,
                        int dim, float* values);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_CODEC_ROW_CODEC_H_
