#include "worker/data/open_data_set.h"

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/job/config.h"
#include "common/text/nearest.h"
#include "worker/data/click_data_set.h"
#include "worker/data/csv_data_set.h"
#include "worker/data/formats/feature_reader.h"
#include "worker/data/idx_data_set.h"
#include "worker/data/image_data_set.h"
#include "worker/data/index_data_set.h"
#include "worker/data/labeled_text_data_set.h"
#include "worker/data/masked_data_set.h"
#include "worker/data/random_data_set.h"
#include "worker/data/text/text_tokens.h"
#include "worker/data/text/token_data.h"
#include "worker/data/text/token_files.h"
#include "worker/data/token_data_set.h"

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

absl::StatusOr<std::unique_ptr<DataSet>> OpenImages(const JobSpec& job) {
  // All processors, because training has not begun.
  const int threads =
      std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  return ImageDataSet::Open(job.data().images(), job.seed(), threads);
}

absl::StatusOr<std::unique_ptr<DataSet>> OpenCsv(const JobSpec& job) {
  if (absl::Status status = CheckGptHasText(job); !status.ok()) return status;
  return CsvDataSet::Open(job.data().csv(), job.model().loss(), job.sparse());
}

// Returns the model that reads the text of the job's data source `source`.
absl::StatusOr<TextModel> TextModelOf(const JobSpec& job, const char* source) {
  const ModelSpec& model = job.model();
  if (model.loss() == ModelSpec::MEAN_SQUARED_ERROR) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.loss: MEAN_SQUARED_ERROR needs numbers to predict; "
                     "data.",
                     source, " has tokens or classes"));
  }
  if (model.has_gpt()) {
    return TextModel{"model.gpt", model.gpt().context(),
                     model.gpt().vocabulary()};
  }
  if (model.has_bert()) {
    return TextModel{"model.bert", model.bert().context(),
                     model.bert().vocabulary()};
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "data.", source,
      ": only model.gpt and model.bert learn from text; other models learn "
      "from data.idx, data.images or data.csv"));
}

// Creates the samples of the model from the tokens.
absl::StatusOr<std::unique_ptr<DataSet>> DivideTokens(const JobSpec& job,
                                                      const TextModel& model,
                                                      TokenData data) {
  if (!job.model().has_bert()) {
    return TokenDataSet::Create(std::move(data), model, job.seed());
  }
  if (job.model().bert().head() != BertSpec::MASKED_LANGUAGE_MODEL) {
    return absl::InvalidArgumentError(
        "model.bert.head: SEQUENCE_CLASSIFICATION needs texts with labels; set "
        "data.labeled_text");
  }
  if (data.tokenizer == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(data.tokenizer_field, ": is required with model.bert"));
  }
  MaskedDataSet::Options options;
  options.mask_probability = job.model().bert().mask_probability();
  options.seed = job.seed();
  return MaskedDataSet::Create(std::move(data), model, options);
}

absl::StatusOr<std::unique_ptr<DataSet>> OpenText(const JobSpec& job) {
  TRIBUTARY_ASSIGN_OR_RETURN(const TextModel model, TextModelOf(job, "text"));
  TRIBUTARY_ASSIGN_OR_RETURN(TokenData data, OpenTextTokens(job.data().text()));
  return DivideTokens(job, model, std::move(data));
}

absl::StatusOr<std::unique_ptr<DataSet>> OpenTokens(const JobSpec& job) {
  const TokensSpec& tokens = job.data().tokens();
  TRIBUTARY_ASSIGN_OR_RETURN(const TextModel model, TextModelOf(job, "tokens"));
  TRIBUTARY_ASSIGN_OR_RETURN(TokenData data, OpenTokenFiles(tokens, model));
  if (job.model().has_bert() && tokens.has_tokenizer()) {
    TRIBUTARY_ASSIGN_OR_RETURN(
        data.tokenizer,
        OpenTokenizerOf(data.tokenizer_field, tokens.tokenizer()));
  }
  return DivideTokens(job, model, std::move(data));
}

absl::StatusOr<std::unique_ptr<DataSet>> OpenLabeledText(const JobSpec& job) {
  if (!job.model().has_bert() ||
      job.model().bert().head() != BertSpec::SEQUENCE_CLASSIFICATION) {
    return absl::InvalidArgumentError(
        "data.labeled_text: needs model.bert with head "
        "SEQUENCE_CLASSIFICATION");
  }
  TRIBUTARY_ASSIGN_OR_RETURN(const TextModel model,
                             TextModelOf(job, "labeled_text"));
  return LabeledTextDataSet::Open(job.data().labeled_text(), model);
}

absl::StatusOr<std::unique_ptr<DataSet>> MakeRandom(const JobSpec& job) {
  if (job.model().loss() == ModelSpec::MEAN_SQUARED_ERROR) {
    return absl::InvalidArgumentError(
        "model.loss: MEAN_SQUARED_ERROR needs numbers to predict; data.random "
        "has classes");
  }
  return std::make_unique<RandomDataSet>(job);
}

template <typename Number>
absl::Status CheckStated(const char* field, bool stated, Number in_job,
                         Number in_data) {
  if (!stated || in_job == in_data) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "data.external.", field, ": ", in_job, ", but the data set has ", in_data,
      "; correct the job, or leave the field out"));
}

absl::Status CheckDataSet(const ExternalDataSpec& spec, const DataSet& data) {
  if (data.train_samples() < 1 || data.evaluation_samples() < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data.external: the data set \"", spec.name(), "\" has ",
        data.train_samples(), " training samples and ",
        data.evaluation_samples(), " held-out samples; it needs at least one ",
        "training sample"));
  }
  TRIBUTARY_RETURN_IF_ERROR(
      CheckStated("train_samples", spec.has_train_samples(),
                  spec.train_samples(), data.train_samples()));
  TRIBUTARY_RETURN_IF_ERROR(
      CheckStated("evaluation_samples", spec.has_evaluation_samples(),
                  spec.evaluation_samples(), data.evaluation_samples()));
  return CheckStated("fingerprint", spec.has_fingerprint(), spec.fingerprint(),
                     data.fingerprint());
}

// Opens a data set of the program.
absl::StatusOr<std::unique_ptr<DataSet>> OpenRegistered(
    const ExternalDataSpec& spec, const DataRegistry& registered) {
  const DataFactory* const factory = registered.Find(spec.name());
  if (factory == nullptr) {
    const std::string near = DidYouMean(spec.name(), registered.names());
    return absl::InvalidArgumentError(absl::StrCat(
        "data.external: this program has no data set \"", spec.name(), "\"",
        near.empty() ? "; start the job with the program that registers it "
                       "(tributary::Main)"
                     : near));
  }
  if (*factory == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.external: the program registered the data set \"",
                     spec.name(), "\" with a null factory"));
  }
  Config config("data.external.config", spec.config());
  absl::StatusOr<std::unique_ptr<DataSet>> data = (*factory)(&config);
  TRIBUTARY_RETURN_IF_ERROR(config.status());
  TRIBUTARY_RETURN_IF_ERROR(FromFactory(data.status()));
  TRIBUTARY_RETURN_IF_ERROR(config.CheckAllRead());
  if (*data == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data.external: the factory of the data set \"", spec.name(),
        "\" returned null, expected a data set or an error"));
  }
  TRIBUTARY_RETURN_IF_ERROR(CheckDataSet(spec, **data));
  return data;
}

// Checks that a data set of the program has the features of the job.
absl::Status CheckFeatures(const SparseSpec& sparse, const DataSet& data) {
  TRIBUTARY_ASSIGN_OR_RETURN(
      const FeatureReader reader,
      FeatureReader::Create(sparse, [](const std::string&, const std::string&) {
        return absl::StatusOr<int64_t>(0);
      }));
  if (data.info().vector_dims == reader.dims()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "data.external: the data set has features with vectors of sizes [",
      absl::StrJoin(data.info().vector_dims, ", "), "], but sparse has [",
      absl::StrJoin(reader.dims(), ", "),
      "]; set the same features in "
      "DataInfo::vector_dims, or change sparse"));
}

absl::StatusOr<std::unique_ptr<DataSet>> OpenExternal(
    const JobSpec& job, const DataRegistry& registered) {
  const ExternalDataSpec& spec = job.data().external();
  if (!spec.has_name()) return std::make_unique<IndexDataSet>(spec);
  TRIBUTARY_ASSIGN_OR_RETURN(std::unique_ptr<DataSet> data,
                             OpenRegistered(spec, registered));
  TRIBUTARY_RETURN_IF_ERROR(CheckFeatures(job.sparse(), *data));
  return data;
}

}  // namespace

absl::StatusOr<std::unique_ptr<DataSet>> OpenDataSet(
    const JobSpec& job, const DataRegistry& registered) {
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
      return OpenExternal(job, registered);
    case DataSpec::kTokens:
      return OpenTokens(job);
    case DataSpec::kImages:
      return OpenImages(job);
    case DataSpec::kLabeledText:
      return OpenLabeledText(job);
    case DataSpec::kCriteo:
    case DataSpec::kClicks:
      return ClickDataSet::Open(job);
    case DataSpec::SOURCE_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      "data: must set one of idx, csv, text, tokens, labeled_text, images, "
      "random, criteo, clicks and external");
}

}  // namespace tributary
