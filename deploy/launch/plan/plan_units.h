// Units of plans: bytes on the wire, and times and sizes as people read them.
#ifndef TRIBUTARY_DEPLOY_LAUNCH_PLAN_PLAN_UNITS_H_
#define TRIBUTARY_DEPLOY_LAUNCH_PLAN_PLAN_UNITS_H_

#include <string>

namespace tributary {

// Fraction of a link's bits that carry payload: TCP over IPv4 in Ethernet
// frames of 1,500 bytes carries 1,448 of 1,538 bytes on the wire.
inline constexpr double kPayloadShare = 1448.0 / 1538.0;

// Returns the bytes of a message with `payload_bytes` of payload, including the
// framing of gRPC and HTTP/2.
double BytesOnWire(double payload_bytes);

// Return the number of milliseconds with three digits, such as "9.51", and a
// size with its unit, such as "3.34 MB".
std::string PlanMilliseconds(double seconds);
std::string PlanBytes(double bytes);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCH_PLAN_PLAN_UNITS_H_
