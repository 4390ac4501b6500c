#include "common/metrics/metrics_exporter.h"

#include "common/base/status_macros.h"
#include "common/os/file.h"
#include "common/os/file_system.h"

namespace tributary {
namespace {

constexpr char kContentType[] = "text/plain; version=0.0.4; charset=utf-8";

}  // namespace

MetricsExporter::MetricsExporter(const Options& options,
                                 MetricsRegistry* registry, Logger* log)
    : options_(options), registry_(registry), log_(log) {}

absl::StatusOr<std::unique_ptr<MetricsExporter>> MetricsExporter::Start(
    const Options& options, MetricsRegistry* registry, Logger* log) {
  auto exporter = std::unique_ptr<MetricsExporter>(
      new MetricsExporter(options, registry, log));
  if (options.listens) {
    TRIBUTARY_ASSIGN_OR_RETURN(
        exporter->http_,
        HttpServer::Start(options.http, [registry](const HttpRequest& request) {
          HttpResponse response;
          if (request.path == "/metrics") {
            response.content_type = kContentType;
            response.body = registry->Collect();
          } else {
            response.code = 404;
            response.body = "see /metrics\n";
          }
          return response;
        }));
  }
  if (!options.file.empty()) {
    TRIBUTARY_RETURN_IF_ERROR(exporter->WriteFile());
    exporter->writer_ =
        Thread([self = exporter.get()] { self->WriteFilesUntilStopped(); });
  }
  return exporter;
}

MetricsExporter::~MetricsExporter() {
  if (!writer_.joinable()) return;
  stop_.Notify();
  writer_.Join();
}

absl::Status MetricsExporter::WriteFile() {
  return WriteFileAtomically(options_.file, {registry_->Collect()},
                             FileSystem::Posix());
}

void MetricsExporter::WriteFilesUntilStopped() {
  bool failed = false;
  bool stopped = false;
  while (!stopped) {
    stopped = stop_.WaitForNotificationWithTimeout(options_.interval);
    const absl::Status written = WriteFile();
    if (!written.ok() && !failed) {
      log_->Warning("the file of --metrics-file is out of date: %s",
                    std::string(written.message()));
    }
    failed = !written.ok();
  }
}

}  // namespace tributary
