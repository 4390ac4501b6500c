// The sections of the protocol's pages that the rule of a Fault names.
#ifndef TRIBUTARY_DEPLOY_TOOLS_CONFORMANCE_RULES_H_
#define TRIBUTARY_DEPLOY_TOOLS_CONFORMANCE_RULES_H_

namespace tributary {

inline constexpr char kJobRule[] = "PROTOCOL.md, A job from start to end: ";
inline constexpr char kStepRule[] = "PROTOCOL.md, A step: ";
inline constexpr char kTablesRule[] = "PROTOCOL.md, Tables: ";
inline constexpr char kStatesRule[] = "WORKER.md, States: ";
inline constexpr char kLostRule[] = "WORKER.md, States, Losing a server: ";
inline constexpr char kDataRule[] = "DATA.md: ";
inline constexpr char kAsynchronousRule[] = "PROTOCOL.md, asynchronous: ";

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_CONFORMANCE_RULES_H_
