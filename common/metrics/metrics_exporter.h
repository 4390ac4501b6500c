// Shows the metrics of a process to Prometheus.
#ifndef TRIBUTARY_COMMON_METRICS_METRICS_EXPORTER_H_
#define TRIBUTARY_COMMON_METRICS_METRICS_EXPORTER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "common/base/thread.h"
#include "common/http/http_server.h"
#include "common/metrics/metrics_registry.h"
#include "common/os/log.h"

namespace tributary {

// Serves the metrics at /metrics, writes them to a file, or both.
class MetricsExporter {
 public:
  struct Options {
    // The address to listen on, if `listens` is true.
    bool listens = false;
    HttpServer::Options http;
    // A file for the textfile collector of node_exporter, whose name must end
    // in ".prom". Replaced atomically, at every interval and at the end. Empty:
    // none.
    std::string file;
    absl::Duration interval = absl::Seconds(15);
    // How long a page that was rendered is served again. Collectors take locks
    // of the step's path; a flood of requests must not hold them.
    absl::Duration freshness = absl::Milliseconds(500);
  };

  // `registry` and `log` must outlive the result. Returns the errors of
  // HttpServer::Start, and the system's error if the file cannot be written.
  // Later errors of the file are logged once.
  static absl::StatusOr<std::unique_ptr<MetricsExporter>> Start(
      const Options& options, MetricsRegistry* registry, Logger* log);
  ~MetricsExporter();
  MetricsExporter(const MetricsExporter&) = delete;
  MetricsExporter& operator=(const MetricsExporter&) = delete;

  // Returns the port of the server; 0 if there is none.
  int port() const { return http_ == nullptr ? 0 : http_->port(); }

 private:
  MetricsExporter(const Options& options, MetricsRegistry* registry,
                  Logger* log);
  // Answers a request, on the HTTP server's thread.
  HttpResponse Answer(const HttpRequest& request);
  absl::Status WriteFile();
  void WriteFilesUntilStopped();

  const Options options_;
  MetricsRegistry* const registry_;
  Logger* const log_;
  // Used by the HTTP server's thread only.
  std::string page_;
  absl::Time page_time_ = absl::InfinitePast();
  std::unique_ptr<HttpServer> http_;
  absl::Notification stop_;
  Thread writer_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_METRICS_METRICS_EXPORTER_H_
