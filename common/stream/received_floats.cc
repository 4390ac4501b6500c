#include "common/stream/received_floats.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/counted.h"
#include "common/base/status_macros.h"
#include "common/codec/eight_bit.h"
#include "common/codec/encoding.h"
#include "common/codec/top_k.h"
#include "common/numerics/half.h"
#include "common/numerics/streaming_copy.h"

namespace tributary {
namespace {

// Number of elements processed at a time through a scratch buffer, which fits
// in the L1 cache.
constexpr int64_t kBlock = 2048;

}  // namespace

absl::StatusOr<ReceivedFloats> ReceivedFloats::Create(Encoding encoding,
                                                      ReceivedPayload payload,
                                                      int64_t elements) {
  ReceivedFloats floats;
  floats.encoding_ = encoding;
  floats.elements_ = elements;
  const int64_t expected = PayloadBytes(encoding, elements);
  switch (encoding) {
    case FLOAT32:
    case BFLOAT16:
    case FLOAT16:
      if (payload.bytes() != expected) {
        return absl::InvalidArgumentError(
            absl::StrCat("payload of ", Counted(payload.bytes(), "byte"),
                         ", expected ", expected));
      }
      floats.payload_ = std::move(payload);
      return floats;
    case TOP_K:
    case EIGHT_BIT: {
      // Checked before the payload is copied.
      if (payload.bytes() > expected) {
        return absl::InvalidArgumentError(
            absl::StrCat("payload of ", Counted(payload.bytes(), "byte"),
                         ", expected at most ", expected));
      }
      std::string bytes(payload.bytes(), '\0');
      payload.Copy(0, payload.bytes(), &bytes[0]);
      TRIBUTARY_RETURN_IF_ERROR(encoding == TOP_K
                                    ? CheckTopK(bytes, elements)
                                    : CheckEightBit(bytes, elements));
      floats.compressed_ =
          std::make_shared<const std::string>(std::move(bytes));
      return floats;
    }
    default:
      return absl::InvalidArgumentError(absl::StrCat(
          "unknown encoding ", static_cast<int>(encoding), " of a payload"));
  }
}

void ReceivedFloats::Read(int64_t begin, int64_t count, float* to) const {
  switch (encoding_) {
    case TOP_K:
      DecodeTopK(*compressed_, begin, count, to);
      return;
    case EIGHT_BIT:
      DecodeEightBit(*compressed_, elements_, begin, count, to);
      return;
    case BFLOAT16:
    case FLOAT16:
      for (const int64_t end = begin + count; begin < end;) {
        const int64_t block = std::min(kBlock, end - begin);
        char scratch[2 * kBlock];
        DecodeHalf(DtypeOf(encoding_),
                   payload_.View(2 * begin, 2 * block, scratch), to, block);
        begin += block;
        to += block;
      }
      return;
    default:
      payload_.Copy(4 * begin, 4 * count, to);
  }
}

void ReceivedFloats::AddPart(int64_t begin, int64_t count, float* sum) const {
  AddTopKPart(*compressed_, begin, count, sum);
}

void ReceivedFloats::Stream(float* to) const {
  for (int64_t begin = 0; begin < elements_; begin += kBlock) {
    const int64_t block = std::min(kBlock, elements_ - begin);
    if (encoding_ == FLOAT32) {
      char scratch[4 * kBlock];
      StreamingCopy(payload_.View(4 * begin, 4 * block, scratch), block,
                    to + begin);
    } else {
      float scratch[kBlock];
      Read(begin, block, scratch);
      StreamingCopy(scratch, block, to + begin);
    }
  }
}

void ReceivedFloats::AddTo(float* values) const {
  AddCompressed(encoding_, *compressed_, values, elements_);
}

void ReceivedFloats::CopyChanged(const float* from, float* to) const {
  CopyCompressed(encoding_, *compressed_, from, to, elements_);
}

}  // namespace tributary
