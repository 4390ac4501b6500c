#include "server/membership/peer_checks.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "common/base/sha256.h"
#include "common/base/status_macros.h"
#include "common/job/rounds.h"
#include "common/optimizer/optimizer.h"
#include "common/text/counted.h"
#include "common/transport/channel.h"

namespace tributary {
namespace {

std::string DescribeData(const DataFacts& facts) {
  return absl::StrCat(facts.train_samples(), " training samples, ",
                      facts.evaluation_pieces(),
                      " evaluation pieces, fingerprint ", facts.fingerprint());
}

std::string Quoted(const std::string& name) {
  return absl::StrCat("\"", absl::CHexEscape(name), "\"");
}

// Describes the facts that differ and that DescribeData leaves out.
std::string DescribeOtherFacts(const DataFacts& facts, const DataFacts& job) {
  std::string text;
  const auto compare = [&text](absl::string_view name, const auto& worker,
                               const auto& expected) {
    if (worker == expected) return;
    absl::StrAppend(&text, "; ", name, " is ", worker, ", expected ", expected);
  };
  compare("steps_per_epoch", facts.steps_per_epoch(), job.steps_per_epoch());
  compare("steps", facts.steps(), job.steps());
  compare("unit", Quoted(facts.unit()), Quoted(job.unit()));
  compare("sampler", Quoted(facts.sampler()), Quoted(job.sampler()));
  if (!std::equal(facts.encoding().begin(), facts.encoding().end(),
                  job.encoding().begin(), job.encoding().end())) {
    text += "; encoding differs";
  }
  return text;
}

std::string DescribeParameter(const ArenaLayout& layout, size_t number) {
  if (number >= layout.parameters().size()) return "absent";
  const Parameter& parameter = layout.parameters()[number];
  std::string text =
      absl::StrCat(parameter.name, " [", absl::StrJoin(parameter.shape, ", "),
                   "] ", OptimizerGroup_Name(parameter.group));
  if (parameter.padding != 0) {
    absl::StrAppend(&text, " with padding ", parameter.padding);
  }
  if (parameter.learning_rate_factor != 1) {
    absl::StrAppend(&text, " with learning_rate_factor ",
                    parameter.learning_rate_factor);
  }
  if (!parameter.aliases.empty()) {
    absl::StrAppend(&text, " with the aliases ",
                    absl::StrJoin(parameter.aliases, ", "));
  }
  return text;
}

// Describes the first difference of two tables that are not equal.
std::string DescribeDifference(const ArenaLayout& worker,
                               const ArenaLayout& job) {
  if (worker.chunk_elements() != job.chunk_elements()) {
    return absl::StrCat("chunk_elements is ", worker.chunk_elements(),
                        ", expected ", job.chunk_elements());
  }
  const size_t parameters =
      std::max(worker.parameters().size(), job.parameters().size());
  size_t number = 0;
  while (number + 1 < parameters &&
         DescribeParameter(worker, number) == DescribeParameter(job, number)) {
    ++number;
  }
  return absl::StrCat("parameter ", number, " is ",
                      DescribeParameter(worker, number), ", expected ",
                      DescribeParameter(job, number));
}

template <typename... What>
absl::Status CannotResume(const CheckpointManifest& manifest,
                          const What&... what) {
  return absl::InvalidArgumentError(
      absl::StrCat("cannot resume from the checkpoint at step ",
                   manifest.step(), ": ", what...));
}

}  // namespace

std::string JobId(const JobSpec& job) {
  JobSpec result = job;
  // The output folder does not affect the result.
  result.clear_output();
  return Sha256Hex(result.SerializeAsString());
}

absl::Status CheckJob(const std::string& worker, const std::string& server) {
  if (worker.empty() || worker == server) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "this worker's job (", worker.substr(0, 12),
      ") is not the one served here (", server.substr(0, 12),
      "): another job's server has this address now; start the worker again"));
}

absl::Status CheckProtocol(int32_t version) {
  if (version == kProtocolVersion) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "this process speaks protocol version ", version, ", the coordinator ",
      kProtocolVersion, ": use the same release everywhere"));
}

absl::Status CheckStatistics(const ProcessStatistics& statistics) {
  const std::pair<absl::string_view, double> times[] = {
      {"compute_seconds", statistics.compute_seconds()},
      {"exchange_seconds", statistics.exchange_seconds()},
      {"data_seconds", statistics.data_seconds()},
      {"evaluation_seconds", statistics.evaluation_seconds()},
      {"cpu_seconds", statistics.cpu_seconds()},
      {"forward_seconds", statistics.forward_seconds()},
      {"backward_seconds", statistics.backward_seconds()},
      {"leaf_seconds", statistics.leaf_seconds()},
      {"leaf_cpu_seconds", statistics.leaf_cpu_seconds()}};
  for (const auto& [name, seconds] : times) {
    if (std::isfinite(seconds)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "ProcessStatistics.", name, " is ", seconds, ", expected a number"));
  }
  return absl::OkStatus();
}

absl::Status CheckModel(const ParameterTable& table, const ArenaLayout& job) {
  const absl::StatusOr<ArenaLayout> layout = ArenaLayout::Create(table);
  if (!layout.ok()) return layout.status();
  if (layout->signature() == job.signature()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "this worker's model (",
      Counted(layout->parameters().size(), "parameter"), ", signature ",
      layout->signature().substr(0, 12), ") is not the job's (",
      Counted(job.parameters().size(), "parameter"), ", signature ",
      job.signature().substr(0, 12), "): ", DescribeDifference(*layout, job),
      "; use the same release everywhere"));
}

absl::Status CheckFacts(const DataFacts& facts, const JobSpec& job) {
  const auto check = [](absl::string_view name, int64_t value,
                        int64_t expected) {
    if (value == expected) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "this worker's DataFacts.", name, " is ", value, ", expected ",
        expected, " for this job; see proto/DATA.md"));
  };
  if (facts.train_samples() < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("this worker's DataFacts.train_samples is ",
                     facts.train_samples(), ", expected at least 1"));
  }
  const int64_t steps_per_epoch =
      (facts.train_samples() - 1) / job.batch().global() + 1;
  TRIBUTARY_RETURN_IF_ERROR(
      check("steps_per_epoch", facts.steps_per_epoch(), steps_per_epoch));
  if (job.has_steps()) {
    TRIBUTARY_RETURN_IF_ERROR(check("steps", facts.steps(), job.steps()));
  } else if (job.has_epochs()) {
    const double steps =
        std::ceil(job.epochs() * static_cast<double>(steps_per_epoch));
    TRIBUTARY_RETURN_IF_ERROR(
        check("steps", facts.steps(),
              std::max<int64_t>(1, static_cast<int64_t>(steps))));
  }
  if (job.evaluation().disabled() || facts.evaluation_pieces() < 0) {
    return check("evaluation_pieces", facts.evaluation_pieces(), 0);
  }
  return absl::OkStatus();
}

absl::Status CheckExternalData(const DataFacts& facts, const JobSpec& job) {
  if (!job.data().has_external()) return absl::OkStatus();
  const ExternalDataSpec& stated = job.data().external();
  const auto differs = [](absl::string_view fact, const auto& value,
                          absl::string_view field, const auto& expected) {
    return absl::InvalidArgumentError(
        absl::StrCat("this worker's DataFacts.", fact, " is ", value,
                     ", expected ", expected, " by data.external.", field,
                     " of the job: correct the job, or this worker's data"));
  };
  if (stated.has_train_samples() &&
      facts.train_samples() != stated.train_samples()) {
    return differs("train_samples", facts.train_samples(), "train_samples",
                   stated.train_samples());
  }
  // A registered data set knows what the job leaves out.
  const bool registered = stated.has_name();
  const int64_t piece = std::max<int64_t>(job.evaluation().batch(), 1);
  const int64_t pieces =
      job.evaluation().disabled()
          ? 0
          : (stated.evaluation_samples() + piece - 1) / piece;
  if ((stated.has_evaluation_samples() || !registered) &&
      facts.evaluation_pieces() != pieces) {
    return differs("evaluation_pieces", facts.evaluation_pieces(),
                   "evaluation_samples", pieces);
  }
  if ((stated.has_fingerprint() || !registered) &&
      facts.fingerprint() != stated.fingerprint()) {
    return differs("fingerprint", facts.fingerprint(), "fingerprint",
                   stated.fingerprint());
  }
  if (facts.unit() != stated.unit()) {
    return differs("unit", Quoted(facts.unit()), "unit", Quoted(stated.unit()));
  }
  return absl::OkStatus();
}

absl::Status CheckData(const DataFacts& facts, const DataFacts& job,
                       const std::string& whose) {
  if (facts.SerializeAsString() == job.SerializeAsString()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "this worker's data (", DescribeData(facts), ") differ from the job's (",
      DescribeData(job), "), which are those of ", whose,
      DescribeOtherFacts(facts, job),
      ": copy the same files to this machine and start this worker again; if "
      "this worker's are the right ones, copy them to every machine and start "
      "the job again"));
}

std::string DescribeReady(const Ready& ready) {
  const absl::StatusOr<ArenaLayout> layout = ArenaLayout::Create(ready.table());
  return absl::StrCat(
      DescribeData(ready.data()), ", model ",
      layout.ok() ? layout->signature().substr(0, 12) : "unknown");
}

std::string DescribeModelDifference(const Ready& worker, const Ready& other) {
  const auto a = ArenaLayout::Create(worker.table());
  const auto b = ArenaLayout::Create(other.table());
  if (!a.ok() || !b.ok() || a->signature() == b->signature()) return "";
  return DescribeDifference(*a, *b);
}

std::vector<std::string> StateNames(const JobSpec& job) {
  const auto optimizer = Optimizer::Create(JobOfRounds(job).optimizer());
  return optimizer.ok() ? (*optimizer)->slot_names()
                        : std::vector<std::string>();
}

absl::Status CheckState(const CheckpointManifest& manifest,
                        const JobSpec& job) {
  const std::vector<std::string> state = StateNames(job);
  if (std::equal(state.begin(), state.end(), manifest.state().begin(),
                 manifest.state().end())) {
    return absl::OkStatus();
  }
  return CannotResume(manifest, "it is of another optimizer, whose state is {",
                      absl::StrJoin(manifest.state(), ", "),
                      "}; this job's is {", absl::StrJoin(state, ", "), "}");
}

absl::Status CheckSteps(const CheckpointManifest& manifest, const JobSpec& job,
                        int64_t steps) {
  const Rounds rounds(job, steps);
  if (manifest.version() <= rounds.count() &&
      rounds.StepsAfter(manifest.version()) == manifest.step()) {
    return absl::OkStatus();
  }
  return CannotResume(
      manifest, "this job ends at step ", steps,
      rounds.count() < manifest.version()
          ? "; ask for more steps"
          : " and counts steps in other rounds; keep inner_steps");
}

namespace {

// Leaves aliases out, which a checkpoint does not depend on.
std::string DescribeEntry(const ParameterTable& table, int number) {
  if (number >= table.parameter_size()) return "nothing";
  ParameterTable::Parameter entry = table.parameter(number);
  entry.clear_alias();
  return entry.ShortDebugString();
}

}  // namespace

absl::Status CheckResume(const CheckpointManifest& manifest, const Ready& ready,
                         const JobSpec& job) {
  const ParameterTable& saved = manifest.table();
  const ParameterTable& ours = ready.table();
  for (int i = 0; i < std::max(saved.parameter_size(), ours.parameter_size());
       ++i) {
    const std::string was = DescribeEntry(saved, i);
    const std::string is = DescribeEntry(ours, i);
    if (was != is) {
      return CannotResume(manifest, "it is of another model: parameter ", i,
                          " was {", was, "}, is {", is, "}");
    }
  }
  TRIBUTARY_RETURN_IF_ERROR(CheckState(manifest, job));
  return CheckSteps(manifest, job, ready.data().steps());
}

}  // namespace tributary
