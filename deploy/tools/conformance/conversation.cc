#include "deploy/tools/conformance/conversation.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/backoff.h"
#include "deploy/tools/conformance/rules.h"

namespace tributary {
namespace {

std::string DescribeParameter(const ParameterTable& table, int i) {
  if (i >= table.parameter_size()) return "missing";
  const auto& parameter = table.parameter(i);
  std::string shape;
  for (const int64_t size : parameter.shape()) {
    absl::StrAppend(&shape, shape.empty() ? "" : ", ", size);
  }
  std::string text = absl::StrCat(parameter.name(), " [", shape, "] ",
                                  OptimizerGroup_Name(parameter.group()));
  if (parameter.learning_rate_factor() != 0) {
    absl::StrAppend(&text, " with learning_rate_factor ",
                    parameter.learning_rate_factor());
  }
  return text;
}

// Returns a sentence about the first fact that differs; empty: none.
std::string DescribeFacts(const DataFacts& facts, const DataFacts& expected) {
  const auto compare = [](const char* name, const auto& value,
                          const auto& wanted) {
    return value == wanted ? std::string()
                           : absl::StrCat("Ready.data.", name, " is ", value,
                                          ", expected ", wanted);
  };
  for (const std::string& difference :
       {compare("train_samples", facts.train_samples(),
                expected.train_samples()),
        compare("steps_per_epoch", facts.steps_per_epoch(),
                expected.steps_per_epoch()),
        compare("steps", facts.steps(), expected.steps()),
        compare("evaluation_pieces", facts.evaluation_pieces(),
                expected.evaluation_pieces()),
        compare("fingerprint", facts.fingerprint(), expected.fingerprint()),
        compare("unit", facts.unit(), expected.unit()),
        compare("sampler", facts.sampler(), expected.sampler())}) {
    if (!difference.empty()) return difference;
  }
  return "";
}

}  // namespace

Conversation::Conversation(std::optional<Expected> expected, int micro_batches,
                           bool leases_steps)
    : expected_(std::move(expected)),
      micro_batches_(micro_batches),
      leases_steps_(leases_steps) {}

void Conversation::Add(const std::string& what, const std::string& rule) {
  if (!fault_.has_value()) fault_ = Fault{what, rule};
}

// ---- Membership.

void Conversation::OnReport(const WorkerReport& report) {
  absl::MutexLock lock(&mu_);
  switch (report.report_case()) {
    case WorkerReport::kJoin:
      return CheckJoin();
    case WorkerReport::kReady:
      return CheckReady(report.ready());
    case WorkerReport::kSynced:
      return CheckSynced(report.synced());
    case WorkerReport::kEvaluation:
      return CheckEvaluation(report.evaluation());
    case WorkerReport::kClaim:
      return OnClaim();
    case WorkerReport::kFailure:
      return Add(absl::StrCat("it sent Failure: ", report.failure().message()),
                 "WORKER.md, The resolved job: Failure is for a job that the "
                 "worker does not implement; pass one that it does with --job");
    case WorkerReport::kFarewell:
      stay_.left = true;
      if (!stay_.finished) {
        Add("it sent Farewell before it received Finished",
            absl::StrCat(kStatesRule, "working ends when Finished arrives"));
      }
      return;
    default:
      return;
  }
}

void Conversation::CheckJoin() {
  if (stay_.stopped) {
    Add("it joined again after Finished with stopped set",
        absl::StrCat(kStatesRule,
                     "if Finished.stopped is set, leave at once "
                     "and do not join again"));
  } else if (!may_join_) {
    Add("it joined again after an error that is not transient",
        absl::StrCat(kLostRule,
                     "on any other code, exit with the message as "
                     "the error"));
  }
  ++joins_;
  stay_ = WorkerStay();
}

void Conversation::CheckReady(const Ready& ready) {
  stay_.ready = true;
  if (!expected_.has_value()) return;
  const ParameterTable& table = expected_->table;
  const int count =
      std::max(table.parameter_size(), ready.table().parameter_size());
  for (int i = 0; i < count; ++i) {
    const std::string actual = DescribeParameter(ready.table(), i);
    const std::string wanted = DescribeParameter(table, i);
    if (actual == wanted) continue;
    Add(absl::StrCat("Ready.table: parameter ", i, " is ", actual,
                     ", expected ", wanted),
        "MODELS.md: the parameters of the built-in models and their order");
    return;
  }
  const std::string facts = DescribeFacts(ready.data(), expected_->facts);
  if (!facts.empty()) {
    Add(facts, absl::StrCat(kDataRule, "DataFacts and the fingerprint"));
  }
}

void Conversation::CheckSynced(const Synced& synced) {
  const std::optional<int64_t> version = stay_.Version();
  if (!version.has_value() || synced.version() > *version) {
    Add(absl::StrCat("it sent Synced for version ", synced.version(),
                     ", before it received this version of all chunks"),
        absl::StrCat(kJobRule,
                     "when the worker has all chunks at one version, "
                     "it sends Synced (item 6)"));
  }
  stay_.synced = true;
}

void Conversation::CheckEvaluation(const EvaluationReport& report) {
  const bool assigned = std::any_of(
      stay_.deals.begin(), stay_.deals.end(), [&report](const Deal& deal) {
        return report.piece() >= deal.piece_begin() &&
               report.piece() < deal.piece_end();
      });
  if (!assigned) {
    Add(absl::StrCat("it evaluated piece ", report.piece(),
                     ", which no Deal assigned to it"),
        "PROTOCOL.md, Evaluation: the worker evaluates its pieces (item 1)");
  }
  if (!stay_.reported.insert({report.version(), report.piece()}).second) {
    Add(absl::StrCat("it reported piece ", report.piece(), " of version ",
                     report.version(), " twice"),
        absl::StrCat(kStatesRule,
                     "report the pieces that you have not "
                     "reported for the version (item 1)"));
  }
}

void Conversation::OnClaim() {
  if (stay_.lease_requests++ > stay_.completed) stay_.leases_ahead = true;
  stay_.at_lease_request = stay_.before_outcome;
}

void Conversation::OnOrder(const CoordinatorOrder& order) {
  absl::MutexLock lock(&mu_);
  switch (order.order_case()) {
    case CoordinatorOrder::kAdmission:
      stay_.admission = order.admission();
      return;
    case CoordinatorOrder::kOpen:
      stay_.open = order.open();
      return;
    case CoordinatorOrder::kDeal:
      stay_.deals.push_back(order.deal());
      return;
    case CoordinatorOrder::kClaimed:
      stay_.leased.insert(order.claimed().step());
      return;
    case CoordinatorOrder::kFinished:
      stay_.finished = true;
      stay_.stopped = order.finished().stopped();
      return;
    default:
      return;
  }
}

// ---- Exchange.

void Conversation::OnWorkerMessage(const void* call,
                                   const WorkerMessage& message) {
  absl::MutexLock lock(&mu_);
  switch (message.message_case()) {
    case WorkerMessage::kHello:
      stay_.exchanges.insert(call);
      return CheckHello(message.hello());
    case WorkerMessage::kContribution:
      // A call of an earlier membership may still be ending.
      if (stay_.exchanges.count(call) == 0) return;
      return CheckContribution(message.contribution());
    case WorkerMessage::kRowContribution:
      if (stay_.exchanges.count(call) == 0) return;
      CheckWork(message.row_contribution().step(),
                message.row_contribution().node());
      if (const auto fault = stay_.OnRows(message.row_contribution())) {
        Add(fault->what, fault->rule);
      }
      return;
    default:
      return;
  }
}

void Conversation::CheckHello(const Hello& hello) {
  if (!stay_.admission.has_value()) return;
  const Admission& admission = *stay_.admission;
  const auto check =
      [this](const char* field, const auto& value, const auto& expected)
          ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
            if (value == expected) return;
            Add(absl::StrCat("Hello.", field, " is ", value, ", expected ",
                             expected, " from its newest Admission"),
                absl::StrCat(kJobRule,
                             "all fields of Hello except the signature come "
                             "from the worker's Admission (item 5)"));
          };
  check("attempt", hello.attempt(), admission.attempt());
  check("incarnation", hello.incarnation(), admission.incarnation());
  if (hello.secret() != admission.secret()) {
    Add("Hello.secret is not that of its newest Admission",
        absl::StrCat(kJobRule,
                     "all fields of Hello except the signature come "
                     "from the worker's Admission (item 5)"));
  }
  check("job_id", hello.job_id(), admission.job_id());
}

void Conversation::CheckContribution(const Contribution& contribution) {
  if (stay_.deals.empty()) {
    return Add("it sent a Contribution before the first Deal",
               absl::StrCat(kStatesRule,
                            "synced ends when the first Deal "
                            "arrives"));
  }
  CheckWork(contribution.step(), contribution.node());
  if (leases_steps_) {
    if (const auto fault = stay_.CheckBaseVersion(contribution)) {
      Add(fault->what, fault->rule);
    }
  }
  const int sent = ++stay_.sent[{contribution.step(), contribution.chunk(),
                                 contribution.node()}];
  if (sent > stay_.Times(contribution.step())) {
    Add(absl::StrCat("step ", contribution.step(), ": it sent chunk ",
                     contribution.chunk(), " of node ", contribution.node(),
                     " twice"),
        absl::StrCat(kStatesRule,
                     "compute the micro-batches that you have not "
                     "sent yet (item 2)"));
  }
}

void Conversation::CheckWork(int64_t step, int node) {
  if (!leases_steps_) {
    auto fault = stay_.CheckAssigned(step, node, micro_batches_);
    if (!fault.has_value()) fault = stay_.CheckTables(step);
    if (fault.has_value()) Add(fault->what, fault->rule);
  } else if (stay_.leased.count(step) == 0) {
    Add(absl::StrCat("it sent a Contribution to step ", step,
                     ", which no Claimed has leased to it"),
        absl::StrCat(kAsynchronousRule,
                     "a step belongs to the worker to which it is leased "
                     "(item 1)"));
  }
}

void Conversation::OnOutcome(const Outcome& outcome) {
  const int64_t step = outcome.step();
  const auto newest = stay_.versions.find(outcome.chunk());
  if (newest != stay_.versions.end()) {
    stay_.before_outcome[outcome.chunk()] = newest->second;
  }
  if (outcome.refused()) {
    // The worker must compute the whole step again.
    ++stay_.refusals[step];
    return;
  }
  std::set<int>& applied = stay_.applied[step];
  const bool is_new = applied.insert(outcome.chunk()).second;
  if (is_new && applied.size() == stay_.announced.size()) ++stay_.completed;
}

void Conversation::OnServerMessage(const ServerMessage& message) {
  absl::MutexLock lock(&mu_);
  if (message.has_welcome()) {
    for (const int chunk : message.welcome().chunk()) {
      stay_.announced.insert(chunk);
    }
  } else if (message.has_weights()) {
    int64_t& version =
        stay_.versions.emplace(message.weights().chunk(), 0).first->second;
    version = std::max(version, message.weights().version());
  } else if (message.has_tables_complete()) {
    ++stay_.tables_complete[message.tables_complete().version()];
  } else if (message.has_outcome()) {
    OnOutcome(message.outcome());
  }
}

Fault Conversation::Pending() const {
  absl::MutexLock lock(&mu_);
  if (joins_ == 0) {
    return {"it did not call Membership",
            absl::StrCat(kJobRule,
                         "a worker calls Membership and sends Join "
                         "(item 2); the address of server 0 is in "
                         "the variable TRIBUTARY_COORDINATOR")};
  }
  return stay_.Pending(leases_steps_);
}

// ---- Ends.

void Conversation::OnMembershipEnd(const absl::Status& status) {
  absl::MutexLock lock(&mu_);
  if (IsTransient(status)) ++dismissals_;
  OnEnd("Membership", status);
}

void Conversation::OnExchangeEnd(const void* call, const absl::Status& status) {
  absl::MutexLock lock(&mu_);
  if (stay_.exchanges.count(call) == 0) return;
  OnEnd("Exchange", status);
}

void Conversation::OnBroken(const absl::Status& status) {
  absl::MutexLock lock(&mu_);
  OnEnd("all calls", status);
}

void Conversation::OnEnd(const std::string& call, const absl::Status& status) {
  // Servers may end the calls in any way after Finished.
  if (stay_.finished || status.ok() || absl::IsCancelled(status) ||
      absl::IsOutOfRange(status)) {
    return;
  }
  const std::string what = absl::StrCat("a server ended ", call, " with ",
                                        absl::StatusCodeToString(status.code()),
                                        ": ", status.message());
  if (IsTransient(status)) {
    if (stay_.ended.empty()) stay_.ended = what;
    return;
  }
  may_join_ = false;
  Add(what, "WORKER.md, What servers refuse; PROTOCOL.md, Errors");
}

std::optional<Fault> Conversation::fault() const {
  absl::MutexLock lock(&mu_);
  return fault_;
}
int Conversation::joins() const {
  absl::MutexLock lock(&mu_);
  return joins_;
}
bool Conversation::connected() const {
  absl::MutexLock lock(&mu_);
  return !stay_.exchanges.empty();
}
bool Conversation::has_deal() const {
  absl::MutexLock lock(&mu_);
  return !stay_.deals.empty();
}
bool Conversation::finished() const {
  absl::MutexLock lock(&mu_);
  return stay_.finished;
}

int Conversation::dismissals() const {
  absl::MutexLock lock(&mu_);
  return dismissals_;
}

}  // namespace tributary
