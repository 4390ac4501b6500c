// Where a worker of a pipeline receives transfers.
#ifndef TRIBUTARY_WORKER_EXCHANGE_STAGES_STAGE_PORT_H_
#define TRIBUTARY_WORKER_EXCHANGE_STAGES_STAGE_PORT_H_

#include <string>

#include "proto/rendezvous.pb.h"
#include "worker/exchange/stages/stage_receiver.h"

namespace tributary {

// Accepts the calls of the workers of other stages from its creation on.
// Thread-safe. Only the destructor blocks.
class StagePort {
 public:
  // Ends all calls.
  virtual ~StagePort() = default;

  // Delivers transfers to this worker from now on. Its objects must outlive the
  // port. Before, the port refuses all workers with Unavailable, so that they
  // try again.
  virtual void Serve(const StageReceiver::Worker& worker) = 0;

  // Return where workers on other hosts, and on this host, reach this one.
  virtual const std::string& address() const = 0;
  virtual const LocalAddress& local_address() const = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_STAGES_STAGE_PORT_H_
