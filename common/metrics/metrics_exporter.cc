#include "common/metrics/metrics_exporter.h"

#include "common/base/monotonic_clock.h"
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
        HttpServer::Start(options.http,
                          [self = exporter.get()](const HttpRequest& request) {
                            return self->Answer(request);
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

HttpResponse MetricsExporter::Answer(const HttpRequest& request) {
  HttpResponse response;
  if (request.path != "/metrics") {
    response.code = 404;
    response.body = "see /metrics\n";
    return response;
  }
  const absl::Time now = MonotonicNow();
  if (now - page_time_ >= options_.freshness) {
    page_ = registry_->Collect();
    page_time_ = now;
  }
  response.content_type = kContentType;
  response.body = page_;
  return response;
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
