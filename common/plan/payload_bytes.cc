#include "common/plan/payload_bytes.h"

#include "common/compression/eight_bit.h"
#include "common/compression/top_k.h"
#include "common/half.h"

namespace tributary {

int64_t PayloadBytes(const ExchangeSpec& exchange, int64_t elements) {
  switch (exchange.compression().method_case()) {
    case CompressionSpec::kTopK:
      return int64_t{sizeof(uint32_t) + sizeof(float)} *
             TopKCount(exchange.compression().top_k().fraction(), elements);
    case CompressionSpec::kEightBit:
      return elements + int64_t{sizeof(float)} *
                            ((elements + kEightBitBlock - 1) / kEightBitBlock);
    case CompressionSpec::METHOD_NOT_SET:
      break;
  }
  return WireDtypeBytes(exchange.wire_dtype()) * elements;
}

}  // namespace tributary
