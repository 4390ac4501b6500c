// A departure of a worker from the protocol.
#ifndef TRIBUTARY_DEPLOY_CONFORMANCE_FAULT_H_
#define TRIBUTARY_DEPLOY_CONFORMANCE_FAULT_H_

#include <string>

namespace tributary {

struct Fault {
  // What the worker did: one line without a period.
  std::string what;
  // What the protocol says, with the page and the section: "PROTOCOL.md, A
  // step: ...".
  std::string rule;
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_CONFORMANCE_FAULT_H_
