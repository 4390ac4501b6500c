// The release of Tributary that this program was built from.
#ifndef TRIBUTARY_COMMON_TEXT_RELEASE_H_
#define TRIBUTARY_COMMON_TEXT_RELEASE_H_

namespace tributary {

// Returns Tributary's release number, such as "0.3.0", which version.bzl
// defines. Thread-safe.
const char* ReleaseName();

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TEXT_RELEASE_H_
