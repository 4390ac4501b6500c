#include "deploy/tools/dashboard/run_view.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/time/clock.h"
#include "common/base/json.h"
#include "common/base/sha256.h"
#include "common/base/status_macros.h"
#include "common/event/job_event.h"
#include "common/job/exchange_traits.h"
#include "common/job/job.h"
#include "common/plan/exchange_traffic.h"
#include "common/plan/payload_bytes.h"
#include "deploy/tools/dashboard/run_log.h"
#include "deploy/tools/dashboard/series.h"
#include "deploy/tools/runs/job_fields.h"
#include "deploy/tools/runs/run_record.h"
#include "deploy/tools/status/status_client.h"
#include "nlohmann/json.hpp"
#include "proto/job.pb.h"
#include "proto/rendezvous.pb.h"

namespace tributary {
namespace {

using Json = nlohmann::ordered_json;
using Line = MetricsIndex::Line;

constexpr int64_t kMaxSampleBytes = 1 << 20;
// Maximum size of all lines of metrics.jsonl in one reply. Parsed JSON takes
// ten times as much memory.
constexpr int64_t kMaxLinesBytes = 4 << 20;
// Time for reading new lines of one run for the list of runs.
constexpr absl::Duration kListedTime = absl::Milliseconds(10);

constexpr size_t kResources = MetricsIndex::FieldIndex("resources_count");

// 0: unknown.
struct Scale {
  int64_t workers = 0;
  int64_t servers = 0;
  int64_t parameters = 0;
};

Scale ScaleOf(const Json& summary) {
  const auto number = [&summary](const char* name) {
    const auto found = summary.find(name);
    return found == summary.end() || !found->is_number_integer()
               ? int64_t{0}
               : found->get<int64_t>();
  };
  return {number("workers"), number("servers"), number("parameters")};
}

// Returns why there are no records, for the user.
std::string ProblemOf(const absl::Status& status) {
  if (absl::IsUnimplemented(status)) {
    return "server 0 has a release that does not send records, so there are no "
           "curves; open the dashboard where the run's folder is";
  }
  return std::string(status.message());
}

// Returns the bytes that the processes of a run send and receive in each step,
// or null if the job does not determine them.
Json ExpectedTraffic(const JobSpec& job, const Scale& scale) {
  const auto [workers, servers, parameters] = scale;
  if (workers < 1 || workers > job.batch().micro_batches() || servers < 1 ||
      parameters < 1) {
    return nullptr;
  }
  const ExchangeTraits traits = ResolveExchange(job);
  Json expected = {{"workers", Json::array()}};
  const auto bytes = [](double sent, double received) {
    return Json{{"sent", sent}, {"received", received}};
  };
  const auto n = static_cast<double>(workers);
  if (traits.workers_exchange_directly) {
    const double each = workers == 1 ? 0
                                     : AllReduceLaw(static_cast<int>(workers)) *
                                           sizeof(float) *
                                           static_cast<double>(parameters);
    expected["law"] =
        "In each step, each of n workers sends and receives 2 (n - 1) / n "
        "times the weights.";
    for (int i = 0; i < workers; ++i) {
      expected["workers"].push_back(bytes(each, each));
    }
    expected["server"] = bytes(0, 0);
    return expected;
  }
  // The steps that a worker computes depend on its speed.
  if (traits.whole_batches) return nullptr;
  double payload =
      static_cast<double>(ExpectedPayloadBytes(job.exchange(), parameters));
  expected["law"] =
      "In each step, each worker sends one gradient for each part of the "
      "reduction tree that it computes, and receives the weights once.";
  if (traits.local_sgd) {
    payload /= static_cast<double>(traits.steps_per_round);
    expected["law"] =
        "In each round, each worker sends one change for each part of the "
        "reduction tree that it computes, and receives the weights once; the "
        "figures are for one step.";
  }
  double up = 0;
  for (const int count :
       ContributionsByWorker(static_cast<int>(job.batch().micro_batches()),
                             static_cast<int>(workers))) {
    expected["workers"].push_back(bytes(count * payload, payload));
    up += count * payload;
  }
  expected["server"] = bytes(n * payload / static_cast<double>(servers),
                             up / static_cast<double>(servers));
  return expected;
}

// Returns the name of a run, as far as it needs no escapes in addresses, and
// digits of a digest of its path.
std::string KeyOf(const std::string& path) {
  constexpr size_t kMaxName = 32;
  constexpr size_t kDigits = 12;
  std::string key = path.substr(path.rfind('/') + 1).substr(0, kMaxName);
  for (char& c : key) {
    if (!absl::ascii_isalnum(c) && c != '_' && c != '.') c = '-';
  }
  return absl::StrCat(key, "-", Sha256Hex(path).substr(0, kDigits));
}

std::string NormalPath(const std::string& path) {
  return std::filesystem::absolute(path).lexically_normal().string();
}

}  // namespace

std::string RunKeyOf(const std::string& folder) {
  return KeyOf(NormalPath(folder));
}

RunView::RunView(UntrustedFolder folder,
                 std::shared_ptr<const RunAddressRules> rules)
    : RunView(
          std::make_unique<RunWatch>(folder, std::move(rules)), nullptr,
          nullptr, [folder] { return folder.Open("metrics.jsonl"); },
          NormalPath(folder.path())) {}

RunView::RunView(std::unique_ptr<RunWatch> watch,
                 std::unique_ptr<RemoteRecords> remote,
                 std::unique_ptr<StatusPoller> poller,
                 std::function<absl::StatusOr<InputFile>()> open_metrics,
                 const std::string& path)
    : key_(KeyOf(path)),
      watch_(std::move(watch)),
      remote_(std::move(remote)),
      remote_poller_(std::move(poller)),
      index_(std::move(open_metrics)) {}

std::unique_ptr<RunView> RunView::OfCoordinator(const std::string& address,
                                                const Security& security) {
  auto remote = std::make_unique<RemoteRecords>(address, security);
  const RemoteRecords* const records = remote.get();
  std::unique_ptr<RunView> view(new RunView(
      nullptr, std::move(remote),
      std::make_unique<StatusPoller>(address, security),
      [records] { return records->OpenLines(); }, address));
  view->coordinator_ = address;
  view->indexed_ = true;  // The step comes from the index.
  return view;
}

void RunView::Update() {
  if (watch_ != nullptr) {
    watch_->Update();
    return;
  }
  remote_->Poll();
  remote_poller_->Poll();
}

void RunView::UpdateIndex() {
  Update();
  indexed_ = true;
  index_.Update();
}

void RunView::DropIndex() {
  index_.Clear();
  indexed_ = watch_ == nullptr;
}

const StatusPoller* RunView::poller() const {
  return watch_ != nullptr ? watch_->poller() : remote_poller_.get();
}

bool RunView::Live() const {
  return watch_ != nullptr ? watch_->live() : IsLive(remote_poller_.get());
}

void RunView::AwaitStatus(absl::Time deadline) const {
  if (poller() != nullptr) poller()->AwaitAnswer(deadline);
}

nlohmann::ordered_json RunView::Summary() const {
  return watch_ == nullptr ? Json(nullptr)
                           : SummaryOf(watch_->record().folder());
}

absl::StatusOr<std::string> RunView::JobText() const {
  if (watch_ != nullptr) {
    return watch_->record().folder().Read("job.textproto",
                                          RunRecord::kMaxJobBytes);
  }
  std::string text = remote_->job();
  if (!text.empty()) return text;
  return absl::UnavailableError(
      "the coordinator has not sent the job file yet");
}

absl::StatusOr<JobSpec> RunView::ResolvedJob() const {
  TRIBUTARY_ASSIGN_OR_RETURN(const std::string text, JobText());
  TRIBUTARY_ASSIGN_OR_RETURN(JobSpec job, ParseJob(text, "the job"));
  TRIBUTARY_RETURN_IF_ERROR(ValidateJob(job));
  return ResolveJob(std::move(job));
}

RunEntry RunView::RemoteEntry() const {
  RunEntry entry;
  entry.name = entry.path = coordinator_;
  entry.live = Live();
  entry.step = index_.lines().empty() ? 0 : index_.lines().back().step;
  const absl::Status problem = remote_->status();
  if (!problem.ok()) entry.problem = ProblemOf(problem);
  const StatusReply status = remote_poller_->latest();
  if (!status.name().empty()) entry.name = status.name();
  if (entry.live) {
    entry.state =
        absl::AsciiStrToLower(StatusReply::Phase_Name(status.phase()));
    entry.step = status.step();
    entry.steps = status.steps();
    entry.unit = status.unit();
    entry.model = status.model();
    entry.seconds = status.seconds();
    if (status.has_loss()) entry.loss = status.loss();
  } else {
    entry.state = remote_poller_->latest_time() > absl::InfinitePast()
                      ? kNoAnswer
                      : "connecting";
  }
  return entry;
}

RunEntry RunView::Entry() {
  Update();
  return watch_ == nullptr ? RemoteEntry() : EntryOf(*watch_);
}

nlohmann::ordered_json RunView::Overview() {
  Json run = EntryJson(Entry());
  // The list of runs needs no index, and must not wait for long files.
  if (indexed_) index_.Update(kListedTime);
  run["key"] = key_;
  run["remote"] = remote_ != nullptr;
  run["lines"] = index_.lines().size();
  run["generation"] = index_.generation();
  return run;
}

nlohmann::ordered_json RunView::Series(int64_t from, int64_t to, int points) {
  UpdateIndex();
  return SeriesOf(index_, from, to, points);
}

std::vector<nlohmann::ordered_json> RunView::ReadLines(
    const std::vector<const Line*>& found, int count) const {
  std::vector<Json> lines;
  // With thousands of workers, few lines fit.
  for (size_t shown = std::min<size_t>(count, found.size()); shown > 0;
       shown /= 2) {
    std::vector<const Line*> chosen;
    int64_t bytes = 0;
    for (size_t i = 0; i < shown; ++i) {
      chosen.push_back(found[(i + 1) * found.size() / shown - 1]);
      bytes += chosen.back()->bytes;
    }
    if (bytes > kMaxLinesBytes) continue;
    for (const std::string& text : index_.Read(chosen)) {
      Json json = ParseOrderedJson(text);
      if (json.is_object()) lines.push_back(std::move(json));
    }
    break;
  }
  return lines;
}

nlohmann::ordered_json RunView::Lines(int64_t from, int64_t to, int count) {
  UpdateIndex();
  std::vector<const Line*> found;
  for (const Line& line : index_.lines()) {
    if (line.step >= from && line.step <= to && !line.is_evaluation) {
      found.push_back(&line);
    }
  }
  return {{"total", found.size()}, {"lines", ReadLines(found, count)}};
}

nlohmann::ordered_json RunView::Resources(int64_t from, int64_t to, int count) {
  UpdateIndex();
  std::vector<const Line*> found;
  for (const Line& line : index_.lines()) {
    if (line.step >= from && line.step <= to && line.values[kResources] > 0) {
      found.push_back(&line);
    }
  }
  Json result = {{"total", found.size()}, {"lines", Json::array()}};
  for (Json& line : ReadLines(found, count)) {
    const auto resources = line.find("resources");
    if (resources == line.end() || !resources->is_array()) continue;
    result["lines"].push_back({{"step", line.value("step", Json())},
                               {"seconds", line.value("seconds", Json())},
                               {"resources", std::move(*resources)}});
  }
  return result;
}

std::string RunView::Csv() {
  UpdateIndex();
  return index_.Csv();
}

nlohmann::ordered_json RunView::Status() {
  Update();
  Json result;
  result["live"] = Live();
  result["age_seconds"] = nullptr;
  result["status"] = nullptr;
  result["coordinator"] =
      watch_ == nullptr ? coordinator_ : watch_->coordinator();
  const StatusPoller* const asked = poller();
  if (asked != nullptr && asked->latest_time() > absl::InfinitePast()) {
    const absl::Time now = absl::Now();
    result["age_seconds"] = absl::ToDoubleSeconds(now - asked->latest_time());
    result["status"] = StatusJson(asked->latest(), asked->latest_time());
  }
  result["summary"] = Summary();
  result["expected"] = nullptr;
  const absl::StatusOr<JobSpec> job = ResolvedJob();
  if (!job.ok()) return result;
  if (Live()) {
    const StatusReply status = asked->latest();
    result["expected"] = ExpectedTraffic(
        *job, {status.workers(), status.servers(), status.parameters()});
  } else if (result["summary"].is_object()) {
    result["expected"] = ExpectedTraffic(*job, ScaleOf(result["summary"]));
  }
  return result;
}

nlohmann::ordered_json RunView::Job() const {
  Json result = {{"text", ""}, {"fields", Json::array()}, {"error", ""}};
  const std::string path =
      watch_ == nullptr ? coordinator_
                        : watch_->record().folder().PathOf("job.textproto");
  result["path"] = path;
  const absl::StatusOr<std::string> text = JobText();
  if (!text.ok()) {
    result["error"] = text.status().message();
    return result;
  }
  result["text"] = *text;
  const absl::StatusOr<JobSpec> job = ParseJob(*text, path);
  if (job.ok()) {
    for (const JobField& field : FieldsOf(*job)) {
      result["fields"].push_back({field.first, field.second});
    }
  } else {
    result["error"] = job.status().message();
  }
  return result;
}

nlohmann::ordered_json RunView::Log(const std::string& name, int count) const {
  Json result = {
      {"logs", Json::array()}, {"entries", nullptr}, {"sample", nullptr}};
  if (watch_ == nullptr) return result;
  const UntrustedFolder& folder = watch_->record().folder();
  result["logs"] = LogFiles(folder);
  result["entries"] = Json::array();
  for (const Json& log : result["logs"]) {
    if (log["name"] != name) continue;
    result["entries"] = NewestLogEntries(folder, name, count);
  }
  const absl::StatusOr<std::string> sample =
      folder.Read("sample.txt", kMaxSampleBytes);
  if (sample.ok()) result["sample"] = *sample;
  return result;
}

nlohmann::ordered_json RunView::Events(int count) const {
  if (watch_ != nullptr) {
    return {{"events", NewestEvents(watch_->record().folder(), count)}};
  }
  Json events = Json::array();
  const std::vector<JobEvent> all = remote_->events();
  const size_t skipped = all.size() - std::min<size_t>(count, all.size());
  for (size_t i = skipped; i < all.size(); ++i) {
    events.push_back(EventJson(all[i]));
  }
  return {{"events", events}};
}

}  // namespace tributary
