// How many bytes of an exchange pass through the network interface of each
// host: with one server or several, wherever they run, and with all-reduce.
//
// "Up" are gradients from workers to servers, "down" weights from servers to
// workers. What stays on a host does not touch its interface. Links are full
// duplex: bytes out and bytes in do not share.
#ifndef TRIBUTARY_COMMON_PLAN_EXCHANGE_TRAFFIC_H_
#define TRIBUTARY_COMMON_PLAN_EXCHANGE_TRAFFIC_H_

#include <cstdint>
#include <vector>

namespace tributary {

// Messages of one chunk, in bytes on the wire.
struct ChunkBytes {
  double up = 0;    // One Contribution.
  double down = 0;  // One Weights.
};

struct ExchangeLoad {
  std::vector<ChunkBytes> chunks;  // By chunk.
  // By worker: how many contributions it sends for each chunk; see
  // ContributionsByWorker. A worker without any still gets the weights.
  std::vector<int> contributions;
};

// On which host each process runs. Hosts are numbered from 0.
struct Placement {
  std::vector<int> worker_hosts;  // By rank.
  std::vector<int> server_hosts;  // By shard; see ArenaLayout::ShardOf.
};

// Bytes through one host's interface in one step.
struct HostTraffic {
  double up_out = 0;
  double up_in = 0;
  double down_out = 0;
  double down_in = 0;

  double out() const { return up_out + down_out; }
  double in() const { return up_in + down_in; }
  // Of the busier direction.
  double busier() const { return out() > in() ? out() : in(); }
};

// By host, 0 to the largest number in `placement`.
std::vector<HostTraffic> TrafficByHost(const ExchangeLoad& load,
                                       const Placement& placement);

// The host whose busier direction carries most; the first of several.
int BusiestHost(const std::vector<HostTraffic>& traffic);

// What `workers` send for each chunk when the leaves are dealt evenly: as many
// contributions as maximal subtrees make up a worker's run of leaves. One each
// if `workers` is a power of two.
std::vector<int> ContributionsByWorker(int micro_batches, int workers);

// ---- The law: bytes each way through the busiest interface, in model sizes,
// where up and down weigh the same and chunks are many. `workers` is at least
// 2, each on a host of its own.

// One server on a host of its own.
double CentralServerLaw(int workers);
// Ring all-reduce (Patarasuk and Yuan, 2009), and equal shares on servers that
// run on the workers' hosts.
double AllReduceLaw(int workers);
// The least that servers can do with `extra_hosts`, at most `workers`, beside
// those of the workers: shares are dealt so that no link waits for another
// (Jiang et al., 2020: BytePS).
double LeastTrafficLaw(int workers, int extra_hosts);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_PLAN_EXCHANGE_TRAFFIC_H_
