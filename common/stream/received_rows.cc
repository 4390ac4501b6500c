#include "common/stream/received_rows.h"

#include <algorithm>

#include "common/base/status_macros.h"
#include "common/codec/row_codec.h"

namespace tributary {
namespace {

// Bytes that are decoded at a time, unless a single row has more. They fit into
// the L1 cache.
constexpr int64_t kBlockBytes = 8192;

}  // namespace

absl::Status ReceivedRows::Read(int64_t rows, int dim, float* values) {
  const int64_t row_bytes = EncodedRowBytes(encoding_, dim);
  if (encoding_ == FLOAT32) {
    payload_.Copy(next_, rows * row_bytes, values);
    next_ += rows * row_bytes;
    return absl::OkStatus();
  }
  const int64_t most = std::max<int64_t>(1, kBlockBytes / row_bytes);
  while (rows > 0) {
    const int64_t count = std::min(most, rows);
    scratch_.resize(std::max<size_t>(scratch_.size(), count * row_bytes));
    TRIBUTARY_RETURN_IF_ERROR(DecodeRows(
        encoding_, payload_.View(next_, count * row_bytes, scratch_.data()),
        count, dim, values));
    next_ += count * row_bytes;
    values += count * dim;
    rows -= count;
  }
  return absl::OkStatus();
}

}  // namespace tributary
