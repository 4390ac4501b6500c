// What this process is and what it has used. All functions are safe from any
// thread; where the system does not tell, the answer is the documented one.
#ifndef TRIBUTARY_COMMON_OS_PROCESS_H_
#define TRIBUTARY_COMMON_OS_PROCESS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace tributary {

// Largest resident set so far, in bytes; 0 if unknown.
int64_t PeakMemoryBytes();

// User and system time of all threads so far, in seconds.
double CpuSeconds();

// "localhost" if unknown.
std::string HostName();

// Number of threads that can run at once, at least 1: the cores that the
// process may use, and no more than its control group's CPU quota, rounded up.
int UsableCores();

// The quota, in cores, that a cgroup v2 cpu.max says ("150000 100000": 1.5);
// none for "max" or anything else.
std::optional<double> ParseCpuMax(absl::string_view text);

// The smallest quota on the way from the root of the control groups, mounted
// at `mount`, to the group that `membership` (/proc/self/cgroup) names. Knows
// cgroup v2 and, for the group itself, v1.
std::optional<double> CpuQuota(const std::string& mount,
                               absl::string_view membership);

// What this process can still take before the machine, or its control group,
// has no memory left, in bytes; none if unknown. Files in the page cache that
// nobody uses count as free.
std::optional<int64_t> AvailableMemoryBytes();

// The same from /proc/meminfo's text, and for cgroup v2 as CpuQuota.
std::optional<int64_t> AvailableMemory(absl::string_view meminfo,
                                       const std::string& mount,
                                       absl::string_view membership);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_OS_PROCESS_H_
