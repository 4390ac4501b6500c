#include "worker/data/data_set.h"

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "worker/data/csv_data_set.h"
#include "worker/data/idx_data_set.h"
#include "worker/data/index_data_set.h"
#include "worker/data/random_data_set.h"
#include "worker/data/text_data_set.h"

namespace tributary {
namespace {

absl::Status CheckGptHasText(const JobSpec& job) {
  if (!job.model().has_gpt()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("data.", job.data().has_idx() ? "idx" : "csv",
                   ": model.gpt learns from text; set data.text"));
}

absl::StatusOr<std::unique_ptr<DataSet>> OpenIdx(const JobSpec& job) {
  if (absl::Status status = CheckGptHasText(job); !status.ok()) return status;
  if (job.model().loss() == ModelSpec::MEAN_SQUARED_ERROR) {
    return absl::InvalidArgumentError(
        "model.loss: MEAN_SQUARED_ERROR needs numbers to predict; data.idx has "
        "classes");
  }
  return IdxDataSet::Open(job.data().idx());
}

absl::StatusOr<std::unique_ptr<DataSet>> OpenCsv(const JobSpec& job) {
  if (absl::Status status = CheckGptHasText(job); !status.ok()) return status;
  return CsvDataSet::Open(
      job.data().csv(),
      /*regression=*/job.model().loss() == ModelSpec::MEAN_SQUARED_ERROR);
}

absl::StatusOr<std::unique_ptr<DataSet>> OpenText(const JobSpec& job) {
  if (!job.model().has_gpt()) {
    return absl::InvalidArgumentError(
        "data.text: text is for model.gpt; other models learn from data.idx or "
        "data.csv");
  }
  if (job.model().loss() == ModelSpec::MEAN_SQUARED_ERROR) {
    return absl::InvalidArgumentError(
        "model.loss: MEAN_SQUARED_ERROR needs numbers to predict; data.text "
        "has bytes");
  }
  return TextDataSet::Open(job.data().text(), job.model().gpt().context(),
                           job.seed());
}

absl::StatusOr<std::unique_ptr<DataSet>> MakeRandom(const JobSpec& job) {
  if (job.model().loss() == ModelSpec::MEAN_SQUARED_ERROR) {
    return absl::InvalidArgumentError(
        "model.loss: MEAN_SQUARED_ERROR needs numbers to predict; data.random "
        "has classes");
  }
  return std::make_unique<RandomDataSet>(job);
}

absl::StatusOr<std::unique_ptr<DataSet>> OpenExternal(
    const ExternalDataSpec& spec) {
  if (!spec.has_name()) return std::make_unique<IndexDataSet>(spec);
  return absl::InvalidArgumentError(absl::StrCat(
      "data.external: this program has no data set \"", spec.name(),
      "\"; start the job with the program that registers it "
      "(tributary::Main)"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<DataSet>> OpenDataSet(const JobSpec& job) {
  switch (job.data().source_case()) {
    case DataSpec::kIdx:
      return OpenIdx(job);
    case DataSpec::kCsv:
      return OpenCsv(job);
    case DataSpec::kText:
      return OpenText(job);
    case DataSpec::kRandom:
      return MakeRandom(job);
    case DataSpec::kExternal:
      return OpenExternal(job.data().external());
    case DataSpec::SOURCE_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      "data: must set one of idx, csv, text, random and external");
}

}  // namespace tributary
