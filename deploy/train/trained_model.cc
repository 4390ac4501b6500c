#include "deploy/train/trained_model.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/buffer_pool.h"
#include "common/base/status_macros.h"
#include "common/job/job.h"
#include "common/parameters/parameter_table.h"
#include "common/tensor_io/safetensors.h"
#include "common/text/counted.h"
#include "worker/data/batch.h"
#include "worker/device/device.h"
#include "worker/models/model.h"

namespace tributary {
namespace {

constexpr int64_t kVocabulary = 256;

absl::StatusOr<JobSpec> LoadGptJob(const std::string& directory) {
  const std::string path = absl::StrCat(directory, "/job.textproto");
  absl::StatusOr<JobSpec> job = LoadJob(path);
  if (!job.ok()) {
    return absl::NotFoundError(absl::StrCat(
        job.status().message(),
        "; pass the folder of a run, which `tributary train` prints"));
  }
  if (!job->model().has_gpt()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": the model is ", ModelTitle(*job),
                     "; only gpt models generate text"));
  }
  TRIBUTARY_RETURN_IF_ERROR(ValidateJob(*job));
  if (job->model().gpt().vocabulary() != kVocabulary) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": model.gpt.vocabulary is ", job->model().gpt().vocabulary(),
        "; only models of the ", kVocabulary, " byte values generate text"));
  }
  return ResolveJob(*std::move(job));
}

// Reads the tensors of the file into the arena of `layout`.
absl::Status ReadWeights(const std::string& path, const ArenaLayout& layout,
                         float* arena) {
  TRIBUTARY_ASSIGN_OR_RETURN(const SafetensorsFile file,
                             SafetensorsFile::Open(path));
  const size_t expected = layout.parameters().size();
  if (file.tensors().size() != expected) {
    return absl::DataLossError(
        absl::StrCat(path, " holds ", Counted(file.tensors().size(), "tensor"),
                     ", but the model of job.textproto has ", expected));
  }
  for (const Parameter& parameter : layout.parameters()) {
    const absl::StatusOr<const TensorEntry*> entry = file.Find(parameter.name);
    if (!entry.ok()) {
      return absl::DataLossError(
          absl::StrCat(path, " has no tensor ", parameter.name,
                       ", which the model of job.textproto requires"));
    }
    if ((*entry)->dtype != "F32" || (*entry)->shape != parameter.shape) {
      return absl::DataLossError(absl::StrCat(
          path, ": tensor ", parameter.name, " is ", (*entry)->dtype, "[",
          absl::StrJoin((*entry)->shape, ", "), "], expected F32[",
          absl::StrJoin(parameter.shape, ", "), "]"));
    }
    TRIBUTARY_RETURN_IF_ERROR(file.ReadFloats(
        **entry, absl::MakeSpan(arena + parameter.offset, parameter.size)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> SampleTrainedModel(const std::string& directory,
                                               FinalWeights which,
                                               absl::string_view prompt,
                                               const GenerateOptions& options,
                                               const DeviceName& place) {
  TRIBUTARY_ASSIGN_OR_RETURN(const JobSpec job, LoadGptJob(directory));
  DataInfo info;
  info.kind = DataInfo::Kind::kTokens;
  info.sample_shape = {job.model().gpt().context()};
  info.classes = kVocabulary;
  TRIBUTARY_ASSIGN_OR_RETURN(const std::unique_ptr<Device> device,
                             CreateDevice(place, PrecisionOf(job)));
  TRIBUTARY_ASSIGN_OR_RETURN(
      const std::unique_ptr<Model> model,
      CreateModel(job.model(), info, /*max_samples=*/1, device.get()));
  ParameterTable table = model->table();
  table.set_chunk_elements(ChunkBytes(job.exchange()) /
                           static_cast<int64_t>(sizeof(float)));
  TRIBUTARY_ASSIGN_OR_RETURN(const ArenaLayout layout,
                             ArenaLayout::Create(table));
  const size_t bytes = layout.arena_elements() * sizeof(float);
  const Buffer weights = AllocateBuffer(layout.arena_elements());
  std::fill_n(weights.get(), layout.arena_elements(), 0.0f);
  TRIBUTARY_ASSIGN_OR_RETURN(const std::string path,
                             FinalWeightsPath(directory, which));
  TRIBUTARY_RETURN_IF_ERROR(ReadWeights(path, layout, weights.get()));
  TRIBUTARY_ASSIGN_OR_RETURN(const Device::Memory memory,
                             device->Allocate(bytes));
  device->CopyFromHost(memory.get(), weights.get(), bytes);
  return GenerateText(model.get(), static_cast<const float*>(memory.get()),
                      prompt, options);
}

}  // namespace tributary
