#include "deploy/tools/status/status_screen.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/event/job_event.h"
#include "common/text/escape.h"
#include "deploy/launch/job/progress_display.h"

namespace tributary {
namespace {

constexpr int kBarColumns = 40;
constexpr int kShownEvents = 5;
// A coordinator that answers does so within this time.
constexpr absl::Duration kFresh = absl::Seconds(3);

std::string Bar(const StatusReply& status) {
  const double share = status.steps() > 0
                           ? static_cast<double>(status.step()) /
                                 static_cast<double>(status.steps())
                           : 0;
  const int done =
      std::clamp(static_cast<int>(share * kBarColumns), 0, kBarColumns);
  return absl::StrCat("[", std::string(done, '#'),
                      std::string(kBarColumns - done, '.'), "]");
}

std::string Seconds(int64_t milliseconds) {
  return absl::StrFormat("%.1f s", 1e-3 * static_cast<double>(milliseconds));
}

std::string Megabytes(int64_t bytes) {
  return bytes == 0
             ? "-"
             : absl::StrFormat("%.0f MB", 1e-6 * static_cast<double>(bytes));
}

}  // namespace

std::string FormatStatus(const StatusReply& status) {
  std::string text = FormatProgress(status, 0);
  // While the job waits for workers, the progress line counts them itself.
  if (status.phase() != StatusReply::WAITING) {
    absl::StrAppendFormat(&text, " | workers %d | servers %d", status.workers(),
                          status.servers());
  }
  while (absl::EndsWith(text, "\n")) text.pop_back();
  if (!status.model().empty()) {
    absl::StrAppend(&text, " | model ", status.model());
  }
  return text;
}

std::string FormatProcesses(const StatusReply& status) {
  if (status.process().empty()) return "";
  bool measured = false;
  std::set<std::string> releases;
  for (const ProcessStatus& process : status.process()) {
    measured = measured || process.has_statistics();
    if (!process.release().empty()) releases.insert(process.release());
  }
  // Left out if nothing is known, as before the first heartbeat.
  const auto resources = [measured](const std::string& memory,
                                    const std::string& lease) {
    return measured ? absl::StrFormat("%9s %8s  ", memory, lease) : "";
  };
  // Releases matter only if they differ.
  const auto release = [several =
                            releases.size() > 1](const std::string& name) {
    return several ? absl::StrFormat("%-9s ", name) : "";
  };
  std::string text;
  absl::StrAppendFormat(&text, "\n%-12s %10s  %-9s %8s  %s%s%-28s %s",
                        "process", "step", "phase", "silent",
                        resources("memory", "lease"), release("release"),
                        "waits for", "at");
  for (const ProcessStatus& process : status.process()) {
    absl::StrAppendFormat(
        &text, "\n%-12s %10s  %-9s %8s  %s%s%-28s %s",
        absl::StrCat(process.role(), " ", process.number()),
        process.step() < 0 ? "-" : absl::StrCat(process.step()),
        process.phase().empty() ? "starting" : process.phase(),
        process.silent_ms() < 0 ? "-" : Seconds(process.silent_ms()),
        resources(Megabytes(process.statistics().memory_bytes()),
                  process.lease_left_ms() < 0
                      ? "-"
                      : Seconds(process.lease_left_ms())),
        release(process.release().empty() ? "-" : process.release()),
        process.waits_for().empty() ? "-" : process.waits_for(),
        process.place());
  }
  return text;
}

std::vector<std::string> FormatEvents(const StatusReply& status, int count) {
  std::vector<std::string> lines;
  const int events = status.event_size();
  for (int i = std::max(0, events - count); i < events; ++i) {
    const JobEvent& event = status.event(i);
    lines.push_back(absl::StrFormat(
        "%s %-7s step %d: %s",
        absl::FormatTime("%H:%M:%S",
                         absl::UnixEpoch() + absl::Seconds(event.time()),
                         absl::LocalTimeZone()),
        std::string(SeverityName(event.severity())), event.step(),
        event.message()));
  }
  return lines;
}

std::string StatusScreen::Show(const StatusReply& status, absl::Duration age) {
  std::vector<std::string> lines = {Bar(status)};
  if (age > kFresh) {
    lines[0] = absl::StrFormat("%s no answer for %d s", lines[0],
                               absl::ToInt64Seconds(age));
  }
  lines.push_back(columns_ > 0 ? FormatProgress(status, columns_ - 1)
                               : FormatStatus(status));
  for (std::string& line : std::vector<std::string>(
           absl::StrSplit(FormatProcesses(status), '\n'))) {
    if (!line.empty()) lines.push_back(EscapeForTerminal(line));
  }
  std::vector<std::string> events = FormatEvents(status, kShownEvents);
  for (std::string& line : events) line = EscapeForTerminal(line);
  if (columns_ == 0) {
    lines.insert(lines.end(), events.begin(), events.end());
    return absl::StrCat(std::exchange(shown_, true) ? "\n" : "",
                        absl::StrJoin(lines, "\n"), "\n");
  }
  // The cursor stands in the line after the last one.
  const auto rows = static_cast<size_t>(std::max(rows_ - 1, 2));
  // Events have at most a third of the screen.
  if (events.size() > rows / 3) {
    events.erase(events.begin(), events.end() - rows / 3);
  }
  const size_t room = rows - events.size();
  if (lines.size() > room) {
    const size_t hidden = lines.size() - room + 1;
    lines.resize(room - 1);
    lines.push_back(absl::StrCat("and ", hidden, " more"));
  }
  lines.insert(lines.end(), events.begin(), events.end());
  std::string text;
  if (lines_ > 0) absl::StrAppend(&text, "\x1b[", lines_, "A\r");
  for (const std::string& line : lines) {
    // Leaves the last column free, because some terminals wrap after it.
    absl::StrAppend(&text, line.substr(0, columns_ - 1), "\x1b[K\n");
  }
  absl::StrAppend(&text, "\x1b[J");
  lines_ = static_cast<int>(lines.size());
  return text;
}

}  // namespace tributary
