// Exports the metrics of a process to Prometheus.
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
#include "common/os/logger.h"

namespace tributary {

// Exports the metrics of a process over HTTP at /metrics, to a file, or both.
class MetricsExporter {
 public:
  struct Options {
    // If `listens` is true, an HTTP server with the options `http` serves the
    // metrics.
    bool listens = false;
    HttpServer::Options http;
    // The file that the textfile collector of node_exporter reads. Its name
    // must end in ".prom". The file is replaced atomically after each
    // `interval` and when the exporter is destroyed. Empty if no file is
    // written.
    std::string file;
    absl::Duration interval = absl::Seconds(15);
    // How long the HTTP server returns the same page before it collects the
    // metrics again. Collecting acquires locks that training steps also need,
    // so this limits the effect of many requests on training.
    absl::Duration freshness = absl::Milliseconds(500);
  };

  // Starts the HTTP server and the thread that writes the file, as `options`
  // requests. `registry` and `log` must outlive the result. Returns the errors
  // of HttpServer::Start, and the system's error if the file cannot be written.
  // If writing the file fails later, logs a warning, but only one until a write
  // succeeds again.
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
  // Returns the response to a request. Called on the HTTP server's thread.
  HttpResponse Answer(const HttpRequest& request);
  absl::Status WriteFile();
  void WriteFilesUntilStopped();

  const Options options_;
  MetricsRegistry* const registry_;
  Logger* const log_;
  // The newest page of metrics, and when it was collected. Used by the HTTP
  // server's thread only.
  std::string page_;
  absl::Time page_time_ = absl::InfinitePast();
  std::unique_ptr<HttpServer> http_;
  absl::Notification stop_;
  Thread writer_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_METRICS_METRICS_EXPORTER_H_
