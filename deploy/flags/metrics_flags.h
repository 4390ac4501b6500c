// The flags with which a process exports its metrics to Prometheus.
#ifndef TRIBUTARY_DEPLOY_FLAGS_METRICS_FLAGS_H_
#define TRIBUTARY_DEPLOY_FLAGS_METRICS_FLAGS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/metrics/metrics_exporter.h"
#include "common/metrics/metrics_registry.h"
#include "common/os/logger.h"
#include "common/transport/security.h"
#include "deploy/flags/command_line.h"

namespace tributary {

struct MetricsFlags {
  std::string listen;
  std::string file;
};

// Declares --metrics-listen and --metrics-file, the address and the file to
// which a process exports its metrics.
void AddMetricsFlags(CommandLine* line, MetricsFlags* flags);

// Starts to export the metrics of `registry`, over HTTP and to a file, as the
// flags select. With TLS, serves them over HTTPS with the certificate of
// `security`. Returns null if no flag is set. `registry` and `log` must outlive
// the result. Returns InvalidArgument for a malformed address, and if metrics
// would be served to other machines without TLS and `insecure_network` is
// false; NotFound if a file of `security` cannot be read; and the errors of
// MetricsExporter::Start.
absl::StatusOr<std::unique_ptr<MetricsExporter>> StartMetrics(
    const MetricsFlags& flags, const Security& security, bool insecure_network,
    MetricsRegistry* registry, Logger* log);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_FLAGS_METRICS_FLAGS_H_
