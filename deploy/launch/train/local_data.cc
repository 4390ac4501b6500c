#include "deploy/launch/train/local_data.h"

#include <google/protobuf/message.h>

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/data/data_set.h"
#include "worker/models/initial_weights.h"
#include "worker/models/stages/stage_cuts.h"
#include "worker/nn/graph.h"

namespace tributary {
namespace {

using ::google::protobuf::FieldDescriptor;
using ::google::protobuf::Message;

// A field of the job that names a file or a folder.
struct NamedPath {
  std::string field;
  std::string path;
};

// Adds the paths in `spec`, the message of a data format. `prefix` is the path
// of this message in the job.
void AddPaths(const Message& spec, const std::string& prefix,
              std::vector<NamedPath>* paths) {
  static const auto* const kNames = new std::set<std::string>{
      "directory", "path", "test", "tokenizer", "train", "validation_path"};
  std::vector<const FieldDescriptor*> fields;
  spec.GetReflection()->ListFields(spec, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_STRING ||
        kNames->count(field->name()) == 0) {
      continue;
    }
    const std::string name = absl::StrCat(prefix, ".", field->name());
    if (!field->is_repeated()) {
      paths->push_back({name, spec.GetReflection()->GetString(spec, field)});
      continue;
    }
    for (int i = 0; i < spec.GetReflection()->FieldSize(spec, field); ++i) {
      paths->push_back(
          {name, spec.GetReflection()->GetRepeatedString(spec, field, i)});
    }
  }
}

std::vector<NamedPath> PathsOf(const DataSpec& data) {
  std::vector<NamedPath> paths;
  std::vector<const FieldDescriptor*> sources;
  data.GetReflection()->ListFields(data, &sources);
  for (const FieldDescriptor* source : sources) {
    if (source->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE ||
        source->is_repeated()) {
      continue;
    }
    AddPaths(data.GetReflection()->GetMessage(data, source),
             absl::StrCat("data.", source->name()), &paths);
  }
  return paths;
}

// Returns the number of bytes in a file or folder, or a larger number than
// `most` as soon as there are more. Ignores what cannot be read.
int64_t BytesIn(const std::string& path, int64_t most) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) {
    const auto bytes = std::filesystem::file_size(path, error);
    return error ? 0 : static_cast<int64_t>(bytes);
  }
  int64_t bytes = 0;
  for (auto entry = std::filesystem::recursive_directory_iterator(path, error);
       !error && entry != std::filesystem::recursive_directory_iterator() &&
       bytes <= most;
       entry.increment(error)) {
    std::error_code ignored;
    if (!entry->is_regular_file(ignored)) continue;
    const auto size = entry->file_size(ignored);
    // Opening a file takes time, too.
    bytes += ignored ? 0 : static_cast<int64_t>(size) + 4096;
  }
  return bytes;
}

// Adds the name of the field to an error that begins with the path.
absl::Status WithField(const absl::Status& status,
                       const std::vector<NamedPath>& paths) {
  for (const NamedPath& named : paths) {
    if (absl::StartsWith(status.message(), named.path)) {
      return absl::Status(status.code(),
                          absl::StrCat(named.field, ": ", status.message()));
    }
  }
  return status;
}

// Checks that the model can be divided into the stages of the job's pipeline.
absl::Status CheckPipeline(const JobSpec& job, const DataInfo& info,
                           const TrainingSources& sources) {
  if (!job.parallel().has_pipeline() || sources.build_graph == nullptr) {
    return absl::OkStatus();
  }
  TRIBUTARY_ASSIGN_OR_RETURN(const Graph graph,
                             sources.build_graph(job.model(), info));
  TRIBUTARY_RETURN_IF_ERROR(graph.status());
  return CheckStages(job.parallel().pipeline(), graph);
}

}  // namespace

absl::Status CheckLocalData(const JobSpec& job,
                            const TrainingSources& sources) {
  if (job.model().has_initial_weights()) {
    TRIBUTARY_RETURN_IF_ERROR(
        CheckInitialWeights(job.model().initial_weights()));
  }
  // The size of a sample decides on the layers.
  if (job.data().has_external() && !job.parallel().has_pipeline()) {
    return absl::OkStatus();
  }
  const std::vector<NamedPath> paths = PathsOf(job.data());
  int64_t bytes = 0;
  for (const NamedPath& named : paths) {
    std::error_code error;
    const auto found = std::filesystem::status(named.path, error);
    if (!std::filesystem::exists(found)) {
      return absl::NotFoundError(absl::StrCat(
          named.field, ": ", named.path, ": ",
          error ? error.message() : std::string("no such file or folder")));
    }
    if (bytes <= kMostCheckedBytes) {
      bytes += BytesIn(named.path, kMostCheckedBytes);
    }
  }
  if (bytes > kMostCheckedBytes) return absl::OkStatus();
  const absl::StatusOr<std::unique_ptr<DataSet>> data = sources.open_data(job);
  if (!data.ok()) return WithField(data.status(), paths);
  return CheckPipeline(job, (*data)->info(), sources);
}

}  // namespace tributary
