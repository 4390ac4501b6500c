// Checks a message's encoding before it is parsed, because a few bytes on the
// wire can expand to a hundred times as much memory.
#ifndef TRIBUTARY_COMMON_TRANSPORT_MESSAGE_CHECK_H_
#define TRIBUTARY_COMMON_TRANSPORT_MESSAGE_CHECK_H_

#include "absl/status/status.h"
#include "common/base/limits.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/zero_copy_stream.h"

namespace tributary {

// Checks the encoded message of type `type` in `input`. Returns
// ResourceExhausted if the message has more submessages, longer texts or more
// deeply nested submessages than `limits` allow. Returns InvalidArgument if it
// is malformed. Allocates no memory for the message.
absl::Status CheckMessage(const google::protobuf::Descriptor& type,
                          const Limits& limits,
                          google::protobuf::io::ZeroCopyInputStream* input);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TRANSPORT_MESSAGE_CHECK_H_
