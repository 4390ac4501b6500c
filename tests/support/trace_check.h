// Checks traces in Chrome's trace event format.
#ifndef TRIBUTARY_TESTS_SUPPORT_TRACE_CHECK_H_
#define TRIBUTARY_TESTS_SUPPORT_TRACE_CHECK_H_

#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace tributary {

// Returns what is wrong with a trace: spans of one thread that overlap without
// nesting, unnamed processes and threads, times below 0, and arrows with an end
// that lies in no span or with only one end. Empty: nothing.
std::vector<std::string> TraceErrors(const nlohmann::json& trace);

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_SUPPORT_TRACE_CHECK_H_
