#include "common/job/job.h"

#include <google/protobuf/text_format.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "common/job/first_error.h"
#include "common/job/gpt_preset.h"
#include "common/job/resnet_preset.h"
#include "common/os/file.h"

namespace tributary {
namespace {

using ::google::protobuf::TextFormat;

// Bounds the size of a job file, which is about a page of text.
constexpr int64_t kMaxJobBytes = 1 << 20;
// Bounds the parser's stack. No job is nested as deeply.
constexpr int kMaxDepth = 20;
constexpr int64_t kMostDefaultMicroBatches = 8;
// Little work is lost with a server, also in a short run. A longer time would
// save nothing: small checkpoints cost next to nothing, and large ones are
// written less often (see CheckpointSpec).
constexpr double kDefaultCheckpointSeconds = 10;

const google::protobuf::OneofDescriptor* ModelKindOneof() {
  return ModelSpec::descriptor()->FindOneofByName("kind");
}

int64_t DefaultMicroBatches(int64_t global_batch) {
  int64_t count = 1;
  while (count < kMostDefaultMicroBatches && global_batch % (2 * count) == 0) {
    count *= 2;
  }
  return count;
}

void ResolveSparse(SparseSpec* sparse) {
  for (SparseTableSpec& table : *sparse->mutable_table()) {
    if (table.initial_case() == SparseTableSpec::INITIAL_NOT_SET) {
      table.set_uniform(1 / std::sqrt(static_cast<double>(table.dim())));
    }
  }
  for (SparseFeatureSpec& feature : *sparse->mutable_feature()) {
    if (!feature.has_name()) feature.set_name(feature.column());
  }
}

// A job in JSON: the names of fields are those of job.proto.
absl::StatusOr<JobSpec> ParseJsonJob(absl::string_view text,
                                     absl::string_view file_name) {
  JobSpec job;
  const auto parsed =
      google::protobuf::util::JsonStringToMessage(std::string(text), &job);
  if (parsed.ok()) return job;
  std::string message(parsed.message());
  message.resize(message.find_last_not_of(" \n.") + 1);
  std::replace(message.begin(), message.end(), '\n', ' ');
  google::protobuf::util::JsonParseOptions tolerant;
  tolerant.ignore_unknown_fields = true;
  job.Clear();
  if (!google::protobuf::util::JsonStringToMessage(std::string(text), &job,
                                                   tolerant)
           .ok()) {
    job.Clear();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(file_name, ": ", ExplainJsonError(job, message)));
}

}  // namespace

absl::StatusOr<JobSpec> ParseJob(absl::string_view text,
                                 absl::string_view file_name) {
  // The UTF-8 byte order mark, which some editors write.
  absl::ConsumePrefix(&text, "\xEF\xBB\xBF");
  if (absl::StartsWith(absl::StripLeadingAsciiWhitespace(text), "{")) {
    return ParseJsonJob(text, file_name);
  }
  FirstError errors(text);
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&errors);
  parser.SetRecursionLimit(kMaxDepth);
  JobSpec job;
  if (!parser.ParseFromString(std::string(text), &job)) {
    const std::string hint = FormatHint(text);
    return absl::InvalidArgumentError(
        absl::StrCat(file_name,
                     hint.empty() ? errors.message()
                                  : absl::StripSuffix(errors.message(), "."),
                     hint));
  }
  return job;
}

absl::StatusOr<JobSpec> LoadJob(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(path, kMaxJobBytes);
  if (!text.ok()) return absl::InvalidArgumentError(text.status().message());
  return ParseJob(*text, path);
}

std::string ModelKind(const JobSpec& job) {
  const ModelSpec& model = job.model();
  const google::protobuf::FieldDescriptor* const kind =
      model.GetReflection()->GetOneofFieldDescriptor(model, ModelKindOneof());
  return kind == nullptr ? "" : kind->name();
}

std::vector<std::string> ModelKinds() {
  std::vector<std::string> kinds;
  for (int i = 0; i < ModelKindOneof()->field_count(); ++i) {
    kinds.push_back(ModelKindOneof()->field(i)->name());
  }
  return kinds;
}

std::string ModelTitle(const JobSpec& job) {
  const std::string kind = ModelKind(job);
  if (!job.model().has_external()) return kind;
  return absl::StrCat(kind, " ", job.model().external().name());
}

bool PredictsTokens(const JobSpec& job) {
  return job.model().has_gpt() ||
         (job.model().has_bert() &&
          job.model().bert().head() == BertSpec::MASKED_LANGUAGE_MODEL);
}

int64_t UnitsPerSample(const JobSpec& job) {
  if (job.model().has_gpt()) return job.model().gpt().context();
  if (PredictsTokens(job)) return job.model().bert().context();
  return job.data().has_external() ? job.data().external().units_per_sample()
                                   : 1;
}

bool SampleCountsVary(const JobSpec& job) {
  return job.data().has_external() ||
         (job.model().has_bert() && PredictsTokens(job));
}

JobSpec ResolveJob(JobSpec job) {
  if (job.name().empty()) {
    job.set_name(job.model().has_external() ? job.model().external().name()
                                            : ModelKind(job));
  }
  BatchSpec* batch = job.mutable_batch();
  if (batch->micro_batches() == 0) {
    batch->set_micro_batches(DefaultMicroBatches(batch->global()));
  }
  // Otherwise it depends on the number of micro-batches, which is not known
  // yet.
  if (job.evaluation().batch() == 0 &&
      batch->micro_batches() != kFindMicroBatches) {
    job.mutable_evaluation()->set_batch(std::max(
        batch->global() / batch->micro_batches(), kLeastEvaluationBatch));
  }
  if (job.model().has_gpt()) {
    ApplyGptPreset(job.mutable_model()->mutable_gpt());
  }
  if (job.model().has_cnn()) {
    for (CnnSpec::Block& block :
         *job.mutable_model()->mutable_cnn()->mutable_block()) {
      if (block.padding() == -1) block.set_padding((block.kernel() - 1) / 2);
    }
  }
  if (job.model().has_resnet()) {
    *job.mutable_model()->mutable_resnet() = WithPreset(job.model().resnet());
  }
  if (ReadsFeatures(job.model())) {
    job.mutable_model()->set_loss(LossOfModel(job.model()));
  }
  if (job.has_sparse()) ResolveSparse(job.mutable_sparse());
  ExchangeSpec* const exchange = job.mutable_exchange();
  if (exchange->has_all_reduce()) {
    exchange->mutable_all_reduce()->set_chunk_bytes(ChunkBytes(*exchange));
  } else {
    exchange->mutable_parameter_server()->set_chunk_bytes(
        ChunkBytes(*exchange));
  }
  return job;
}

bool ReadsFeatures(const ModelSpec& model) {
  return model.has_dlrm() || model.has_deepfm() || model.has_dcn_v2() ||
         model.has_wide_and_deep() || model.has_matrix_factorization();
}

ModelSpec::Loss LossOfModel(const ModelSpec& model) {
  return !model.has_loss() && ReadsFeatures(model)
             ? ModelSpec::BINARY_CROSS_ENTROPY
             : model.loss();
}

int64_t ChunkBytes(const ExchangeSpec& exchange) {
  return exchange.has_all_reduce() ? exchange.all_reduce().chunk_bytes()
                                   : exchange.parameter_server().chunk_bytes();
}

absl::Duration CheckpointInterval(const JobSpec& job) {
  const CheckpointSpec& checkpoint = job.checkpoint();
  // Others would displace those that the user has asked for, or be kept
  // forever.
  const bool on_by_default =
      !checkpoint.has_every_steps() && checkpoint.keep_last() != 0;
  const double seconds = checkpoint.has_every_seconds()
                             ? checkpoint.every_seconds()
                             : (on_by_default ? kDefaultCheckpointSeconds : 0);
  return seconds > 0 ? absl::Seconds(seconds) : absl::InfiniteDuration();
}

bool TakesCheckpoints(const JobSpec& job) {
  return job.checkpoint().every_steps() > 0 ||
         CheckpointInterval(job) < absl::InfiniteDuration();
}

bool ComputesInParts(const JobSpec& job) {
  return job.parallel().has_pipeline() || job.parallel().sharded_weights();
}

JobSpec JobOfWholeModel(JobSpec job) {
  job.mutable_parallel()->clear_pipeline();
  job.mutable_parallel()->clear_sharded_weights();
  return job;
}

std::string PrintJob(const JobSpec& job) {
  TextFormat::Printer printer;
  printer.SetUseShortRepeatedPrimitives(true);
  printer.SetUseUtf8StringEscaping(true);
  std::string text;
  printer.PrintToString(job, &text);
  return text;
}

}  // namespace tributary
