// The identity and the resource usage of this process. All functions are
// thread-safe. If the system does not provide a value, a function returns the
// default that its comment states.
#ifndef TRIBUTARY_COMMON_OS_PROCESS_H_
#define TRIBUTARY_COMMON_OS_PROCESS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace tributary {

// Returns the peak resident set size in bytes; 0 if unknown.
int64_t PeakMemoryBytes();

// Makes PeakMemoryBytes begin again with the present size, where the system
// allows it.
void ResetPeakMemory();

// Returns the resident set size in bytes; 0 if unknown.
int64_t MemoryBytes();

// Returns the part of the machine's memory that this process uses, where memory
// that processes share is divided evenly among them; 0 if unknown. Takes time
// in proportion to the resident memory: about 10 ms per GB.
int64_t ProportionalMemoryBytes();

// Returns the CPU time (user and system) of all threads of this process so far,
// in seconds; 0 if unknown.
double CpuSeconds();

// Returns the CPU time of the calling thread so far, in seconds; 0 if unknown.
double ThreadCpuSeconds();

// Returns the number of memory mappings that a process may have; 65530, the
// default of Linux, if unknown.
int64_t MaxMemoryMappings();

// Returns the host name; "localhost" if unknown.
std::string HostName();

// Returns the number of threads that can run at once, at least 1. This is the
// number of cores in the process's CPU affinity or, if that is smaller, the CPU
// quota of its control group, rounded up.
int UsableCores();

// Parses the text of a cgroup v2 file cpu.max and returns the quota in cores:
// 1.5 for "150000 100000". Returns nullopt for "max" and for invalid text.
std::optional<double> ParseCpuMax(absl::string_view text);

// Returns the CPU quota of a control group in cores: the smallest of the quotas
// of the group and its ancestors; nullopt if there is none. `membership` is the
// text of /proc/self/cgroup, which names the group. `mount` is the folder in
// which the control groups are mounted. Supports cgroup v2, and v1 without the
// ancestors.
std::optional<double> CpuQuota(const std::string& mount,
                               absl::string_view membership);

// Returns the text of /proc/self/cgroup, which names this process's control
// groups; empty if unknown. Processes of one machine with the same text share
// their limits.
std::string ControlGroups();

// Returns the memory in bytes that this process can still allocate within the
// limits of the machine and of its control group; nullopt if unknown. Unused
// page cache counts as available.
std::optional<int64_t> AvailableMemoryBytes();

// Returns the memory in bytes that this process could allocate if the machine,
// and the others in its control group, used none; nullopt if unknown.
std::optional<int64_t> MemoryLimitBytes();

// Returns the limit of this process's address space, in bytes (ulimit -v);
// nullopt if there is none.
std::optional<int64_t> AddressSpaceLimit();

// Like AvailableMemoryBytes, but reads the given text of /proc/meminfo, and the
// control groups that `mount` and `membership` describe as in CpuQuota, of
// cgroup v2 or v1.
std::optional<int64_t> AvailableMemory(absl::string_view meminfo,
                                       const std::string& mount,
                                       absl::string_view membership);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_OS_PROCESS_H_
