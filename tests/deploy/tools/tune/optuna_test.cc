// The study and the samplers, with the real Optuna. Skipped unless Python 3
// with the package optuna is installed. Bazel's flag
// --test_env=OPTUNA_PYTHON=/path/to/venv/bin/python may name it.
#include <cmath>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/json.h"
#include "deploy/tools/tune/optuna_proposer.h"
#include "deploy/tools/tune/search/search_file.h"
#include "deploy/tools/tune/study_writer.h"
#include "deploy/tools/tune/tune_study.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/command_runner.h"

namespace tributary {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kTrials = 200;
// Of a Gaussian process, whose proposals take longer with each trial. The first
// ten are random.
constexpr int kTrialsOfGp = 40;

constexpr char kJob[] = R"(
  model { mlp { hidden: 8 } }
  data { random { samples: 64 shape: 4 classes: 3 } }
  batch { global: 8 }
  optimizer { adamw { learning_rate: 0.01 } }
  steps: 27
)";

// Each kind of dimension.
constexpr char kSpace[] = R"(
  parameter { path: "lr" number { low: 1e-4 high: 1e-1 log: true } }
  parameter { path: "drop" number { low: 0 high: 0.5 step: 0.05 } }
  parameter { path: "x" number { low: -1 high: 1 } }
  parameter { path: "width" integer { low: 16 high: 512 log: true } }
  parameter { path: "half" integer { low: 0 high: 64 step: 8 } }
  parameter { path: "rule" choice { value: "sgd" value: "adam" } }
  parameter { path: "momentum" number { low: 0 high: 0.99 }
              when { path: "rule" value: "sgd" } }
  parameter { path: "beta" number { low: 0.9 high: 0.999 }
              when { path: "rule" value: "adam" } }
)";

// The same search in a program of Optuna's user, run in sequence. Prints the
// internal values of each trial.
constexpr char kOwnRun[] = R"(
import json, math, sys, warnings
import optuna
warnings.simplefilter("ignore")
optuna.logging.set_verbosity(optuna.logging.ERROR)
name, trials = sys.argv[1], int(sys.argv[2])
samplers = {
    "TPE": lambda seed: optuna.samplers.TPESampler(
        seed=seed, multivariate=True, constant_liar=True),
    "GP": lambda seed: optuna.samplers.GPSampler(seed=seed),
    "CMA_ES": lambda seed: optuna.samplers.CmaEsSampler(
        seed=seed, warn_independent_sampling=False),
    "NSGA_II": lambda seed: optuna.samplers.NSGAIISampler(seed=seed),
}
several = name == "NSGA_II"
study = optuna.create_study(directions=["minimize"] * (2 if several else 1))
for n in range(trials):
    study.sampler = samplers[name](7 + n)
    t = study.ask()
    lr = t.suggest_float("lr", 1e-4, 1e-1, log=True)
    drop = t.suggest_float("drop", 0, 0.5, step=0.05)
    x = t.suggest_float("x", -1, 1)
    width = t.suggest_int("width", 16, 512, log=True)
    half = t.suggest_int("half", 0, 64, step=8)
    rule = t.suggest_categorical("rule", ["sgd", "adam"])
    if rule == "sgd":
        last = t.suggest_float("momentum", 0, 0.99)
    else:
        last = t.suggest_float("beta", 0.9, 0.999)
    value = x * x + drop + half / 64 + width / 512 + last + abs(lr - 0.01)
    study.tell(t, [value, float(width)] if several else value)
    frozen = study.trials[-1]
    print(json.dumps({k: d.to_internal_repr(frozen.params[k])
                      for k, d in frozen.distributions.items()}))
)";

StudyWriter Writer(const std::unique_ptr<TuneStudy>& study) {
  return StudyWriter(study.get());
}

class OptunaTest : public testing::Test {
 protected:
  void SetUp() override {
    const char* const python = getenv("OPTUNA_PYTHON");
    python_ = python == nullptr ? "python3" : python;
    // The threads of libraries would only wait for each other.
    setenv("OMP_NUM_THREADS", "1", /*replace=*/1);
    if (RunCommand({"/usr/bin/env", python_, "-c", "import optuna"})
            .exit_code != 0) {
      GTEST_SKIP() << python_ << " has no package optuna";
    }
    folder_ = MakeTestFolder();
  }

  bool Has(const std::string& package) const {
    return RunCommand({"/usr/bin/env", python_, "-c", "import " + package})
               .exit_code == 0;
  }
  std::string RunPython(const std::string& code,
                        std::vector<std::string> arguments) const {
    WriteWholeFile(folder_ + "/program.py", code);
    arguments.insert(arguments.begin(),
                     {"/usr/bin/env", python_, folder_ + "/program.py"});
    const CommandResult result = RunCommand(arguments, {"OMP_NUM_THREADS=1"});
    EXPECT_EQ(result.exit_code, 0) << result.standard_error;
    return result.standard_output;
  }
  std::unique_ptr<TuneStudy> MakeStudy(const std::string& lines,
                                       const std::string& import = "") const {
    const SearchSpec search = *ParseSearch(
        absl::StrCat(kSpace,
                     "objective { metric: \"final_loss\" goal: MINIMIZE }"
                     " seed: 7 ",
                     lines),
        "search");
    EXPECT_EQ(ValidateSearch(search), absl::OkStatus());
    EXPECT_EQ(TuneStudy::Create(folder_, search, kJob, import),
              absl::OkStatus());
    return *TuneStudy::Open(folder_);
  }

  absl::StatusOr<std::unique_ptr<OptunaProposer>> StartProposer(
      const std::unique_ptr<TuneStudy>& study) const {
    return OptunaProposer::Start(python_, study.get(), [] { return false; });
  }

  std::string python_;
  std::string folder_;
};

double ValueOf(const SearchPoint& p) {
  // In the order of operations of kOwnRun, so that the bits are the same.
  const double last = p[6].has_value() ? *p[6] : *p[7];
  return *p[2] * *p[2] + *p[1] + *p[4] / 64 + *p[3] / 512 + last +
         std::abs(*p[0] - 0.01);
}

class SamplerEqualityTest : public OptunaTest,
                            public testing::WithParamInterface<const char*> {};

TEST_P(SamplerEqualityTest, ProposalsAreThoseOfOptunaInSequence) {
  const std::string name = GetParam();
  if (name == "CMA_ES" && !Has("cmaes")) GTEST_SKIP() << "no package cmaes";
  if (name == "GP" && !(Has("scipy") && Has("torch"))) {
    GTEST_SKIP() << "no packages scipy and torch";
  }
  const int trials = name == "GP" ? kTrialsOfGp : kTrials;
  const bool several = name == "NSGA_II";
  const auto study = MakeStudy(absl::StrCat(
      "sampler { optuna { name: ", name,
      " } } lookahead: 1 budget { trials: ", trials, " }",
      several ? "objective { metric: \"parameters\" goal: MINIMIZE }" : ""));
  auto proposer = StartProposer(study);
  ASSERT_TRUE(proposer.ok()) << proposer.status();
  std::string proposals;
  for (int n = 0; n < trials; ++n) {
    const auto proposal = (*proposer)->Propose();
    ASSERT_TRUE(proposal.ok()) << proposal.status();
    ASSERT_EQ(Writer(study).Propose(proposal->point, proposal->attributes),
              absl::OkStatus());
    TrialResult result{{ValueOf(proposal->point)}, {}};
    if (several) result.values.push_back(*proposal->point[3]);
    ASSERT_EQ(Writer(study).Report(n, result, Json::object()),
              absl::OkStatus());
    Json json = Json::object();
    for (int i = 0; i < study->space().size(); ++i) {
      if (!proposal->point[i].has_value()) continue;
      json[study->space().parameter(i).path()] = *proposal->point[i];
    }
    absl::StrAppend(&proposals, json.dump(), "\n");
  }
  std::string expected;
  for (const absl::string_view line :
       absl::StrSplit(RunPython(kOwnRun, {name, absl::StrCat(trials)}), '\n',
                      absl::SkipEmpty())) {
    const Json own = ParseOrderedJson(line);
    Json json = Json::object();
    for (const auto& [key, value] : own.items()) {
      json[key] = value.get<double>();
    }
    absl::StrAppend(&expected, json.dump(), "\n");
  }
  EXPECT_EQ(proposals, expected);
}

INSTANTIATE_TEST_SUITE_P(Samplers, SamplerEqualityTest,
                         testing::Values("TPE", "GP", "CMA_ES", "NSGA_II"));

TEST_F(OptunaTest, AStudyThatIsOpenedAgainHasTheSameProposals) {
  const std::string lines =
      "sampler { optuna {} } lookahead: 3 budget { trials: 40 }";
  std::vector<SearchPoint> points[2];
  for (const bool reopen : {false, true}) {
    auto study = MakeStudy(lines);
    auto proposer = *StartProposer(study);
    for (int n = 0; n < 40; ++n) {
      if (reopen && n % 10 == 5) {
        proposer.reset();
        study = *TuneStudy::Open(folder_);
        proposer = *StartProposer(study);
      }
      const auto proposal = proposer->Propose();
      ASSERT_TRUE(proposal.ok()) << proposal.status();
      points[reopen].push_back(proposal->point);
      ASSERT_EQ(Writer(study).Propose(proposal->point, proposal->attributes),
                absl::OkStatus());
      ASSERT_EQ(Writer(study).Report(n, {{ValueOf(proposal->point)}, {}}, {}),
                absl::OkStatus());
    }
  }
  EXPECT_EQ(points[0], points[1]);
}

// Optuna reads our study, which has trials in all states, and continues it.
TEST_F(OptunaTest, OptunaContinuesOurStudy) {
  const auto study = MakeStudy(
      "scheduler { successive_halving { rungs: 2 } } budget { trials: 4 }"
      "constraint { metric: \"parameters\" max: 5 }");
  for (int n = 0; n < 4; ++n) {
    ASSERT_EQ(Writer(study).Propose(study->NextPoint(), Json::object()),
              absl::OkStatus());
  }
  for (int n = 0; n < 3; ++n) {
    ASSERT_EQ(Writer(study).Report(n, {{3.0 - n}, {n - 1.0}}, Json::object()),
              absl::OkStatus());
  }
  ASSERT_EQ(Writer(study).Fail(3, "out of memory"), absl::OkStatus());
  // Trial 1 satisfies the constraint, like trial 0, and is better.
  ASSERT_EQ(study->study().NextRung(1), 1);
  ASSERT_EQ(Writer(study).Report(1, {{1.0}, {0}}, {{"weights_sha256", "ab"}}),
            absl::OkStatus());
  ASSERT_EQ(Writer(study).Finish(), absl::OkStatus());
  EXPECT_EQ(RunPython(R"(
import sys, optuna
optuna.logging.set_verbosity(optuna.logging.ERROR)
backend = optuna.storages.journal.JournalFileBackend(sys.argv[1])
storage = optuna.storages.JournalStorage(backend)
study = optuna.load_study(study_name=None, storage=storage)
print([t.state.name for t in study.trials], study.best_trial.number)
print(study.trials[1].intermediate_values, study.trials[1].constraints)
print(study.trials[3].user_attrs)
def objective(trial):
    trial.suggest_float("lr", 1e-4, 1e-1, log=True)
    trial.suggest_categorical("rule", ["sgd", "adam"])
    return 0.5
study.optimize(objective, n_trials=2)
print(len(study.trials))
)",
                      {folder_ + "/study.journal"}),
            "['PRUNED', 'COMPLETE', 'PRUNED', 'FAIL'] 1\n"
            "{9: 2.0, 27: 1.0} {'parameters': 0.0}\n"
            "{'failure': 'out of memory'}\n"
            "6\n");
  ASSERT_EQ(study->Read(), absl::OkStatus());
  EXPECT_EQ(study->study().size(), 6);
  EXPECT_TRUE(study->study().trials()[5].foreign);
}

// The begin of a program of Optuna that writes a journal.
constexpr char kTheirProgram[] = R"(
import sys, optuna
optuna.logging.set_verbosity(optuna.logging.ERROR)
backend = optuna.storages.journal.JournalFileBackend(sys.argv[1])
storage = optuna.storages.JournalStorage(backend)
def objective(trial):
    trial.suggest_float("lr", 1e-4, 1e-1, log=True)
    trial.suggest_float("drop", 0, 0.5, step=0.05)
    trial.suggest_float("x", -1, 1)
    trial.suggest_int("width", 16, 512, log=True)
    trial.suggest_int("half", 0, 64, step=8)
    if trial.suggest_categorical("rule", ["sgd", "adam"]) == "sgd":
        trial.suggest_float("momentum", 0, 0.99)
    else:
        trial.suggest_float("beta", 0.9, 0.999)
    return float(trial.number)
)";

TEST_F(OptunaTest, WeContinueAStudyOfOptuna) {
  const std::string journal = folder_ + "/theirs.journal";
  RunPython(absl::StrCat(kTheirProgram, R"(
study = optuna.create_study(study_name="theirs", storage=storage)
study.optimize(objective, n_trials=5)
study.enqueue_trial({"lr": 0.02, "rule": "sgd", "momentum": 0.5})
)"),
            {journal});
  const auto study = MakeStudy(
      "sampler { optuna {} } lookahead: 1 budget { trials: 8 }", journal);
  ASSERT_EQ(study->study().size(), 6);
  EXPECT_THAT(study->study().Best(), testing::ElementsAre(0));
  for (int n = 0; n < 5; ++n) {
    EXPECT_TRUE(study->space().Contains(study->study().trials()[n].point))
        << "trial " << n << ": " << Json(study->records()[n].parameters).dump();
  }
  // The trial of Optuna's queue is ours.
  ASSERT_TRUE(study->IsQueued(5));
  const SearchPoint& queued = study->study().trials()[5].point;
  EXPECT_EQ(queued[0], 0.02);
  EXPECT_EQ(queued[5], 0);
  EXPECT_EQ(queued[6], 0.5);
  ASSERT_EQ(Writer(study).Begin(5), absl::OkStatus());
  ASSERT_EQ(Writer(study).Report(5, {{-1.0}, {}}, Json::object()),
            absl::OkStatus());
  auto proposer = *StartProposer(study);
  const auto proposal = proposer->Propose();
  ASSERT_TRUE(proposal.ok()) << proposal.status();
  ASSERT_EQ(Writer(study).Propose(proposal->point, proposal->attributes),
            absl::OkStatus());
  ASSERT_EQ(Writer(study).Report(6, {{-2.0}, {}}, Json::object()),
            absl::OkStatus());
  EXPECT_EQ(RunPython(R"(
import sys, optuna
optuna.logging.set_verbosity(optuna.logging.ERROR)
backend = optuna.storages.journal.JournalFileBackend(sys.argv[1])
study = optuna.load_study(study_name="theirs",
                          storage=optuna.storages.JournalStorage(backend))
print([t.state.name for t in study.trials], study.best_trial.number)
print(study.trials[5].params["lr"], study.trials[5].params["rule"])
)",
                      {folder_ + "/study.journal"}),
            "['COMPLETE', 'COMPLETE', 'COMPLETE', 'COMPLETE', 'COMPLETE', "
            "'COMPLETE', 'COMPLETE'] 6\n0.02 sgd\n");
}

TEST_F(OptunaTest, WeContinueAStudyThatHasReplacedADeletedOne) {
  const std::string journal = folder_ + "/theirs.journal";
  const std::string ids = RunPython(absl::StrCat(kTheirProgram, R"(
first = optuna.create_study(study_name="s", storage=storage)
first.optimize(objective, n_trials=3)
other = optuna.create_study(study_name="other", storage=storage)
other.optimize(objective, n_trials=1)
optuna.delete_study(study_name="s", storage=storage)
# A process that has not read this yet.
backend.append_logs([{"op_code": 4, "worker_id": "late", "study_id": 0,
                      "datetime_start": None}])
study = optuna.create_study(study_name="s", storage=storage)
study.optimize(objective, n_trials=2)
study.ask()
print([(t._trial_id, t.state.name, t.value) for t in study.trials])
)"),
                                    {journal});
  const auto study = MakeStudy("name: \"s\" budget { trials: 8 }", journal);
  std::vector<std::string> found;
  for (const JournalTrial& trial : study->records()) {
    const bool complete = trial.state == JournalState::kComplete;
    found.push_back(absl::StrCat(
        "(", trial.id, ", '", complete ? "COMPLETE" : "RUNNING", "', ",
        complete ? Json(trial.values.at(0)).dump() : "None", ")"));
  }
  EXPECT_EQ(absl::StrCat("[", absl::StrJoin(found, ", "), "]\n"), ids);
}

}  // namespace
}  // namespace tributary
