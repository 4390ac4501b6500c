#include "server/progress/health_watch.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "common/base/json.h"
#include "common/base/monotonic_clock.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

namespace fs = std::filesystem;

constexpr absl::Duration kDiskInterval = absl::Seconds(10);
// The disk is nearly full if less than this fraction is free, or less than so
// many checkpoints fit.
constexpr double kFreeShare = 0.01;
constexpr uintmax_t kCheckpoints = 2;

// A number that is not finite is null in JSON.
std::optional<double> LossOf(const nlohmann::json& json, const char* name) {
  const auto found = json.find(name);
  if (found == json.end()) return std::nullopt;
  if (found->is_null()) return std::numeric_limits<double>::quiet_NaN();
  if (!found->is_number()) return std::nullopt;
  return found->get<double>();
}

std::optional<double> NumberOf(const nlohmann::json& json, const char* name) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

HealthMonitor::Line Parse(const nlohmann::json& json) {
  HealthMonitor::Line line;
  line.step = static_cast<int64_t>(NumberOf(json, "step").value_or(0));
  line.loss = LossOf(json, "loss");
  line.evaluation_loss = LossOf(json, "evaluation_loss");
  line.skipped = json.contains("skipped");
  const auto workers = json.find("workers");
  if (workers == json.end() || !workers->is_array()) return line;
  for (const nlohmann::json& worker : *workers) {
    if (!worker.is_object()) continue;
    const double micro_batches = NumberOf(worker, "leaves").value_or(0);
    const double busy = NumberOf(worker, "forward_ms").value_or(0) +
                        NumberOf(worker, "backward_ms").value_or(0);
    if (micro_batches <= 0 || busy <= 0) continue;
    line.workers.push_back(
        {static_cast<int>(NumberOf(worker, "rank").value_or(0)),
         busy / micro_batches});
  }
  return line;
}

// Returns the size of the largest folder in `path`, without its folders.
uintmax_t LargestFolder(const fs::path& path) {
  uintmax_t largest = 0;
  std::error_code error;
  for (fs::directory_iterator folder(path, error), end; !error && folder != end;
       folder.increment(error)) {
    uintmax_t bytes = 0;
    std::error_code inner;
    for (fs::directory_iterator file(folder->path(), inner), last;
         !inner && file != last; file.increment(inner)) {
      std::error_code ignored;
      const uintmax_t size = file->file_size(ignored);
      if (!ignored) bytes += size;
    }
    largest = std::max(largest, bytes);
  }
  return largest;
}

}  // namespace

HealthWatch::HealthWatch(std::string directory, Logger* log, Hooks hooks)
    : directory_(std::move(directory)),
      log_(log),
      hooks_(std::move(hooks)),
      monitor_(0) {}

fs::space_info HealthWatch::SpaceOf(const std::string& folder) {
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  return error ? fs::space_info{} : space;
}

void HealthWatch::Begin(int64_t steps) {
  absl::MutexLock lock(&mu_);
  monitor_ = HealthMonitor(steps);
}

void HealthWatch::Add(const std::string& line) {
  const nlohmann::json json = ParseJson(line);
  if (!json.is_object()) return;
  const auto stop = json.find("stop_reason");
  if (stop != json.end() && stop->is_string()) {
    log_->Info("training stops after step %d: %s",
               static_cast<int64_t>(NumberOf(json, "step").value_or(0)),
               stop->get<std::string>());
  }
  const HealthMonitor::Line parsed = Parse(json);
  std::vector<HealthMonitor::Alarm> alarms;
  {
    absl::MutexLock lock(&mu_);
    alarms = monitor_.Add(parsed);
    const absl::Time now = MonotonicNow();
    if (now - disk_checked_ >= kDiskInterval) {
      disk_checked_ = now;
      CheckDisk(&alarms);
    }
  }
  for (const HealthMonitor::Alarm& alarm : alarms) {
    log_->Warning("%s", alarm.message);
    if (hooks_.on_alarm) hooks_.on_alarm(parsed.step, alarm);
  }
}

void HealthWatch::CheckDisk(std::vector<HealthMonitor::Alarm>* alarms) {
  const fs::space_info space = hooks_.space(directory_);
  if (space.capacity == 0) return;
  const uintmax_t checkpoint =
      LargestFolder(fs::path(directory_) / "checkpoints");
  const bool low = space.available < kCheckpoints * checkpoint ||
                   static_cast<double>(space.available) <
                       kFreeShare * static_cast<double>(space.capacity);
  if (low && !disk_low_) {
    alarms->push_back(
        {"disk_low",
         absl::StrFormat("the disk of %s is nearly full: %d MB are free, and a "
                         "checkpoint needs %d MB",
                         directory_, space.available >> 20, checkpoint >> 20)});
  }
  disk_low_ = low;
}

void HealthWatch::AddMetrics(MetricsPage* page) const {
  absl::MutexLock lock(&mu_);
  page->BeginGauge("tributary_alarm",
                   "1 while there is a reason to look at the job.");
  for (const auto& [kind, raised] : monitor_.active()) {
    page->Add(raised, {{"kind", kind}});
  }
  page->Add(disk_low_ ? 1 : 0, {{"kind", "disk_low"}});
}

}  // namespace tributary
