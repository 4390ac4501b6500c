// The identity and the resource usage of this process. All functions are
// thread-safe. Where the system does not provide a value, each returns the
// value documented for it.
#ifndef TRIBUTARY_COMMON_OS_PROCESS_H_
#define TRIBUTARY_COMMON_OS_PROCESS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace tributary {

// Returns the peak resident set size in bytes; 0 if unknown.
int64_t PeakMemoryBytes();

// Returns the user and system time of all threads so far, in seconds.
double CpuSeconds();

// Returns the host name; "localhost" if unknown.
std::string HostName();

// Returns the number of threads that can run at once, at least 1: the cores of
// the process's CPU affinity, limited by the CPU quota of its control group,
// rounded up.
int UsableCores();

// Parses a cgroup v2 cpu.max: "150000 100000" is 1.5 cores. Returns none for
// "max" and for invalid text.
std::optional<double> ParseCpuMax(absl::string_view text);

// Returns the smallest quota of the group that `membership` (/proc/self/cgroup)
// names and its ancestors; `mount` is where the control groups are mounted.
// Supports cgroup v2 and, for the group itself, v1.
std::optional<double> CpuQuota(const std::string& mount,
                               absl::string_view membership);

// Returns the memory in bytes that this process can still allocate within the
// limits of the machine and of its control group; none if unknown. Unused page
// cache counts as available.
std::optional<int64_t> AvailableMemoryBytes();

// Like AvailableMemoryBytes, for the text of /proc/meminfo and a cgroup v2
// hierarchy as in CpuQuota.
std::optional<int64_t> AvailableMemory(absl::string_view meminfo,
                                       const std::string& mount,
                                       absl::string_view membership);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_OS_PROCESS_H_
