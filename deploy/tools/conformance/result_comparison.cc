#include "deploy/tools/conformance/result_comparison.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "common/codec/row_codec.h"
#include "common/job/exchange_traits.h"

namespace tributary {
namespace {

// Different implementations of the same arithmetic round differently.
constexpr double kTolerance = 1e-5;
// A number that rounds the other way to 16 or 8 bits is another number.
constexpr double kToleranceOfEncodings = 1e-4;
// Limit for the norm of the weights' differences, relative to the change of the
// weights in training. Detects small errors of all weights. Numbers that round
// the other way are rare, so they stay below it.
constexpr double kRelativeTolerance = 1e-3;
// If timing has changed the results, evaluations differ by less than this
// fraction.
constexpr double kSimilar = 0.1;

constexpr char kRoundsOtherwise[] =
    "it rounds sums to 16 bits, or rows to 8 bits, in another way";
constexpr char kRoundingRule[] =
    "ENCODINGS.md, 16-bit numbers and 8-bit rows: round to nearest, ties to "
    "even";

bool RoundsSums(const JobSpec& job) {
  return job.exchange().wire_dtype() != ExchangeSpec::FLOAT32 ||
         (job.has_sparse() && RowEncoding(job) != FLOAT32);
}

bool HasEncoding(const JobSpec& job) {
  return RoundsSums(job) || job.exchange().has_compression();
}

bool Differs(double a, double b, double tolerance) {
  return !(std::abs(a - b) <= tolerance * std::max(1.0, std::abs(b)));
}

// Returns the likely causes of a loss that is the first wrong one, the
// `position`th of the job, counted from 1.
Fault CauseOf(const JobSpec& job, int position) {
  const bool local = ResolveExchange(job).local_sgd;
  if (position == 1) {
    return {absl::StrCat("it has other initial values, other samples, or "
                         "another loss",
                         local ? ", or takes the steps of a round in another "
                                 "way"
                               : ""),
            absl::StrCat("MODELS.md: initial values and losses; SAMPLING.md: "
                         "which samples a micro-batch has",
                         local ? "; STEPS.md, local_steps" : "")};
  }
  if (local) {
    return {
        "it does not start each round from the servers' weights, or its "
        "sums of an earlier round are not the sample counts times the "
        "changes of the weights",
        "STEPS.md, local_steps: a trajectory starts with the weights of "
        "version r, and the leaf's gradient is n_total * (start - w)"};
  }
  // The error of one step is small, so that the first losses are right.
  if (RoundsSums(job) && position > 2) {
    return {kRoundsOtherwise, kRoundingRule};
  }
  // The first step has no residual.
  if (job.exchange().has_compression() && position > 2) {
    return {
        "what compression has left out of a step was not added to the next "
        "one",
        "ENCODINGS.md, Compression"};
  }
  return {
      "the gradient of an earlier step is wrong, or was computed from "
      "other weights",
      absl::StrCat("MODELS.md: gradients are those of the sum of the "
                   "losses; STEPS.md, Leaves and nodes: how they are added",
                   HasEncoding(job) ? "; ENCODINGS.md" : "")};
}

// Explains different weights by the first step whose loss differs. Compares
// `count` losses.
std::optional<Fault> CompareLosses(const JobSpec& job, size_t count,
                                   const RunResult& expected,
                                   const RunResult& actual, double tolerance) {
  int position = 0;
  for (const auto& [step, loss] : expected.losses) {
    if (static_cast<size_t>(++position) > count) break;
    const auto found = actual.losses.find(step);
    if (found == actual.losses.end() ||
        !Differs(found->second, loss, tolerance)) {
      continue;
    }
    const Fault cause = CauseOf(job, position);
    return Fault{
        absl::StrCat("the loss of step ", step, " is ", found->second,
                     ", expected ", loss, " (the built-in worker's)",
                     position == 1 ? "" : ", and the losses before are right",
                     ": ", cause.what),
        cause.rule};
  }
  return std::nullopt;
}

std::optional<Fault> CompareWeights(const JobSpec& job,
                                    const NamedWeights& initial,
                                    const RunResult& expected,
                                    const RunResult& actual, double tolerance) {
  double squares = 0;
  double change_squares = 0;
  for (const auto& [name, tensor] : expected.weights) {
    const auto found = actual.weights.find(name);
    const std::vector<float>& begin = initial.at(name);
    double largest = 0;
    if (found == actual.weights.end() ||
        found->second.values.size() != tensor.values.size()) {
      largest = INFINITY;
    }
    for (size_t i = 0; std::isfinite(largest) && i < begin.size(); ++i) {
      const double wanted = tensor.values[i];
      const double difference = std::abs(wanted - found->second.values[i]);
      if (!(difference <= largest)) largest = difference;
      squares += difference * difference;
      change_squares += (wanted - begin[i]) * (wanted - begin[i]);
    }
    if (largest <= tolerance) continue;
    return Fault{
        absl::StrCat("the final weights of ", name, " differ by ", largest,
                     " from those of the built-in worker"),
        absl::StrCat("PROTOCOL.md, What a worker guarantees; MODELS.md",
                     HasEncoding(job) ? "; ENCODINGS.md" : "")};
  }
  const double relative = std::sqrt(squares / std::max(change_squares, 1e-30));
  if (relative <= kRelativeTolerance) return std::nullopt;
  const std::string what = absl::StrCat(
      "the final weights differ from those of the built-in worker by ",
      relative, " of the change in training, at most ", kRelativeTolerance,
      " is expected");
  if (RoundsSums(job)) {
    return Fault{absl::StrCat(what, ": ", kRoundsOtherwise), kRoundingRule};
  }
  return Fault{what, "PROTOCOL.md, What a worker guarantees; MODELS.md"};
}

}  // namespace

std::optional<Fault> CompareResults(const JobSpec& job,
                                    std::optional<size_t> comparable_losses,
                                    const NamedWeights& initial,
                                    const RunResult& expected,
                                    const RunResult& actual) {
  const double tolerance =
      HasEncoding(job) ? kToleranceOfEncodings : kTolerance;
  const bool deterministic = !comparable_losses.has_value();
  const size_t losses = comparable_losses.value_or(expected.losses.size());
  if (auto fault = CompareLosses(job, losses, expected, actual, tolerance)) {
    return fault;
  }
  if (deterministic) {
    if (auto fault =
            CompareWeights(job, initial, expected, actual, tolerance)) {
      return fault;
    }
  }
  if (expected.evaluation_loss.has_value() &&
      Differs(actual.evaluation_loss.value_or(0), *expected.evaluation_loss,
              deterministic ? tolerance : kSimilar)) {
    return Fault{absl::StrCat("the loss of the evaluation is ",
                              actual.evaluation_loss.value_or(0), ", expected ",
                              *expected.evaluation_loss),
                 "DATA.md, Evaluation: which samples a piece has"};
  }
  return std::nullopt;
}

}  // namespace tributary
