#include "server/process/server_options.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "common/base/thread_pool.h"
#include "common/job/exchange_traits.h"
#include "common/os/process.h"
#include "common/text/release.h"

namespace tributary {

std::unique_ptr<Executor> MakeThreadPool(int threads) {
  return std::make_unique<ThreadPool>(threads);
}

absl::Status CheckServers(const JobSpec& job, int servers) {
  if (!ResolveExchange(job).servers_update && servers > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("exchange.all_reduce has one server, because gradients do "
                     "not pass through servers; --servers is ",
                     servers, ": omit it"));
  }
  if (!job.recovery().journal() || servers > 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("recovery.journal keeps each server's state on another "
                   "server, but the number of servers is ",
                   servers, ": add --servers 2, or more"));
}

void SetIdentity(const ServerOptions& options, Enlist* enlist) {
  enlist->set_host(HostName());
  enlist->set_pid(getpid());
  enlist->set_release(ReleaseName());
  enlist->set_device(options.device);
}

Listener::Options ListenerOptions(const ServerOptions& options,
                                  const LocalAddress& local) {
  Listener::Options listen;
  listen.network = options.listen;
  listen.advertise = options.advertise;
  listen.unix_socket = local.address();
  listen.security = options.security;
  listen.limits = options.limits;
  listen.log = options.log;
  return listen;
}

}  // namespace tributary
