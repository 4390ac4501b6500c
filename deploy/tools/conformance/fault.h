// A violation of the protocol by a worker.
#ifndef TRIBUTARY_DEPLOY_TOOLS_CONFORMANCE_FAULT_H_
#define TRIBUTARY_DEPLOY_TOOLS_CONFORMANCE_FAULT_H_

#include <string>

namespace tributary {

struct Fault {
  // What the worker did, in one line without a period at the end. Example: "it
  // sent Synced for version 3, before it received this version of all chunks".
  std::string what;
  // The rule of the protocol that the worker broke, preceded by the page and
  // the section that state it: "PROTOCOL.md, A step: ...".
  std::string rule;
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_CONFORMANCE_FAULT_H_
