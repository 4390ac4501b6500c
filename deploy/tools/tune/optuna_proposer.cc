#include "deploy/tools/tune/optuna_proposer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "common/base/json.h"
#include "common/base/status_macros.h"
#include "deploy/tools/tune/journal/study_attributes.h"

namespace tributary {
namespace {

using Json = nlohmann::ordered_json;

// Generated from optuna_proposals.py by the build.
constexpr char kProgram[] =
#include "deploy/tools/tune/optuna_proposals.inc"
    ;

// Short for the user who presses Ctrl-C.
constexpr int kPollMilliseconds = 100;

absl::Status SystemError(const char* what, int number) {
  return absl::InternalError(absl::StrCat(what, ": ", strerror(number)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<OptunaProposer>> OptunaProposer::Start(
    const std::string& python, const TuneStudy* study,
    std::function<bool()> is_stopped) {
  std::unique_ptr<OptunaProposer> proposer(
      new OptunaProposer(study, std::move(is_stopped)));
  TRIBUTARY_RETURN_IF_ERROR(proposer->Spawn(python));
  TRIBUTARY_RETURN_IF_ERROR(proposer->Ask(proposer->DescribeSearch()).status());
  return proposer;
}

absl::Status OptunaProposer::Spawn(const std::string& python) {
  int requests[2];
  if (pipe2(requests, O_CLOEXEC) != 0) return SystemError("pipe", errno);
  requests_ = requests[1];
  // The process may not read, because it hangs.
  if (fcntl(requests_, F_SETFL, O_NONBLOCK) != 0) {
    close(requests[0]);
    return SystemError("fcntl", errno);
  }
  int answers[2];
  if (pipe2(answers, O_CLOEXEC) != 0) {
    close(requests[0]);
    return SystemError("pipe", errno);
  }
  answers_ = answers[0];
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, requests[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, answers[1], STDOUT_FILENO);
  // A group of its own, so that the terminal's Ctrl-C does not end it, and the
  // usual signals.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  posix_spawnattr_setpgroup(&attributes, 0);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  std::string program = python, code = kProgram, flag = "-c";
  char* const arguments[] = {&program[0], &flag[0], &code[0], nullptr};
  const int error = posix_spawnp(&pid_, program.c_str(), &actions, &attributes,
                                 arguments, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  close(requests[0]);
  close(answers[1]);
  if (error == 0) return absl::OkStatus();
  pid_ = -1;
  return absl::FailedPreconditionError(
      absl::StrCat("cannot start ", python, " (", strerror(error),
                   "), which the samplers of Optuna need; name Python 3 with "
                   "--python, or use the sampler random"));
}

OptunaProposer::~OptunaProposer() {
  if (requests_ >= 0) close(requests_);
  if (answers_ >= 0) close(answers_);
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

absl::StatusOr<Json> OptunaProposer::Ask(const Json& request) {
  const std::string line =
      absl::StrCat(request.dump(-1, ' ', /*ensure_ascii=*/true,
                                Json::error_handler_t::replace),
                   "\n");
  absl::string_view rest = line;
  size_t end;
  while ((end = received_.find('\n')) == std::string::npos) {
    if (is_stopped_()) {
      return absl::CancelledError("the sampler was not awaited");
    }
    // poll ignores negative descriptors.
    pollfd fds[] = {{answers_, POLLIN, 0},
                    {rest.empty() ? -1 : requests_, POLLOUT, 0}};
    if (poll(fds, 2, kPollMilliseconds) <= 0) continue;
    if (fds[1].revents != 0) {
      const ssize_t count = write(requests_, rest.data(), rest.size());
      const bool later = errno == EAGAIN || errno == EINTR;
      if (count > 0) rest.remove_prefix(static_cast<size_t>(count));
      // If the process has ended, its answers end, too.
      if (count < 0 && !later) rest = absl::string_view();
    }
    if (fds[0].revents == 0) continue;
    char buffer[65536];
    const ssize_t count = read(answers_, buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      return absl::FailedPreconditionError(
          "the process of the sampler has ended; its messages are above");
    }
    received_.append(buffer, static_cast<size_t>(count));
  }
  Json answer = ParseOrderedJson(absl::string_view(received_).substr(0, end));
  received_.erase(0, end + 1);
  if (!answer.is_object()) {
    return absl::FailedPreconditionError("the sampler's answer is not JSON");
  }
  const std::string error = StringMember(answer, "error");
  if (!error.empty()) {
    return absl::FailedPreconditionError(absl::StrCat("Optuna: ", error));
  }
  return answer;
}

Json OptunaProposer::DescribeSearch() const {
  const SearchSpec& search = study_->search();
  Json parameters = Json::array();
  for (const SearchParameterSpec& parameter : search.parameter()) {
    Json json = {{"name", parameter.path()}};
    if (parameter.has_choice()) {
      json["choices"] = Json::array();
      for (const std::string& value : parameter.choice().value()) {
        json["choices"].push_back(value);
      }
    } else if (parameter.has_integer()) {
      const IntegerRange& range = parameter.integer();
      json.update({{"integer", true},
                   {"low", range.low()},
                   {"high", range.high()},
                   {"log", range.log()},
                   {"step", range.step()}});
    } else {
      const NumberRange& range = parameter.number();
      json.update({{"integer", false},
                   {"low", range.low()},
                   {"high", range.high()},
                   {"log", range.log()},
                   {"step", nullptr}});
      if (range.step() > 0) json["step"] = range.step();
    }
    if (parameter.has_when()) {
      json["when"] = {{"name", parameter.when().path()},
                      {"values", Json::array()}};
      for (const std::string& value : parameter.when().value()) {
        json["when"]["values"].push_back(value);
      }
    }
    parameters.push_back(std::move(json));
  }
  Json directions = Json::array();
  for (const ObjectiveSpec& objective : search.objective()) {
    directions.push_back(
        objective.goal() == ObjectiveSpec::MAXIMIZE ? "maximize" : "minimize");
  }
  return {{"parameters", parameters},
          {"sampler",
           SamplerSpec::Optuna::Name_Name(search.sampler().optuna().name())},
          {"seed", search.seed()},
          {"directions", directions}};
}

Json OptunaProposer::DescribeTrial(int64_t number,
                                   const KnownTrial& known) const {
  const StudyTrial& trial = study_->study().trials()[number];
  const JournalTrial& record = study_->records()[number];
  const SearchSpec& search = study_->search();
  Json json = {{"number", number},
               {"params", Json::object()},
               {"values", nullptr},
               {"intermediate_values", Json::object()},
               {"attributes", Json::object()}};
  JournalState state = JournalState::kRunning;
  switch (known.state) {
    case KnownTrial::State::kRunning:
      break;
    case KnownTrial::State::kStopped:
      state = JournalState::kPruned;
      break;
    case KnownTrial::State::kComplete:
      state = JournalState::kComplete;
      break;
    case KnownTrial::State::kFailed:
      state = JournalState::kFailed;
      break;
  }
  // Another program's trial with other parameters tells nothing.
  if (trial.point.empty()) state = JournalState::kFailed;
  json["state"] = static_cast<int>(state);
  for (size_t i = 0; i < trial.point.size(); ++i) {
    if (!trial.point[i].has_value()) continue;
    json["params"][search.parameter(static_cast<int>(i)).path()] =
        *trial.point[i];
  }
  for (const auto& [name, value] : record.system_attributes.items()) {
    // Those of results may not be known yet, and who trains a trial depends on
    // the time.
    if (name.rfind(kConstraintPrefix, 0) == 0 || name == kClaim) continue;
    json["attributes"][name] = value;
  }
  if (known.results == 0 || trial.point.empty()) return json;
  const TrialResult& result = trial.results[known.results - 1];
  for (int i = 0; i < search.constraint_size(); ++i) {
    json["attributes"][kConstraintPrefix + search.constraint(i).metric()] =
        result.violations[i];
  }
  if (state != JournalState::kFailed) json["values"] = result.values;
  if (search.objective_size() > 1 || trial.foreign) return json;
  const std::vector<int64_t>& rungs =
      study_->study().plan().brackets[trial.bracket].rungs;
  for (size_t r = 0; r < known.results; ++r) {
    json["intermediate_values"][absl::StrCat(rungs[r])] =
        trial.results[r].values[0];
  }
  return json;
}

absl::StatusOr<OptunaProposer::Proposal> OptunaProposer::Propose() {
  const std::vector<KnownTrial> known = study_->study().Known();
  Json changes = Json::array();
  for (size_t t = 0; t < known.size(); ++t) {
    const std::pair<KnownTrial::State, size_t> what = {known[t].state,
                                                       known[t].results};
    if (t < sent_.size() && sent_[t] == what) continue;
    sent_.resize(std::max(sent_.size(), t + 1));
    sent_[t] = what;
    changes.push_back(DescribeTrial(static_cast<int64_t>(t), known[t]));
  }
  TRIBUTARY_ASSIGN_OR_RETURN(const Json answer,
                             Ask({{"number", study_->study().size()},
                                  {"changes", std::move(changes)}}));
  Proposal proposal;
  const SearchSpace& space = study_->space();
  proposal.point.resize(space.size());
  const auto params = answer.find("params");
  if (params != answer.end() && params->is_object()) {
    for (const auto& [name, value] : params->items()) {
      const int i = space.Find(name);
      if (i >= 0 && value.is_number()) proposal.point[i] = value.get<double>();
    }
  }
  if (!space.Contains(proposal.point)) {
    return absl::InternalError(
        absl::StrCat("Optuna proposes values that the search does not have: ",
                     answer.dump()));
  }
  proposal.attributes = answer.value("attributes", Json::object());
  return proposal;
}

}  // namespace tributary
