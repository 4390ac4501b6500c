#include "common/plan/payload_bytes.h"

#include "common/codec/encoding.h"
#include "common/codec/top_k.h"

namespace tributary {

int64_t ExpectedPayloadBytes(const ExchangeSpec& exchange, int64_t elements) {
  if (exchange.compression().has_top_k()) {
    return int64_t{sizeof(uint32_t) + sizeof(float)} *
           TopKCount(exchange.compression().top_k().fraction(), elements);
  }
  return PayloadBytes(GradientEncoding(exchange), elements);
}

}  // namespace tributary
