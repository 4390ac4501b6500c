// Macros that propagate absl::Status. Abseil 20220623 provides none.
#ifndef TRIBUTARY_COMMON_BASE_STATUS_MACROS_H_
#define TRIBUTARY_COMMON_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Returns from the enclosing function if `expression`, an absl::Status, is not
// OK.
#define TRIBUTARY_RETURN_IF_ERROR(expression)            \
  do {                                                   \
    absl::Status tributary_status = (expression);        \
    if (!tributary_status.ok()) return tributary_status; \
  } while (false)

#define TRIBUTARY_CONCAT_INNER(a, b) a##b
#define TRIBUTARY_CONCAT(a, b) TRIBUTARY_CONCAT_INNER(a, b)

// Assigns the value of `expression`, an absl::StatusOr, to `target` (which may
// be a declaration), or returns its status from the enclosing function.
#define TRIBUTARY_ASSIGN_OR_RETURN(target, expression)                        \
  TRIBUTARY_ASSIGN_OR_RETURN_INNER(TRIBUTARY_CONCAT(tributary_or_, __LINE__), \
                                   target, expression)
#define TRIBUTARY_ASSIGN_OR_RETURN_INNER(temporary, target, expression) \
  auto temporary = (expression);                                        \
  if (!temporary.ok()) return std::move(temporary).status();            \
  target = *std::move(temporary)

#endif  // TRIBUTARY_COMMON_BASE_STATUS_MACROS_H_
