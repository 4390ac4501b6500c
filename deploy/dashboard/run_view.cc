#include "deploy/dashboard/run_view.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "common/base/json.h"
#include "common/base/status_macros.h"
#include "common/event/job_event.h"
#include "common/job/exchange_traits.h"
#include "common/job/job.h"
#include "common/os/file.h"
#include "common/plan/exchange_traffic.h"
#include "common/plan/payload_bytes.h"
#include "deploy/dashboard/run_log.h"
#include "deploy/status/status_client.h"
#include "nlohmann/json.hpp"
#include "proto/job.pb.h"
#include "proto/rendezvous.pb.h"

namespace tributary {
namespace {

using Json = nlohmann::ordered_json;
using Line = MetricsIndex::Line;

// A coordinator that has not answered for so long counts as gone.
constexpr absl::Duration kGone = absl::Seconds(5);
constexpr int64_t kMaxFileBytes = 16 << 20;

constexpr size_t FieldIndex(absl::string_view name) {
  size_t i = 0;
  while (MetricsIndex::kFields[i] != name) ++i;
  return i;
}
constexpr size_t kEpoch = FieldIndex("epoch");
constexpr size_t kSeconds = FieldIndex("seconds");
constexpr size_t kEvaluationLoss = FieldIndex("evaluation_loss");
constexpr size_t kEvaluationAccuracy = FieldIndex("evaluation_accuracy");

bool IsEvaluation(const Line& line) {
  return !std::isnan(line.values[kEvaluationLoss]);
}

// Reads an object from a file that may not exist.
Json ReadObject(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(path, kMaxFileBytes);
  if (!text.ok()) return nullptr;
  Json json = ParseOrderedJson(*text);
  return json.is_object() ? json : Json(nullptr);
}

// Appends the path and the value of each field that is set.
void Flatten(const google::protobuf::Message& message,
             const std::string& prefix, Json* fields) {
  std::vector<const google::protobuf::FieldDescriptor*> set;
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  reflection.ListFields(message, &set);
  for (const google::protobuf::FieldDescriptor* const field : set) {
    const std::string path = absl::StrCat(prefix, field->name());
    const bool is_message =
        field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE;
    if (!field->is_repeated()) {
      if (is_message) {
        fields->push_back({path, ""});
        Flatten(reflection.GetMessage(message, field), absl::StrCat(path, "."),
                fields);
      } else {
        std::string text;
        google::protobuf::TextFormat::PrintFieldValueToString(message, field,
                                                              -1, &text);
        fields->push_back({path, text});
      }
      continue;
    }
    for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
      const std::string element = absl::StrCat(path, "[", i, "]");
      if (is_message) {
        Flatten(reflection.GetRepeatedMessage(message, field, i),
                absl::StrCat(element, "."), fields);
      } else {
        std::string text;
        google::protobuf::TextFormat::PrintFieldValueToString(message, field, i,
                                                              &text);
        fields->push_back({element, text});
      }
    }
  }
}

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

// The mean, the smallest and the largest of the values that are present.
struct Range {
  void Add(double value) {
    if (std::isnan(value)) return;
    sum += value;
    least = std::min(least, value);
    most = std::max(most, value);
    ++count;
  }
  double mean() const {
    if (count == 0) return std::numeric_limits<double>::quiet_NaN();
    // Rounding must not move the mean of equal values.
    return std::min(std::max(sum / static_cast<double>(count), least), most);
  }

  double sum = 0;
  double least = std::numeric_limits<double>::infinity();
  double most = -std::numeric_limits<double>::infinity();
  int64_t count = 0;
};

}  // namespace

RunView::RunView(std::string folder, Security security)
    : RunView(std::move(folder), std::move(security), nullptr) {}

RunView::RunView(std::string folder, Security security,
                 std::unique_ptr<RemoteRecords> remote)
    : folder_(std::move(folder)),
      security_(std::move(security)),
      remote_(std::move(remote)),
      index_(remote_ == nullptr ? absl::StrCat(folder_, "/metrics.jsonl")
                                : remote_->path()) {}

std::unique_ptr<RunView> RunView::OfCoordinator(const std::string& address,
                                                const Security& security) {
  std::unique_ptr<RunView> view(new RunView(
      "", security, std::make_unique<RemoteRecords>(address, security)));
  view->coordinator_ = address;
  view->poller_ = std::make_unique<StatusPoller>(address, security);
  return view;
}

void RunView::Update() {
  if (remote_ != nullptr) {
    remote_->Poll();
  } else {
    const std::string address = AddressOfRun(folder_).value_or("");
    if (address != coordinator_) {
      coordinator_ = address;
      poller_ = address.empty()
                    ? nullptr
                    : std::make_unique<StatusPoller>(address, security_);
    }
  }
  index_.Update();
  if (poller_ != nullptr) poller_->Poll();
}

nlohmann::ordered_json RunView::Summary() const {
  return remote_ == nullptr ? ReadObject(absl::StrCat(folder_, "/summary.json"))
                            : Json(nullptr);
}

absl::StatusOr<JobSpec> RunView::ResolvedJob() const {
  TRIBUTARY_ASSIGN_OR_RETURN(
      JobSpec job, remote_ == nullptr
                       ? LoadJob(absl::StrCat(folder_, "/job.textproto"))
                       : ParseJob(remote_->job(), "the job"));
  TRIBUTARY_RETURN_IF_ERROR(ValidateJob(job));
  return ResolveJob(std::move(job));
}

nlohmann::ordered_json RunView::Overview() {
  Update();
  const Json summary = Summary();
  Json run;
  const absl::string_view path =
      remote_ != nullptr ? coordinator_ : absl::StripSuffix(folder_, "/");
  const std::vector<std::string> parts = absl::StrSplit(path, '/');
  run["name"] = parts.back();
  run["path"] = path;
  run["problem"] = "";
  if (remote_ != nullptr) {
    const std::string name = poller_->latest().name();
    if (!name.empty()) run["name"] = name;
    const absl::Status problem = remote_->status();
    if (!problem.ok()) run["problem"] = ProblemOf(problem);
  }
  run["remote"] = remote_ != nullptr;
  const bool live = Live();
  run["live"] = live;
  run["step"] = index_.lines().empty() ? 0 : index_.lines().back().step;
  if (live) {
    const StatusReply status = poller_->latest();
    run["state"] =
        absl::AsciiStrToLower(StatusReply::Phase_Name(status.phase()));
    run["step"] = status.step();
    run["steps"] = status.steps();
    run["unit"] = status.unit();
    run["model"] = status.model();
  } else {
    const std::string ended = StringMember(summary, "status");
    const bool asked_before =
        remote_ == nullptr || poller_->latest_time() > absl::InfinitePast();
    run["state"] = !ended.empty() ? ended
                   : asked_before ? "no answer"
                                  : "connecting";
    run["steps"] = nullptr;
    run["unit"] = StringMember(summary, "unit");
    run["model"] = "";
    if (!ended.empty()) {
      const auto steps = summary.find("steps");
      if (steps != summary.end()) run["step"] = *steps;
    }
  }
  run["lines"] = index_.lines().size();
  run["generation"] = index_.generation();
  return run;
}

bool RunView::Live() const {
  return poller_ != nullptr && absl::Now() - poller_->latest_time() < kGone;
}

nlohmann::ordered_json RunView::Series(int64_t from, int64_t to, int points) {
  Update();
  std::vector<const Line*> training, evaluations;
  for (const Line& line : index_.lines()) {
    if (line.step < from || line.step > to) continue;
    (IsEvaluation(line) ? evaluations : training).push_back(&line);
  }
  Json series;
  series["lines"] = index_.lines().size();
  series["generation"] = index_.generation();
  series["first_step"] =
      index_.lines().empty() ? 0 : index_.lines().front().step;
  series["last_step"] = index_.lines().empty() ? 0 : index_.lines().back().step;
  series["newest"] = Json::object();
  for (size_t i = 0; !training.empty() && i < MetricsIndex::kFields.size();
       ++i) {
    series["newest"][std::string(MetricsIndex::kFields[i])] =
        training.back()->values[i];
  }
  const size_t groups = std::min<size_t>(points, training.size());
  series["grouped"] = groups < training.size();
  for (const char* name : {"step", "seconds", "epoch"}) {
    series[name] = Json::array();
  }
  Json& fields = series["fields"];
  constexpr std::array<absl::string_view, 5> kShown = {
      "loss", "learning_rate", "gradient_norm", "samples_per_second",
      "step_seconds"};
  for (const absl::string_view name : kShown) {
    fields[std::string(name)] = {{"mean", Json::array()},
                                 {"min", Json::array()},
                                 {"max", Json::array()}};
  }
  for (size_t g = 0; g < groups; ++g) {
    const size_t begin = g * training.size() / groups;
    const size_t end = (g + 1) * training.size() / groups;
    const Line& last = *training[end - 1];
    series["step"].push_back(last.step);
    series["seconds"].push_back(last.values[kSeconds]);
    series["epoch"].push_back(last.values[kEpoch]);
    for (const absl::string_view name : kShown) {
      Range range;
      for (size_t i = begin; i < end; ++i) {
        range.Add(training[i]->values[FieldIndex(name)]);
      }
      Json& field = fields[std::string(name)];
      field["mean"].push_back(range.mean());
      field["min"].push_back(range.count == 0 ? range.mean() : range.least);
      field["max"].push_back(range.count == 0 ? range.mean() : range.most);
    }
  }
  Json& evaluation = series["evaluation"];
  for (const char* name : {"step", "seconds", "loss", "accuracy"}) {
    evaluation[name] = Json::array();
  }
  const size_t shown = std::min<size_t>(points, evaluations.size());
  for (size_t i = 0; i < shown; ++i) {
    const Line& line = *evaluations[(i + 1) * evaluations.size() / shown - 1];
    evaluation["step"].push_back(line.step);
    evaluation["seconds"].push_back(line.values[kSeconds]);
    evaluation["loss"].push_back(line.values[kEvaluationLoss]);
    evaluation["accuracy"].push_back(line.values[kEvaluationAccuracy]);
  }
  return series;
}

nlohmann::ordered_json RunView::Lines(int64_t from, int64_t to, int count) {
  Update();
  std::vector<const Line*> found;
  for (const Line& line : index_.lines()) {
    if (line.step >= from && line.step <= to && !IsEvaluation(line)) {
      found.push_back(&line);
    }
  }
  Json result;
  result["total"] = found.size();
  result["lines"] = Json::array();
  const size_t shown = std::min<size_t>(count, found.size());
  for (size_t i = 0; i < shown; ++i) {
    const Line& line = *found[(i + 1) * found.size() / shown - 1];
    Json json = ParseOrderedJson(index_.Read(line));
    if (json.is_object()) result["lines"].push_back(std::move(json));
  }
  return result;
}

nlohmann::ordered_json RunView::Status() {
  Update();
  Json result;
  result["live"] = Live();
  result["age_seconds"] = nullptr;
  result["status"] = nullptr;
  result["coordinator"] = coordinator_;
  if (poller_ != nullptr && poller_->latest_time() > absl::InfinitePast()) {
    const absl::Time now = absl::Now();
    result["age_seconds"] = absl::ToDoubleSeconds(now - poller_->latest_time());
    result["status"] = StatusJson(poller_->latest(), poller_->latest_time());
  }
  result["summary"] = Summary();
  result["expected"] = nullptr;
  const absl::StatusOr<JobSpec> job = ResolvedJob();
  if (!job.ok()) return result;
  if (Live()) {
    const StatusReply status = poller_->latest();
    result["expected"] = ExpectedTraffic(
        *job, {status.workers(), status.servers(), status.parameters()});
  } else if (result["summary"].is_object()) {
    result["expected"] = ExpectedTraffic(*job, ScaleOf(result["summary"]));
  }
  return result;
}

nlohmann::ordered_json RunView::Job() const {
  Json result = {{"text", ""}, {"fields", Json::array()}, {"error", ""}};
  const std::string path = remote_ == nullptr
                               ? absl::StrCat(folder_, "/job.textproto")
                               : coordinator_;
  result["path"] = path;
  absl::StatusOr<std::string> text;
  if (remote_ == nullptr) {
    text = ReadFile(path, kMaxFileBytes);
  } else {
    text = remote_->job();
    if (text->empty()) {
      text = absl::UnavailableError(
          "the coordinator has not sent the job file yet");
    }
  }
  if (!text.ok()) {
    result["error"] = text.status().message();
    return result;
  }
  result["text"] = *text;
  const absl::StatusOr<JobSpec> job = ParseJob(*text, path);
  if (job.ok()) {
    Flatten(*job, "", &result["fields"]);
  } else {
    result["error"] = job.status().message();
  }
  return result;
}

nlohmann::ordered_json RunView::Log(int count) const {
  Json result = {{"entries", nullptr}, {"sample", nullptr}};
  if (remote_ != nullptr) return result;
  result["entries"] = NewestLogEntries(folder_, count);
  const absl::StatusOr<std::string> sample =
      ReadFile(absl::StrCat(folder_, "/sample.txt"), kMaxFileBytes);
  if (sample.ok()) result["sample"] = *sample;
  return result;
}

nlohmann::ordered_json RunView::Events(int count) const {
  if (remote_ == nullptr) return {{"events", NewestEvents(folder_, count)}};
  Json events = Json::array();
  const std::vector<JobEvent> all = remote_->events();
  const size_t skipped = all.size() - std::min<size_t>(count, all.size());
  for (size_t i = skipped; i < all.size(); ++i) {
    events.push_back(EventJson(all[i]));
  }
  return {{"events", events}};
}

}  // namespace tributary
