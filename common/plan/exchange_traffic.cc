#include "common/plan/exchange_traffic.h"

#include <algorithm>

#include "common/parameters/arena_layout.h"
#include "common/parameters/reduction_tree.h"

namespace tributary {

std::vector<HostTraffic> TrafficByHost(const StepMessages& load,
                                       const ProcessHosts& placement) {
  int hosts = 0;
  for (const int host : placement.worker_hosts)
    hosts = std::max(hosts, host + 1);
  for (const int host : placement.server_hosts)
    hosts = std::max(hosts, host + 1);
  const int servers = static_cast<int>(placement.server_hosts.size());
  // Bytes of one contribution and one version of all chunks that each host's
  // servers own.
  std::vector<ChunkMessages> owned(hosts);
  ChunkMessages whole;
  for (size_t chunk = 0; chunk < load.chunks.size(); ++chunk) {
    const int shard = ArenaLayout::ShardOf(static_cast<int>(chunk), servers);
    ChunkMessages& share = owned[placement.server_hosts[shard]];
    share.up += load.chunks[chunk].up;
    share.down += load.chunks[chunk].down;
    whole.up += load.chunks[chunk].up;
    whole.down += load.chunks[chunk].down;
  }
  std::vector<HostTraffic> traffic(hosts);
  double contributions = 0;
  for (const int count : load.contributions) contributions += count;
  const double workers = static_cast<double>(placement.worker_hosts.size());
  const double computing = static_cast<double>(
      load.contributions.size() -
      std::count(load.contributions.begin(), load.contributions.end(), 0));
  // The rows that each host's servers exchange with one worker.
  std::vector<ChunkMessages> rows(hosts);
  for (const int host : placement.server_hosts) {
    rows[host].up += load.rows.up / servers;
    rows[host].down += load.rows.down / servers;
  }
  // First assumes that all bytes cross the network, then subtracts those that
  // stay on a host.
  for (int host = 0; host < hosts; ++host) {
    traffic[host].up_in =
        contributions * owned[host].up + computing * rows[host].up;
    traffic[host].down_out =
        workers * owned[host].down + computing * rows[host].down;
  }
  for (size_t worker = 0; worker < placement.worker_hosts.size(); ++worker) {
    const int host = placement.worker_hosts[worker];
    const double count = load.contributions[worker];
    traffic[host].up_out += count * (whole.up - owned[host].up);
    traffic[host].up_in -= count * owned[host].up;
    traffic[host].down_in += whole.down - owned[host].down;
    traffic[host].down_out -= owned[host].down;
    if (load.contributions[worker] == 0) continue;
    traffic[host].up_out += load.rows.up - rows[host].up;
    traffic[host].up_in -= rows[host].up;
    traffic[host].down_in += load.rows.down - rows[host].down;
    traffic[host].down_out -= rows[host].down;
  }
  return traffic;
}

int BusiestHost(const std::vector<HostTraffic>& traffic) {
  const auto busiest =
      std::max_element(traffic.begin(), traffic.end(),
                       [](const HostTraffic& a, const HostTraffic& b) {
                         return a.busier() < b.busier();
                       });
  return static_cast<int>(busiest - traffic.begin());
}

std::vector<int> ContributionsByWorker(int micro_batches, int workers) {
  std::vector<int> counts(workers);
  const int computing = std::min(workers, micro_batches);
  for (int64_t i = 0; i < computing; ++i) {
    const LeafRange range = {
        static_cast<int>(i * micro_batches / computing),
        static_cast<int>((i + 1) * micro_batches / computing)};
    counts[i] = static_cast<int>(MaximalSubtrees(range, micro_batches).size());
  }
  return counts;
}

double AllReduceLaw(int workers) { return 2.0 * (workers - 1) / workers; }

}  // namespace tributary
