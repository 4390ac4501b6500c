// The coordinator's connection to the server in the same process.
#ifndef TRIBUTARY_SERVER_PROCESS_LOCAL_LINK_H_
#define TRIBUTARY_SERVER_PROCESS_LOCAL_LINK_H_

#include "absl/status/status.h"
#include "common/os/logger.h"
#include "proto/rendezvous.pb.h"
#include "server/membership/server_roster.h"
#include "server/process/local_server.h"

namespace tributary {

// Passes the coordinator's orders to a LocalServer. An order that the server
// refuses is logged.
class LocalLink final : public ServerLink {
 public:
  explicit LocalLink(Logger* log) : log_(log) {}
  // Call it before the first order.
  void SetServer(LocalServer* server) { server_ = server; }
  void Send(const ServerOrder& order) override;
  void Close(const absl::Status&) override {}

 private:
  LocalServer* server_ = nullptr;
  Logger* const log_;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_PROCESS_LOCAL_LINK_H_
