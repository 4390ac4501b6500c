#include "deploy/tools/compare/comparison_hosts.h"

#include <algorithm>
#include <functional>
#include <string>

#include "absl/strings/string_view.h"

namespace tributary {
namespace {

using Memory = absl::optional<double>;

// Returns the peak memory over the processes of this role and rank, or of any
// rank, in the run; none without a run.
Memory MemoryOf(const ComparedRun* run, absl::string_view role, int rank) {
  if (run == nullptr) return absl::nullopt;
  Memory most;
  for (const ProcessFigures& process : run->figures->processes) {
    if (process.role != role || (rank >= 0 && process.rank != rank)) continue;
    most = std::max(most.value_or(0), process.peak_memory_bytes);
  }
  return most;
}

constexpr int kAnyRank = -1;

Memory Sum(Memory a, Memory b) {
  if (!a.has_value() || !b.has_value()) return absl::nullopt;
  return *a + *b;
}

class Describer {
 public:
  explicit Describer(const Comparison& comparison)
      : workers_(comparison.workers),
        one_server_(FindDone(comparison, "synchronous")),
        shards_(FindDone(comparison, "synchronous_sharded")),
        all_reduce_(FindDone(comparison, "all_reduce")) {}

  void Add(PlannedExchange row) {
    const int hosts = static_cast<int>(row.hosts.size());
    const Memory worker = MemoryOf(one_server_, "worker", kAnyRank);
    const Memory server = MemoryOf(one_server_, "server", kAnyRank);
    if (row.key == "primary_host") {
      row.name += " (DataParallel)";
      AddHost(row, "worker 0 and the server", 0, 1,
              Sum(MemoryOf(one_server_, "worker", 0), server));
      AddHost(row, workers_ == 2 ? "worker 1" : "each other worker", 1,
              workers_, worker);
    } else if (row.key == "one_server") {
      AddHost(row, "the server", workers_, hosts, server);
      AddHost(row, "each worker", 0, workers_, worker);
    } else if (row.key == "worker_hosts") {
      AddHost(row, "each worker and its server", 0, hosts,
              Sum(MemoryOf(shards_, "worker", kAnyRank),
                  MemoryOf(shards_, "server", kAnyRank)));
    } else if (row.key == "all_reduce") {
      AddHost(row, "each worker", 0, hosts,
              MemoryOf(all_reduce_, "worker", kAnyRank));
    }
  }

  std::vector<HostFigures> Take() { return std::move(figures_); }

 private:
  // Adds the busiest of the hosts in [begin, end), unless the range is empty.
  void AddHost(const PlannedExchange& row, const std::string& name, int begin,
               int end, Memory memory) {
    if (begin >= end || end > static_cast<int>(row.hosts.size())) return;
    const auto busiest = std::max_element(
        row.hosts.begin() + begin, row.hosts.begin() + end,
        [](const PlannedHost& a, const PlannedHost& b) {
          return a.bytes_out + a.bytes_in < b.bytes_out + b.bytes_in;
        });
    figures_.push_back({row.name, name, busiest->bytes_out, busiest->bytes_in,
                        memory, 1e3 * row.step_seconds});
  }

  const int workers_;
  const ComparedRun* const one_server_;
  const ComparedRun* const shards_;
  const ComparedRun* const all_reduce_;
  std::vector<HostFigures> figures_;
};

}  // namespace

std::vector<HostFigures> DescribeHosts(const ExchangePlan& plan,
                                       const Comparison& comparison) {
  Describer describer(comparison);
  for (const PlannedExchange& row : plan.rows) {
    const bool allowed = std::none_of(
        comparison.left_out.begin(), comparison.left_out.end(),
        [&](const LeftOutExchange& left) { return left.name == row.key; });
    if (allowed) describer.Add(row);
  }
  return describer.Take();
}

}  // namespace tributary
