#include "common/plan/memory_notice.h"

#include <algorithm>
#include <cstdint>
#include <map>

#include "absl/strings/str_cat.h"
#include "common/plan/memory_account.h"

namespace tributary {
namespace {

struct HostUse {
  MemoryAccount needs;
  int64_t used = 0;
  int64_t limit = 0;
  std::map<int64_t, int> members;  // By process id.
};

// Returns nothing until all processes have said what they need.
std::map<std::string, HostUse> UseByHost(const StatusReply& status) {
  std::map<std::string, HostUse> hosts;
  for (const ProcessStatus& process : status.process()) {
    if (process.phase() == "absent") continue;
    const ProcessStatistics& statistics = process.statistics();
    if (!statistics.has_memory_account() || statistics.memory_bytes() == 0) {
      return {};
    }
    HostUse& host = hosts[process.host()];
    MemoryAccount needs = statistics.memory_account();
    // Threads of one process share it, and report the same use. The process is
    // also what starts them, which takes as much again.
    const int members = ++host.members[process.pid()];
    if (members > 2) needs.clear_program();
    Add(needs, &host.needs);
    if (members == 1) host.used += statistics.proportional_memory_bytes();
    host.limit = std::max(host.limit, statistics.memory_limit_bytes());
  }
  return hosts;
}

}  // namespace

std::vector<std::string> MemoryNotice::Update(const StatusReply& status) {
  std::vector<std::string> lines;
  for (const auto& [name, host] : UseByHost(status)) {
    const int64_t needed = TotalBytes(host.needs);
    if (host.limit == 0 || 2 * needed <= host.limit) continue;
    if (needs_told_.insert(name).second) {
      lines.push_back(absl::StrCat(
          needed > host.limit ? "warning: " : "", "the job needs ",
          FormatMemory(needed), " of the memory of host ", name, ", ",
          FormatMemory(host.limit), ": ", DescribeMemory(host.needs),
          needed > host.limit ? "; start it with --fit" : ""));
    }
    if (status.step() > 0 && host.used > 0 && use_told_.insert(name).second) {
      lines.push_back(absl::StrCat("the job uses ", FormatMemory(host.used),
                                   " of the memory of host ", name,
                                   " after step ", status.step()));
    }
  }
  return lines;
}

}  // namespace tributary
