#include "common/text/release.h"

namespace tributary {

const char* ReleaseName() { return TRIBUTARY_RELEASE; }

}  // namespace tributary
