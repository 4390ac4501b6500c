#include "common/os/process.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/os/file.h"

namespace tributary {
namespace {

// Bounds the size of files of /proc and /sys, which are small.
constexpr int64_t kMaxBytes = 1 << 20;

std::string Contents(const std::string& path) {
  return ReadFile(path, kMaxBytes).value_or("");
}

template <typename Number>
std::optional<Number> Smaller(std::optional<Number> a,
                              std::optional<Number> b) {
  if (!a.has_value()) return b;
  return b.has_value() ? std::min(*a, *b) : a;
}

// Returns the quota of a group of cgroup v1, where quota and period are in two
// files, and a quota of -1 means that there is none.
std::optional<double> QuotaV1(const std::string& folder) {
  double quota, period;
  if (!absl::SimpleAtod(
          absl::StripAsciiWhitespace(Contents(folder + "/cpu.cfs_quota_us")),
          &quota) ||
      !absl::SimpleAtod(
          absl::StripAsciiWhitespace(Contents(folder + "/cpu.cfs_period_us")),
          &period) ||
      quota <= 0 || period <= 0) {
    return std::nullopt;
  }
  return quota / period;
}

// Returns the smallest quota of a group of cgroup v2 and its ancestors, each of
// which may have one.
std::optional<double> QuotaV2(const std::string& mount, std::string group) {
  std::optional<double> quota;
  for (;;) {
    quota = Smaller(
        quota, ParseCpuMax(Contents(absl::StrCat(mount, group, "/cpu.max"))));
    const size_t slash = group.rfind('/');
    if (slash == std::string::npos || group.empty()) return quota;
    group.resize(slash);
  }
}

// Returns the number in the line "NAME NUMBER".
std::optional<int64_t> FieldOf(absl::string_view text, absl::string_view name) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::ConsumePrefix(&line, name)) continue;
    absl::ConsumeSuffix(&line, "kB");
    int64_t number = 0;
    if (absl::SimpleAtoi(line, &number)) return number;
  }
  return std::nullopt;
}

// The files of a control group's memory, of cgroup v2 and v1.
struct MemoryFiles {
  const char* limit;
  const char* used;
  const char* unused_files;  // The name in memory.stat, and a space.
};
constexpr MemoryFiles kMemoryFilesV2 = {"/memory.max", "/memory.current",
                                        "inactive_file "};
constexpr MemoryFiles kMemoryFilesV1 = {
    "/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file "};

// Returns the limit of the group, or what of it is left; none if it has no
// limit. Version 1 states a limit near 2^63 if there is none.
std::optional<int64_t> LimitOfGroup(const std::string& folder,
                                    const MemoryFiles& files) {
  int64_t limit = 0;
  if (!absl::SimpleAtoi(Contents(folder + files.limit), &limit) ||
      limit >= int64_t{1} << 62) {
    return std::nullopt;
  }
  return limit;
}
std::optional<int64_t> LeftInGroup(const std::string& folder,
                                   const MemoryFiles& files) {
  const std::optional<int64_t> limit = LimitOfGroup(folder, files);
  int64_t used = 0;
  if (!limit.has_value() ||
      !absl::SimpleAtoi(Contents(folder + files.used), &used)) {
    return std::nullopt;
  }
  const int64_t unused_files =
      FieldOf(Contents(folder + "/memory.stat"), files.unused_files)
          .value_or(0);
  return std::max<int64_t>(0, *limit - used + unused_files);
}

// Returns the smaller of `bytes` and the least value of `of_group` for the
// groups of `membership` and their ancestors.
std::optional<int64_t> LeastOfGroups(
    std::optional<int64_t> bytes, const std::string& mount,
    absl::string_view membership,
    std::optional<int64_t> (*of_group)(const std::string& folder,
                                       const MemoryFiles& files)) {
  // Lines have the form "hierarchy:controllers:path"; version 2 has no
  // controllers.
  for (const absl::string_view line : absl::StrSplit(membership, '\n')) {
    const std::vector<std::string> parts =
        absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    const bool v2 = parts[1].empty();
    if (!v2 && parts[1] != "memory") continue;
    const std::string root = v2 ? mount : mount + "/memory";
    absl::string_view group = parts[2];
    for (;;) {
      absl::ConsumeSuffix(&group, "/");
      bytes = Smaller(bytes, of_group(absl::StrCat(root, group),
                                      v2 ? kMemoryFilesV2 : kMemoryFilesV1));
      if (group.empty()) break;
      group = group.substr(0, group.rfind('/'));
    }
  }
  return bytes;
}

int AllowedCores() {
  cpu_set_t set;
  // The set holds 1,024 cores; for larger machines the standard library counts
  // them.
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(std::thread::hardware_concurrency());
}

}  // namespace

int64_t PeakMemoryBytes() {
  const auto kibibytes = FieldOf(Contents("/proc/self/status"), "VmHWM:");
  if (kibibytes.has_value()) return *kibibytes * 1024;
  // The /proc of some sandboxes has no such line.
  rusage usage;
  if (getrusage(RUSAGE_SELF, &usage) != 0) return 0;
  return static_cast<int64_t>(usage.ru_maxrss) * 1024;
}

void ResetPeakMemory() {
  const int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  // A failure leaves the larger peak.
  [[maybe_unused]] const ssize_t written = write(fd, "5", 1);
  close(fd);
}

int64_t MemoryBytes() {
  return FieldOf(Contents("/proc/self/status"), "VmRSS:").value_or(0) * 1024;
}

int64_t ProportionalMemoryBytes() {
  return FieldOf(Contents("/proc/self/smaps_rollup"), "Pss:").value_or(0) *
         1024;
}

int64_t MaxMemoryMappings() {
  int64_t mappings = 0;
  const bool known = absl::SimpleAtoi(
      absl::StripAsciiWhitespace(Contents("/proc/sys/vm/max_map_count")),
      &mappings);
  return known ? mappings : 65530;
}

double ThreadCpuSeconds() {
  timespec time;
  if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) != 0) return 0;
  return static_cast<double>(time.tv_sec) +
         static_cast<double>(time.tv_nsec) * 1e-9;
}

double CpuSeconds() {
  rusage usage;
  if (getrusage(RUSAGE_SELF, &usage) != 0) return 0;
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) +
           static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

std::string HostName() {
  char name[256] = "";
  if (gethostname(name, sizeof(name) - 1) != 0 || name[0] == '\0') {
    return "localhost";
  }
  return name;
}

int UsableCores() {
  const std::optional<double> quota =
      CpuQuota("/sys/fs/cgroup", ControlGroups());
  int cores = AllowedCores();
  // Rounded up: one more thread uses the fraction of a core that remains.
  if (quota.has_value() && *quota < cores) {
    cores = static_cast<int>(std::ceil(*quota));
  }
  return std::max(cores, 1);
}

std::optional<double> ParseCpuMax(absl::string_view text) {
  const std::vector<absl::string_view> parts =
      absl::StrSplit(absl::StripAsciiWhitespace(text), ' ');
  double quota, period;
  if (parts.size() != 2 || !absl::SimpleAtod(parts[0], &quota) ||
      !absl::SimpleAtod(parts[1], &period) || !(quota > 0) || !(period > 0)) {
    return std::nullopt;
  }
  return quota / period;
}

std::optional<double> CpuQuota(const std::string& mount,
                               absl::string_view membership) {
  std::optional<double> quota;
  // Lines have the form "hierarchy:controllers:path"; version 2 has no
  // controllers.
  for (const absl::string_view line : absl::StrSplit(membership, '\n')) {
    const std::vector<std::string> parts =
        absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    const std::string group = parts[2] == "/" ? "" : parts[2];
    if (parts[1].empty()) {
      quota = Smaller(quota, QuotaV2(mount, group));
    }
    const std::vector<absl::string_view> controllers =
        absl::StrSplit(parts[1], ',');
    if (std::find(controllers.begin(), controllers.end(), "cpu") !=
        controllers.end()) {
      const std::string folder = absl::StrCat(mount, "/", parts[1]);
      quota = Smaller(quota, QuotaV1(folder + group));
      // The path of the group is often not visible inside a container.
      quota = Smaller(quota, QuotaV1(mount + "/cpu"));
    }
  }
  return quota;
}

std::string ControlGroups() { return Contents("/proc/self/cgroup"); }

std::optional<int64_t> AvailableMemoryBytes() {
  return AvailableMemory(Contents("/proc/meminfo"), "/sys/fs/cgroup",
                         ControlGroups());
}

std::optional<int64_t> AvailableMemory(absl::string_view meminfo,
                                       const std::string& mount,
                                       absl::string_view membership) {
  std::optional<int64_t> available = FieldOf(meminfo, "MemAvailable:");
  if (available.has_value()) *available *= 1024;
  return LeastOfGroups(available, mount, membership, &LeftInGroup);
}

std::optional<int64_t> AddressSpaceLimit() {
  rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return std::nullopt;
  }
  return static_cast<int64_t>(limit.rlim_cur);
}

std::optional<int64_t> MemoryLimitBytes() {
  std::optional<int64_t> total =
      FieldOf(Contents("/proc/meminfo"), "MemTotal:");
  if (total.has_value()) *total *= 1024;
  return LeastOfGroups(total, "/sys/fs/cgroup", ControlGroups(), &LimitOfGroup);
}

}  // namespace tributary
