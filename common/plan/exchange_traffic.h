// Computes the bytes that an exchange sends through the network interface of
// each host, for any number and placement of servers and for all-reduce.
//
// "Up" denotes gradients from workers to servers, "down" weights from servers
// to workers. Traffic between two processes of one host does not use its
// interface. Links are full duplex, so the two directions do not compete.
#ifndef TRIBUTARY_COMMON_PLAN_EXCHANGE_TRAFFIC_H_
#define TRIBUTARY_COMMON_PLAN_EXCHANGE_TRAFFIC_H_

#include <cstdint>
#include <vector>

namespace tributary {

// Sizes of the messages of one chunk, in bytes on the wire.
struct ChunkMessages {
  double up = 0;    // Size of one Contribution (a gradient sum).
  double down = 0;  // Size of one Weights message.
};

// What an exchange sends in one step.
struct StepMessages {
  std::vector<ChunkMessages> chunks;  // Message sizes, indexed by chunk.
  // Number of contributions (gradient sums) that each worker sends per chunk,
  // indexed by worker; see ContributionsByWorker. A worker without
  // contributions still receives the weights.
  std::vector<int> contributions;
  // Of the rows of tables, what each worker with contributions sends (requests
  // and gradients) and receives. Every server has an equal part of it.
  ChunkMessages rows;
};

// The host of each process. Hosts are numbered from 0.
struct ProcessHosts {
  std::vector<int> worker_hosts;  // Host of each worker, indexed by rank.
  std::vector<int> server_hosts;  // Host of each server, indexed by shard.
};

// Number of bytes that one host's interface sends (out) and receives (in) in
// one step, for gradients (up) and for weights (down).
struct HostTraffic {
  double up_out = 0;
  double up_in = 0;
  double down_out = 0;
  double down_in = 0;

  double out() const { return up_out + down_out; }
  double in() const { return up_in + down_in; }
  // Returns the larger of out() and in().
  double busier() const { return out() > in() ? out() : in(); }
};

// Returns the traffic of each host, indexed by host, up to the largest host
// number in `placement`.
std::vector<HostTraffic> TrafficByHost(const StepMessages& load,
                                       const ProcessHosts& placement);

// Returns the host with the largest HostTraffic::busier(); of several such
// hosts, the first.
int BusiestHost(const std::vector<HostTraffic>& traffic);

// Returns the number of contributions (gradient sums) that each of `workers`
// workers sends per chunk, indexed by worker, if the micro-batches are divided
// evenly. Gradients of micro-batches are added in the order of a binary tree,
// the reduction tree. A worker sends one contribution for each maximal subtree
// in its range of micro-batches: one if `workers` is a power of two. Workers
// without micro-batches send none.
std::vector<int> ContributionsByWorker(int micro_batches, int workers);

// Returns the bytes per step in each direction through one host's network
// interface, divided by the size of the model in bytes, with a ring all-reduce
// (Patarasuk and Yuan, 2009). Servers with equal shards that run on the
// workers' hosts have the same traffic, if there are many chunks. Each of
// `workers` workers, at least 2, runs on a host of its own.
double AllReduceLaw(int workers);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_PLAN_EXCHANGE_TRAFFIC_H_
