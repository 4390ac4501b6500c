#include "deploy/tools/dashboard/dashboard.h"

#include <openssl/crypto.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/types/optional.h"
#include "common/base/sha256.h"
#include "common/os/local_host.h"
#include "deploy/tools/dashboard/page_files.h"
#include "deploy/tools/runs/run_entry.h"
#include "deploy/tools/runs/run_listing.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMaxPoints = 4000;
constexpr int kMaxLines = 200;
constexpr int kMaxLogEntries = 1000;
constexpr size_t kMaxFields = 100;
constexpr size_t kMaxFieldBytes = 200;

HttpResponse JsonResponse(const Json& json, int code = 200) {
  HttpResponse response;
  response.code = code;
  response.content_type = "application/json";
  // Names of files and lines of logs may contain any bytes.
  response.body = json.dump(-1, ' ', /*ensure_ascii=*/false,
                            Json::error_handler_t::replace);
  return response;
}

HttpResponse ErrorResponse(int code, const std::string& message) {
  return JsonResponse({{"error", message}}, code);
}

// Returns a number of the query, limited to `min` and `max`; `missing` if the
// query does not have it.
int64_t NumberOf(const HttpRequest& request, const char* name, int64_t missing,
                 int64_t min, int64_t max) {
  const absl::optional<std::string> text = QueryValue(request.query, name);
  int64_t value = 0;
  if (!text.has_value() || !absl::SimpleAtoi(*text, &value)) return missing;
  return std::min(std::max(value, min), max);
}

// Running jobs come first, then the run that began last.
std::pair<bool, int64_t> OrderOf(const Json& run) {
  return {!run["live"].get<bool>(),
          run["began"].is_null() ? 0 : -run["began"].get<int64_t>()};
}

std::string HostWithoutPort(absl::string_view host) {
  if (absl::StartsWith(host, "[")) {
    return std::string(host.substr(1, host.find(']') - 1));
  }
  return std::string(host.substr(0, host.find(':')));
}

}  // namespace

Dashboard::Dashboard(RunList runs, Options options)
    : runs_(std::move(runs)), options_(std::move(options)) {}

bool Dashboard::IsLocal(const HttpRequest& request) {
  const std::string host = HostWithoutPort(request.host);
  return host == "localhost" || IsLoopback(host);
}

bool Dashboard::IsAllowed(const HttpRequest& request) const {
  const std::vector<std::string> tokens =
      options_.tokens ? options_.tokens() : std::vector<std::string>();
  if (tokens.empty()) return IsLocal(request);
  absl::string_view sent = request.authorization;
  std::string decoded;
  if (absl::ConsumePrefix(&sent, "Bearer ")) {
    decoded = std::string(sent);
  } else if (!absl::ConsumePrefix(&sent, "Basic ") ||
             !absl::Base64Unescape(sent, &decoded)) {
    return false;
  } else {
    decoded.erase(0, decoded.find(':') + 1);  // Any user name.
  }
  // Digests have equal lengths, so the comparison's time does not depend on the
  // token.
  const std::string digest = Sha256Hex(decoded);
  bool allowed = false;
  for (const std::string& token : tokens) {
    const std::string expected = Sha256Hex(token);
    if (CRYPTO_memcmp(digest.data(), expected.data(), expected.size()) == 0) {
      allowed = true;
    }
  }
  return allowed;
}

HttpResponse Dashboard::Handle(const HttpRequest& request) {
  HttpResponse response;
  if (!IsAllowed(request)) {
    if (options_.tokens && !options_.tokens().empty()) {
      response = ErrorResponse(
          401, "the job's token is required: as the password, with any user");
      response.headers.emplace_back("WWW-Authenticate",
                                    "Basic realm=\"tributary\"");
    } else {
      response = ErrorResponse(
          403,
          "open the page by the address that `tributary dashboard` prints");
    }
  } else {
    response = Answer(request);
  }
  response.headers.emplace_back("Content-Security-Policy",
                                "default-src 'self'; frame-ancestors 'none'; "
                                "base-uri 'none'; form-action 'none'");
  response.headers.emplace_back("Referrer-Policy", "no-referrer");
  response.headers.emplace_back("Cross-Origin-Resource-Policy", "same-origin");
  return response;
}

RunView* Dashboard::FindRun(const HttpRequest& request) const {
  const std::string name = QueryValue(request.query, "run").value_or("");
  size_t number = 0;
  if (absl::SimpleAtoi(name, &number)) {
    return number < runs_.runs().size() ? runs_.runs()[number].get() : nullptr;
  }
  for (const std::unique_ptr<RunView>& run : runs_.runs()) {
    if (run->key() == name) return run.get();
  }
  return nullptr;
}

nlohmann::ordered_json Dashboard::DifferentFields() const {
  std::vector<RunEntry> entries;
  entries.reserve(runs_.runs().size());
  for (const std::unique_ptr<RunView>& run : runs_.runs()) {
    entries.push_back(run->Entry());
  }
  std::vector<std::string> paths = DifferingFields(entries);
  if (paths.size() > kMaxFields) paths.resize(kMaxFields);
  Json values = Json::object();
  for (size_t i = 0; i < entries.size(); ++i) {
    Json& run = values[runs_.runs()[i]->key()];
    run = Json::object();
    for (const auto& [path, value] : entries[i].fields) {
      if (std::find(paths.begin(), paths.end(), path) == paths.end()) continue;
      run[path] = value.empty() ? "set" : value.substr(0, kMaxFieldBytes);
    }
  }
  return {{"fields", paths}, {"runs", values}};
}

HttpResponse Dashboard::Answer(const HttpRequest& request) {
  if (request.path == "/api/runs") {
    runs_.Refresh();
    std::vector<Json> runs;
    for (size_t i = 0; i < runs_.runs().size(); ++i) {
      runs.push_back(runs_.runs()[i]->Overview());
      runs.back()["id"] = i;
    }
    std::stable_sort(
        runs.begin(), runs.end(),
        [](const Json& a, const Json& b) { return OrderOf(a) < OrderOf(b); });
    Json studies = Json::array();
    for (const std::unique_ptr<StudyView>& study : runs_.studies()) {
      studies.push_back(study->Overview());
    }
    return JsonResponse({{"release", options_.release},
                         {"runs", runs},
                         {"studies", std::move(studies)}});
  }
  if (request.path == "/api/fields") return JsonResponse(DifferentFields());
  if (request.path == "/api/study") {
    const std::string key = QueryValue(request.query, "study").value_or("");
    for (const std::unique_ptr<StudyView>& study : runs_.studies()) {
      if (study->key() == key) return JsonResponse(study->Details());
    }
    return ErrorResponse(404, "there is no such study");
  }
  if (absl::StartsWith(request.path, "/api/")) {
    constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
    RunView* const found = FindRun(request);
    if (found == nullptr) return ErrorResponse(404, "there is no such run");
    RunView& run = *found;
    const absl::Cleanup used = [&] { runs_.OnUsed(run); };
    const int64_t from = NumberOf(request, "from", 0, 0, kMax);
    const int64_t to = NumberOf(request, "to", kMax, 0, kMax);
    if (request.path == "/api/series") {
      return JsonResponse(run.Series(
          from, to,
          static_cast<int>(NumberOf(request, "points", 800, 1, kMaxPoints))));
    }
    if (request.path == "/api/lines") {
      return JsonResponse(run.Lines(
          from, to,
          static_cast<int>(NumberOf(request, "count", 50, 1, kMaxLines))));
    }
    if (request.path == "/api/resources") {
      return JsonResponse(run.Resources(
          from, to,
          static_cast<int>(NumberOf(request, "count", 400, 1, kMaxPoints))));
    }
    if (request.path == "/api/metrics.csv") {
      HttpResponse response;
      response.content_type = "text/csv; charset=utf-8";
      response.body = run.Csv();
      response.headers.emplace_back(
          "Content-Disposition",
          absl::StrCat("attachment; filename=\"", run.key(), ".csv\""));
      return response;
    }
    if (request.path == "/api/status") return JsonResponse(run.Status());
    if (request.path == "/api/job") return JsonResponse(run.Job());
    if (request.path == "/api/log") {
      return JsonResponse(
          run.Log(QueryValue(request.query, "log").value_or("server-0.log"),
                  static_cast<int>(
                      NumberOf(request, "count", 200, 1, kMaxLogEntries))));
    }
    if (request.path == "/api/events") {
      return JsonResponse(run.Events(static_cast<int>(
          NumberOf(request, "count", 200, 1, kMaxLogEntries))));
    }
    return ErrorResponse(404, "the dashboard has no such data");
  }
  const std::string name =
      request.path == "/" ? "index.html" : request.path.substr(1);
  for (const PageFile& file : PageFiles()) {
    if (file.name != name) continue;
    HttpResponse response;
    response.content_type = file.content_type;
    response.body = file.contents;
    return response;
  }
  return ErrorResponse(404, "the dashboard has no such page");
}

}  // namespace tributary
