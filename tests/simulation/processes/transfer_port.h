// Where a simulated worker of a pipeline receives transfers, in place of
// StageHost.
#ifndef TRIBUTARY_TESTS_SIMULATION_PROCESSES_TRANSFER_PORT_H_
#define TRIBUTARY_TESTS_SIMULATION_PROCESSES_TRANSFER_PORT_H_

#include <memory>
#include <string>
#include <vector>

#include "proto/rendezvous.pb.h"
#include "tests/simulation/world/link.h"
#include "tests/simulation/world/streams.h"
#include "tests/simulation/world/world.h"
#include "worker/exchange/stages/stage_port.h"

namespace tributary::simulation {

// The end of the port ends its calls. The address is the name of the process.
class TransferPort final : public StagePort {
 public:
  // `*port` is this object as long as it exists.
  TransferPort(World* world, const std::shared_ptr<Life>& process,
               TransferPort** port);
  ~TransferPort() override;

  void Serve(const StageReceiver::Worker& worker) override { worker_ = worker; }
  const std::string& address() const override { return address_; }
  const LocalAddress& local_address() const override { return local_; }

  // Accepts the call of another worker.
  void Accept(const std::shared_ptr<Link>& link);

 private:
  World* const world_;
  TransferPort** const port_;
  const std::string address_;
  LocalAddress local_;
  const std::shared_ptr<Life> scope_;
  ServedCalls calls_;
  std::vector<std::weak_ptr<Link>> links_;
  StageReceiver::Worker worker_;
};

}  // namespace tributary::simulation

#endif  // TRIBUTARY_TESTS_SIMULATION_PROCESSES_TRANSFER_PORT_H_
