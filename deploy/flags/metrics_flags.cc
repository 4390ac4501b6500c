#include "deploy/flags/metrics_flags.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/os/local_host.h"
#include "deploy/flags/environment.h"
#include "deploy/flags/http_certificate.h"

namespace tributary {

void AddMetricsFlags(CommandLine* line, MetricsFlags* flags) {
  line->AddText("metrics-listen", "HOST:PORT",
                "Serve metrics for Prometheus here, at /metrics; with "
                "--tls-dir by HTTPS. Port 0 selects a free port, which the log "
                "names. Default: off.",
                &flags->listen);
  line->AddText("metrics-file", "FILE.prom",
                "Write the metrics to this file every 15 seconds, for the "
                "textfile collector of node_exporter. Default: off.",
                &flags->file);
}

absl::StatusOr<std::unique_ptr<MetricsExporter>> StartMetrics(
    const MetricsFlags& flags, const Security& security, bool insecure_network,
    MetricsRegistry* registry, Logger* log) {
  if (flags.listen.empty() && flags.file.empty()) return nullptr;
  MetricsExporter::Options options;
  if (!flags.file.empty() && !absl::EndsWith(flags.file, ".prom")) {
    return absl::InvalidArgumentError(
        absl::StrCat("--metrics-file ", flags.file,
                     ": the name must end in .prom, or node_exporter does not "
                     "read the file"));
  }
  options.file = flags.file;
  if (!flags.listen.empty()) {
    TRIBUTARY_ASSIGN_OR_RETURN(const HostPort address,
                               ParseHostPort(flags.listen));
    options.listens = true;
    options.http.host = address.host;
    options.http.port = address.port;
    options.http.certificate = HttpCertificateOf(security);
    if (!security.tls() && !IsLoopback(address.host) && !insecure_network) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--metrics-listen ", flags.listen,
          " would serve metrics to other machines unencrypted and to anyone: "
          "pass --tls-dir, or --insecure-network if the network is trusted"));
    }
  }
  absl::StatusOr<std::unique_ptr<MetricsExporter>> started =
      MetricsExporter::Start(options, registry, log);
  if (!started.ok()) {
    return absl::Status(
        started.status().code(),
        absl::StrCat(options.listens ? "--metrics-listen: " : "",
                     started.status().message()));
  }
  std::unique_ptr<MetricsExporter> exporter = *std::move(started);
  if (options.listens) {
    log->Info("metrics at %s://%s/metrics", security.tls() ? "https" : "http",
              JoinHostPort(options.http.host, exporter->port()));
  }
  return exporter;
}

}  // namespace tributary
