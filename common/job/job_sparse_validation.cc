#include "common/job/job_sparse_validation.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/base/field_checks.h"
#include "common/base/status_macros.h"
#include "common/job/exchange_traits.h"
#include "common/job/job.h"
#include "common/job/job_checks.h"
#include "common/optimizer/optimizer.h"
#include "common/text/nearest.h"

namespace tributary {
namespace {

// job_checks.h explains the purpose of the limits.
constexpr int64_t kMaxDim = 4096;
constexpr int64_t kMaxBuckets = 65536;
constexpr int64_t kMaxRows = int64_t{1} << 48;
constexpr int64_t kMaxMemoryBytes = int64_t{1} << 50;
constexpr int64_t kMaxFixedLag = 8;
// A message lists the keys of all features.
constexpr int kMaxFeatures = 4096;

// Checks a rule by the checks of the optimizer with the same options.
absl::Status ValidateRule(const std::string& path,
                          const SparseTableSpec& table) {
  OptimizerSpec optimizer;
  std::string name;  // The rule's field.
  switch (table.rule_case()) {
    case SparseTableSpec::kRowWiseAdagrad:
      name = "row_wise_adagrad";
      *optimizer.mutable_adagrad() = table.row_wise_adagrad();
      break;
    case SparseTableSpec::kAdagrad:
      *optimizer.mutable_adagrad() = table.adagrad();
      break;
    case SparseTableSpec::kSgd:
      if (table.sgd().momentum() != 0) {
        return Error(path + ".sgd.momentum", table.sgd().momentum(),
                     " would have to change rows whose keys do not occur; set "
                     "it to 0");
      }
      *optimizer.mutable_sgd() = table.sgd();
      break;
    case SparseTableSpec::kAdam:
      *optimizer.mutable_adam() = table.adam();
      break;
    case SparseTableSpec::kAdamw:
      *optimizer.mutable_adamw() = table.adamw();
      break;
    case SparseTableSpec::RULE_NOT_SET:
      return Error(path,
                   "has no update rule; set one of row_wise_adagrad, adagrad, "
                   "sgd, adam and adamw");
  }
  const absl::Status status = Optimizer::Create(optimizer).status();
  if (status.ok()) return status;
  absl::string_view message = status.message();
  const std::string checked = OptimizerName(optimizer);
  absl::ConsumePrefix(&message, absl::StrCat("optimizer.", checked));
  return absl::InvalidArgumentError(
      absl::StrCat(path, ".", name.empty() ? checked : name, message));
}

absl::Status ValidateSparseTable(const std::string& path,
                                 const SparseTableSpec& table) {
  TRIBUTARY_RETURN_IF_ERROR(ValidateExternalName(path + ".name", table.name()));
  if (!table.has_dim()) return Required(path + ".dim");
  TRIBUTARY_RETURN_IF_ERROR(Between(path + ".dim", table.dim(), 1, kMaxDim));
  TRIBUTARY_RETURN_IF_ERROR(
      Between(path + ".buckets", table.buckets(), 1, kMaxBuckets));
  TRIBUTARY_RETURN_IF_ERROR(NotNegative(path + ".uniform", table.uniform()));
  TRIBUTARY_RETURN_IF_ERROR(NotNegative(path + ".normal", table.normal()));
  TRIBUTARY_RETURN_IF_ERROR(ValidateRule(path, table));
  TRIBUTARY_RETURN_IF_ERROR(Between(path + ".admission.min_count",
                                    table.admission().min_count(), 1,
                                    kMaxSteps));
  if (table.has_expiry()) {
    const std::string field = path + ".expiry.unused_steps";
    if (!table.expiry().has_unused_steps()) return Required(field);
    TRIBUTARY_RETURN_IF_ERROR(
        Between(field, table.expiry().unused_steps(), 1, kMaxSteps));
  }
  TRIBUTARY_RETURN_IF_ERROR(
      Between(path + ".capacity", table.capacity(), 0, kMaxRows));
  if (table.has_disk()) {
    if (table.memory_bytes() == 0) {
      return Error(path + ".disk",
                   "needs memory_bytes: rows that do not fit into it are on "
                   "the disk");
    }
    if (table.disk().folder().empty()) return Required(path + ".disk.folder");
  }
  return Between(path + ".memory_bytes", table.memory_bytes(), 0,
                 kMaxMemoryBytes);
}

// Returns InvalidArgument if two elements of a list of the job have the same
// name.
absl::Status CheckNamesDiffer(absl::string_view list,
                              const std::vector<std::string>& names) {
  for (size_t i = 0; i < names.size(); ++i) {
    const auto first = std::find(names.begin(), names.end(), names[i]);
    const size_t place = static_cast<size_t>(first - names.begin());
    if (place == i) continue;
    return Error(absl::StrCat(list, "[", i, "].name"), "\"", names[i],
                 "\" is also the name of ", list, "[", place,
                 "]; set different names");
  }
  return absl::OkStatus();
}

absl::Status ValidateTables(const SparseSpec& sparse,
                            std::vector<std::string>* names) {
  if (sparse.table().empty()) return Required("sparse.table");
  for (int i = 0; i < sparse.table_size(); ++i) {
    TRIBUTARY_RETURN_IF_ERROR(ValidateSparseTable(
        absl::StrCat("sparse.table[", i, "]"), sparse.table(i)));
    names->push_back(sparse.table(i).name());
  }
  return CheckNamesDiffer("sparse.table", *names);
}

// Checks the columns of a feature without a cross.
absl::Status ValidateColumn(const std::string& path,
                            const SparseFeatureSpec& feature) {
  if (feature.column().empty()) {
    return Error(path + ".column",
                 "is required: the name or the number of a column; or set "
                 "cross to combine several");
  }
  const std::string& separator = feature.separator();
  if (feature.has_separator() &&
      (separator.size() != 1 ||
       (absl::ascii_iscntrl(separator[0]) && separator[0] != '\t'))) {
    return Error(path + ".separator",
                 "must be one character, such as \"|\"; leave it out for a "
                 "column with one value");
  }
  if (feature.has_separator() && feature.pooling() == SparseFeatureSpec::NONE) {
    return Error(path + ".pooling",
                 "is NONE, which needs one key in each sample, but a column "
                 "with separator has any number; set SUM or MEAN");
  }
  return absl::OkStatus();
}

absl::Status ValidateCross(const std::string& path,
                           const SparseFeatureSpec& feature) {
  const auto& cross = feature.cross();
  if (feature.has_column()) {
    return Error(path + ".column",
                 "does not work with cross, which names the columns; leave one "
                 "of them out");
  }
  if (feature.has_separator()) {
    return Error(path + ".separator",
                 "does not work with cross, whose columns have one value each; "
                 "leave one of them out");
  }
  if (feature.integer_keys()) {
    return Error(path + ".integer_keys",
                 "does not work with cross, because a combination is no "
                 "integer; leave it out");
  }
  if (cross.size() < 2) {
    return Error(path + ".cross",
                 "names 1 column, expected at least two; use column for one");
  }
  for (int i = 0; i < cross.size(); ++i) {
    const std::string at = absl::StrCat(path, ".cross[", i, "]");
    if (cross.Get(i).empty()) return Required(at);
    if (std::find(cross.begin(), cross.begin() + i, cross.Get(i)) !=
        cross.begin() + i) {
      return Error(at, "\"", cross.Get(i),
                   "\" is named twice; leave one of them out");
    }
  }
  if (!feature.has_name()) {
    return Error(path + ".name",
                 "is required with cross; name the combination");
  }
  return absl::OkStatus();
}

absl::Status ValidateFeature(const std::string& path,
                             const SparseFeatureSpec& feature,
                             const std::vector<std::string>& tables) {
  TRIBUTARY_RETURN_IF_ERROR(feature.cross().empty()
                                ? ValidateColumn(path, feature)
                                : ValidateCross(path, feature));
  const bool named = feature.has_name();
  const absl::Status name = ValidateExternalName(
      path + ".name", named ? feature.name() : feature.column());
  if (!name.ok()) {
    return named ? name
                 : absl::InvalidArgumentError(absl::StrCat(
                       name.message(), "; set a name for the column"));
  }
  if (feature.table().empty()) return Required(path + ".table");
  if (std::find(tables.begin(), tables.end(), feature.table()) !=
      tables.end()) {
    return absl::OkStatus();
  }
  const std::string near = DidYouMean(feature.table(), tables);
  return Error(path + ".table", "there is no table \"", feature.table(), "\"",
               near.empty() ? "; declare it with sparse.table" : near);
}

absl::Status ValidateFeatureSpecs(const SparseSpec& sparse,
                                  const std::vector<std::string>& tables) {
  if (sparse.feature().empty()) return Required("sparse.feature");
  if (sparse.feature_size() > kMaxFeatures) {
    return Error("sparse.feature", "has ", sparse.feature_size(),
                 " features, at most ", kMaxFeatures, " are allowed");
  }
  std::vector<std::string> names;
  for (int i = 0; i < sparse.feature_size(); ++i) {
    const SparseFeatureSpec& feature = sparse.feature(i);
    TRIBUTARY_RETURN_IF_ERROR(ValidateFeature(
        absl::StrCat("sparse.feature[", i, "]"), feature, tables));
    names.push_back(feature.has_name() ? feature.name() : feature.column());
  }
  return CheckNamesDiffer("sparse.feature", names);
}

// Returns true if the model is built in and reads the vectors of features.
bool NeedsTables(const ModelSpec& model) {
  return model.has_dlrm() || model.has_deepfm() || model.has_dcn_v2() ||
         model.has_wide_and_deep() || model.has_matrix_factorization();
}

// Checks that the model and the data work with tables.
absl::Status ValidateUse(const JobSpec& job) {
  if (!NeedsTables(job.model()) && !job.model().has_external()) {
    return Error("sparse", "model.", ModelKind(job),
                 " reads no tables; use dlrm, deepfm, dcn_v2, wide_and_deep, "
                 "matrix_factorization or external, or leave sparse out");
  }
  const DataSpec& data = job.data();
  if (data.has_csv() || data.has_criteo() || data.has_clicks() ||
      data.has_external()) {
    return absl::OkStatus();
  }
  return Error("data",
               "has no columns for sparse.feature; set csv, criteo, clicks or "
               "external");
}

// Checks that the way in which the job exchanges and computes works with
// tables.
absl::Status ValidateSparseExchange(const JobSpec& job) {
  const ExchangeTraits traits = ResolveExchange(job);
  if (!traits.servers_update) {
    return Error("exchange.all_reduce",
                 "does not work with sparse, whose tables are on servers; use "
                 "exchange.parameter_server");
  }
  if (traits.kind != ExchangeKind::kSynchronous && !traits.whole_batches) {
    return Error(
        absl::StrCat("exchange.parameter_server.consistency.",
                     traits.local_sgd ? "local_steps" : "stale_synchronous"),
        "is not supported with sparse; use synchronous, with sparse.fixed_lag "
        "if rows should travel while the step before is computed, or "
        "asynchronous");
  }
  if (traits.whole_batches && job.sparse().fixed_lag() > 0) {
    return Error("sparse.fixed_lag",
                 "does not work with consistency mode asynchronous, in which "
                 "rows are read in the newest version; leave it out");
  }
  // A worker would need the norm of rows that other workers change.
  if (traits.contributions_await_norm) {
    return Error(job.clip_norm() > 0 ? "clip_norm" : "on_nonfinite",
                 "does not work with sparse in consistency mode asynchronous; "
                 "leave it out, or use synchronous");
  }
  const struct {
    const char* field;
    bool set;
  } unsupported_fields[] = {
      {"parallel.pipeline", job.parallel().has_pipeline()},
      {"parallel.sharded_weights", job.parallel().sharded_weights()},
      {"exchange.compression", job.exchange().has_compression()},
  };
  for (const auto& unsupported : unsupported_fields) {
    if (!unsupported.set) continue;
    return Error(unsupported.field,
                 "is not supported yet with sparse; leave it out");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateSparse(const JobSpec& job) {
  if (!job.has_sparse()) {
    if (!NeedsTables(job.model())) return absl::OkStatus();
    return Error("sparse", "is required with model.", ModelKind(job),
                 ", which reads tables; declare tables and features");
  }
  const SparseSpec& sparse = job.sparse();
  std::vector<std::string> tables;
  TRIBUTARY_RETURN_IF_ERROR(ValidateTables(sparse, &tables));
  TRIBUTARY_RETURN_IF_ERROR(ValidateFeatureSpecs(sparse, tables));
  TRIBUTARY_RETURN_IF_ERROR(
      Between("sparse.fixed_lag", sparse.fixed_lag(), 0, kMaxFixedLag));
  TRIBUTARY_RETURN_IF_ERROR(ValidateUse(job));
  return ValidateSparseExchange(job);
}

}  // namespace tributary
