// Parses the lists in Slurm's environment variables.
#ifndef TRIBUTARY_DEPLOY_LAUNCH_SLURM_NODE_LIST_H_
#define TRIBUTARY_DEPLOY_LAUNCH_SLURM_NODE_LIST_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tributary {

// Maximum number of nodes or counts in an expanded list. A longer list is
// treated as malformed.
inline constexpr size_t kMaxSlurmNodes = 65536;

// Returns the names of the nodes in a list such as SLURM_JOB_NODELIST, in the
// list's order: n0, n1, n2, n05, gpu7 for "n[0-2,05],gpu7". A name may have
// several ranges, and text after them. Returns InvalidArgument, with the list,
// if it is malformed, empty or longer than kMaxSlurmNodes.
absl::StatusOr<std::vector<std::string>> ExpandNodeList(absl::string_view list);

// Returns the number for each node in a list such as SLURM_TASKS_PER_NODE: 2,
// 2, 1 for "2(x2),1". Returns InvalidArgument, with the list, if it is
// malformed, empty or longer than kMaxSlurmNodes.
absl::StatusOr<std::vector<int>> ExpandNodeCounts(absl::string_view list);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCH_SLURM_NODE_LIST_H_
