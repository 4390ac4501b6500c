#include "server/server_options.h"

namespace tributary {

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
