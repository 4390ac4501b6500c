#include "deploy/commands/machine_load.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/os/file.h"

namespace tributary {
namespace {

constexpr int64_t kMostBytes = 1 << 20;

// Command lines of processes that take part in jobs have their program first;
// workers of other programs have this variable.
constexpr char kProgram[] = "tributary";
constexpr char kWorkerVariable[] = "TRIBUTARY_COORDINATOR=";

std::string Contents(const std::string& path) {
  return ReadFile(path, kMostBytes).value_or("");
}

// Returns the numbered folders or files in `folder`.
std::set<int64_t> NumbersIn(const std::string& folder) {
  std::set<int64_t> numbers;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    int64_t number = 0;
    if (absl::SimpleAtoi(entry.path().filename().string(), &number)) {
      numbers.insert(number);
    }
  }
  return numbers;
}

std::vector<int64_t> NumbersOf(absl::string_view text) {
  std::vector<int64_t> numbers;
  for (const absl::string_view word :
       absl::StrSplit(text, absl::ByAnyChar(" \n"), absl::SkipEmpty())) {
    int64_t number = 0;
    // Numbers keep their places.
    numbers.push_back(absl::SimpleAtoi(word, &number) ? number : 0);
  }
  return numbers;
}

int Percent(double part) { return static_cast<int>(100 * part + 0.5); }

std::optional<int> Hottest(const std::string& sys) {
  std::optional<int> degrees;
  std::error_code error;
  for (const auto& zone : std::filesystem::directory_iterator(
           absl::StrCat(sys, "/class/thermal"), error)) {
    int64_t thousandths = 0;
    if (absl::SimpleAtoi(Contents(zone.path().string() + "/temp"),
                         &thousandths)) {
      degrees =
          std::max(degrees.value_or(0), static_cast<int>(thousandths / 1000));
    }
  }
  return degrees;
}

}  // namespace

MachineReading MachineLoad::Read(absl::Time now) {
  MachineReading reading;
  const absl::Duration since = now - std::exchange(last_, now);
  const std::string proc = root_ + "/proc";
  reading.degrees = Hottest(root_ + "/sys");
  // The first line: "cpu", and ticks by activity, of which the fourth and the
  // fifth are idle.
  const std::string stat = Contents(proc + "/stat");
  const std::vector<int64_t> ticks =
      NumbersOf(absl::string_view(stat).substr(0, stat.find('\n')));
  if (ticks.size() > 8) {
    int64_t total = 0;
    for (size_t i = 1; i <= 8; ++i) total += ticks[i];
    const int64_t idle = ticks[4] + ticks[5];
    const int64_t passed = total - std::exchange(total_ticks_, total);
    const int64_t idled = idle - std::exchange(idle_ticks_, idle);
    if (since < absl::InfiniteDuration() && passed > 0) {
      reading.busy_percent =
          Percent(1 - static_cast<double>(idled) / static_cast<double>(passed));
    }
  }
  const std::set<int64_t> pids = NumbersIn(proc);
  for (const int64_t pid : pids) {
    if (pid == getpid()) continue;
    if (const auto process = ReadProcess(pid, since)) {
      reading.processes.push_back(*process);
    }
  }
  for (auto it = process_ticks_.begin(); it != process_ticks_.end();) {
    it = pids.count(it->first) > 0 ? std::next(it) : process_ticks_.erase(it);
  }
  return reading;
}

std::optional<JobProcess> MachineLoad::ReadProcess(int64_t pid,
                                                   absl::Duration since) {
  const std::string folder = absl::StrCat(root_, "/proc/", pid);
  const std::string command = Contents(folder + "/cmdline");
  const std::vector<std::string> words =
      absl::StrSplit(command, '\0', absl::SkipEmpty());
  if (words.empty()) return std::nullopt;
  const std::string program = std::filesystem::path(words[0]).filename();
  if (program != kProgram &&
      !absl::StrContains(Contents(folder + "/environ"), kWorkerVariable)) {
    return std::nullopt;
  }
  JobProcess process;
  process.pid = pid;
  process.name = program;
  if (words.size() > 1) absl::StrAppend(&process.name, " ", words[1]);
  const std::vector<int64_t> pages = NumbersOf(Contents(folder + "/statm"));
  if (pages.size() > 1) {
    process.memory_bytes = pages[1] * sysconf(_SC_PAGESIZE);
  }
  // The name of the program, in parentheses, may contain spaces.
  const std::string stat = Contents(folder + "/stat");
  const size_t end = stat.rfind(')');
  if (end == std::string::npos) return process;
  const std::vector<int64_t> fields =
      NumbersOf(absl::string_view(stat).substr(end + 1));
  if (fields.size() <= 12) return process;
  const int64_t ticks = fields[11] + fields[12];
  const auto last = process_ticks_.find(pid);
  if (last != process_ticks_.end() && since > absl::ZeroDuration()) {
    process.cpu_percent = Percent(static_cast<double>(ticks - last->second) /
                                  static_cast<double>(sysconf(_SC_CLK_TCK)) /
                                  absl::ToDoubleSeconds(since));
  }
  process_ticks_[pid] = ticks;
  return process;
}

}  // namespace tributary
