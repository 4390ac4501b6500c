// The launcher's end of the calls of its agents.
#ifndef TRIBUTARY_DEPLOY_LAUNCH_SLURM_AGENT_SERVER_H_
#define TRIBUTARY_DEPLOY_LAUNCH_SLURM_AGENT_SERVER_H_

#include <map>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/listener/listener.h"
#include "common/os/logger.h"
#include "common/stream/message_stream.h"
#include "common/transport/security.h"
#include "deploy/launch/slurm/node_agents.pb.h"

namespace tributary {

// Serves NodeAgents, and collects what agents report. Calls are numbered from 0
// in the order in which they begin. Thread-safe. Only Start and the destructor
// block.
class AgentServer {
 public:
  struct Event {
    int call = 0;
    AgentReport report;
    bool gone = false;  // True if the call has ended.
  };

  // Listens on a free port of all interfaces, for `agents` agents that have
  // credentials of `security`'s authority. Returns the errors of
  // Listener::Start.
  static absl::StatusOr<std::unique_ptr<AgentServer>> Start(
      const Security& security, int agents);
  // Ends all calls.
  ~AgentServer();

  int port() const { return listener_->port(); }
  // Returns what has happened since the last call.
  std::vector<Event> Take() ABSL_LOCKS_EXCLUDED(mu_);
  // Sends an order. No effect if the call has ended.
  void Send(int call, const AgentOrder& order) ABSL_LOCKS_EXCLUDED(mu_);
  // Ends the call. Take reports nothing of it any more.
  void Close(int call) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  class Service;
  class Session;

  AgentServer();
  int Add(ServerStream<AgentOrder>* stream) ABSL_LOCKS_EXCLUDED(mu_);
  void Receive(int call, const AgentReport& report) ABSL_LOCKS_EXCLUDED(mu_);
  void Remove(int call) ABSL_LOCKS_EXCLUDED(mu_);

  const std::unique_ptr<Logger> log_;
  const std::unique_ptr<Service> service_;
  absl::Mutex mu_;
  int next_call_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<int, ServerStream<AgentOrder>*> calls_ ABSL_GUARDED_BY(mu_);
  std::vector<Event> events_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<Listener> listener_;
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCH_SLURM_AGENT_SERVER_H_
