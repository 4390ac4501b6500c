#include "server/progress/resource_use.h"

#include <algorithm>
#include <cmath>

#include "nlohmann/json.hpp"

namespace tributary {
namespace {

constexpr absl::Duration kShortestInterval = absl::Seconds(1);
// The interval is this part of the run's age: a chart of the whole run shows no
// more.
constexpr int kIntervalsInRun = 500;

}  // namespace

void ResourceUse::Add(const std::string& role, int number,
                      const ProcessStatistics& totals, absl::Time now) {
  const auto [found, is_new] =
      processes_.try_emplace(std::make_pair(role, number));
  Process& process = found->second;
  const ProcessStatistics& known = process.newest.totals;
  const bool restarted = totals.cpu_seconds() < known.cpu_seconds() ||
                         totals.bytes_sent() < known.bytes_sent() ||
                         totals.bytes_received() < known.bytes_received();
  process.newest = {totals, now};
  process.newest.totals.clear_chunk_latency();
  if (is_new || restarted) process.base = process.newest;
}

void ResourceUse::Remove(const std::string& role, int number) {
  processes_.erase({role, number});
}

nlohmann::ordered_json ResourceUse::Take(absl::Time now, absl::Duration age) {
  const absl::Duration interval =
      std::max(kShortestInterval, age / kIntervalsInRun);
  if (now - last_ < interval) return nullptr;
  nlohmann::ordered_json record = nlohmann::ordered_json::array();
  for (auto& [name, process] : processes_) {
    const double seconds =
        absl::ToDoubleSeconds(process.newest.time - process.base.time);
    // A rate over less time would be mostly noise.
    if (seconds < 0.1) continue;
    const ProcessStatistics& from = process.base.totals;
    const ProcessStatistics& to = process.newest.totals;
    const auto rate = [seconds](int64_t begin, int64_t end) {
      return std::round(
          (static_cast<double>(end) - static_cast<double>(begin)) / seconds);
    };
    nlohmann::ordered_json use = {
        {"role", name.first},
        {"number", name.second},
        {"cpus",
         std::round(1e3 * (to.cpu_seconds() - from.cpu_seconds()) / seconds) /
             1e3},
        {"memory_bytes", to.memory_bytes()},
        {"sent_per_second", rate(from.bytes_sent(), to.bytes_sent())},
        {"received_per_second",
         rate(from.bytes_received(), to.bytes_received())}};
    if (to.shared_bytes_sent() > 0 || to.shared_bytes_received() > 0) {
      use["shared_sent_per_second"] =
          rate(from.shared_bytes_sent(), to.shared_bytes_sent());
      use["shared_received_per_second"] =
          rate(from.shared_bytes_received(), to.shared_bytes_received());
    }
    if (to.has_gpu_percent()) use["gpu_percent"] = to.gpu_percent();
    if (to.gpu_memory_bytes() > 0) {
      use["gpu_memory_bytes"] = to.gpu_memory_bytes();
    }
    record.push_back(std::move(use));
    process.base = process.newest;
  }
  if (record.empty()) return nullptr;
  last_ = now;
  return record;
}

}  // namespace tributary
