#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/worker/exchange/conformance/exchange_conformance.h"
#include "tests/worker/exchange/conformance/exchange_servers.h"

namespace tributary {
namespace {

ExchangeImplementation OverTransport(const std::string& name,
                                     ExchangeSpec::Transport transport,
                                     int servers, int workers,
                                     bool local_calls = false) {
  ExchangeImplementation server = ServerExchange(servers, workers);
  server.name =
      absl::StrCat(name, "_", servers, "_servers_", workers, "_workers");
  server.make_peers = [=](const ExchangeWorkload& workload, int /*workers*/) {
    ExchangeServers::Options options;
    options.transport = transport;
    options.local_calls = local_calls;
    options.servers = servers;
    return std::make_unique<ExchangeServers>(workload, options);
  };
  return server;
}

std::vector<ExchangeImplementation> Implementations() {
  std::vector<ExchangeImplementation> all;
  for (const int servers : {1, 3}) {
    for (const int workers : {1, 3}) {
      all.push_back(OverTransport("tcp", ExchangeSpec::WIRE, servers, workers));
      all.push_back(OverTransport("unix_socket", ExchangeSpec::UNIX_SOCKET,
                                  servers, workers));
      all.push_back(OverTransport("shared_memory", ExchangeSpec::MEMORY,
                                  servers, workers));
      all.push_back(OverTransport("in_process", ExchangeSpec::MEMORY, servers,
                                  workers, /*local_calls=*/true));
      all.push_back(OverTransport("in_process_streams", ExchangeSpec::WIRE,
                                  servers, workers, /*local_calls=*/true));
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(ParameterServer, ExchangeConformanceTest,
                         testing::ValuesIn(Implementations()),
                         ImplementationName);

}  // namespace
}  // namespace tributary
