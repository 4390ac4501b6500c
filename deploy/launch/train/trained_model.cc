#include "deploy/launch/train/trained_model.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "common/base/buffer_pool.h"
#include "common/base/status_macros.h"
#include "common/job/job.h"
#include "common/os/file.h"
#include "common/parameters/arena_layout.h"
#include "common/tensor_io/safetensors_file.h"
#include "common/text/counted.h"
#include "common/text/utf8_stream.h"
#include "common/tokenizer/tokenizer.h"
#include "deploy/launch/train/text_codec.h"
#include "worker/device/device.h"
#include "worker/models/gpt2_config.h"
#include "worker/models/gpt_decoder.h"
#include "worker/models/initial_weights.h"
#include "worker/models/model.h"

namespace tributary {
namespace {

// A model whose weights have not been read.
struct Source {
  ModelSpec model;  // Resolved.
  Precision precision = Precision::kFloat32;
  bool hugging_face = false;
  std::string tokenizer;  // Empty if none is named.
};

// Returns the tokenizer that the job names, or an empty string.
std::string TokenizerOf(const DataSpec& data) {
  return data.has_tokens() ? data.tokens().tokenizer()
                           : data.text().tokenizer();
}

absl::StatusOr<Source> OpenRun(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/job.textproto");
  absl::StatusOr<JobSpec> job = LoadJob(path);
  if (!job.ok()) {
    return absl::NotFoundError(absl::StrCat(
        job.status().message(),
        "; pass the folder of a run, which `tributary train` prints, or a "
        "GPT-2 in the format of Hugging Face"));
  }
  if (!job->model().has_gpt()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": the model is ", ModelTitle(*job),
                     "; only gpt models generate text"));
  }
  TRIBUTARY_RETURN_IF_ERROR(ValidateJob(*job));
  const JobSpec resolved = ResolveJob(*std::move(job));
  Source source;
  source.model = resolved.model();
  source.precision = PrecisionOf(resolved);
  source.tokenizer = TokenizerOf(resolved.data());
  return source;
}

absl::StatusOr<Source> OpenSource(const std::string& folder) {
  if (PathExists(absl::StrCat(folder, "/job.textproto")) ||
      !PathExists(absl::StrCat(folder, "/config.json"))) {
    return OpenRun(folder);
  }
  Source source;
  source.hugging_face = true;
  source.tokenizer = folder;
  TRIBUTARY_ASSIGN_OR_RETURN(*source.model.mutable_gpt(),
                             ReadGpt2Config(folder));
  source.model.mutable_initial_weights()->set_path(folder);
  return source;
}

// Reads the tensors of the file into the arena of `layout`.
absl::Status ReadWeights(const std::string& path, const ArenaLayout& layout,
                         float* arena) {
  TRIBUTARY_ASSIGN_OR_RETURN(const SafetensorsFile file,
                             SafetensorsFile::Open(path));
  TRIBUTARY_RETURN_IF_ERROR(file.Verify());
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

// Weights in the memory of a device.
struct LoadedWeights {
  Buffer host;
  Device::Memory device{nullptr, nullptr};
  const float* arena = nullptr;
};

// Reads the weights of the model in `folder`. Only devices with memory of their
// own need a copy.
absl::StatusOr<LoadedWeights> LoadWeights(const std::string& folder,
                                          FinalWeights which,
                                          const Source& source,
                                          const ArenaLayout& layout,
                                          Device* device) {
  LoadedWeights weights;
  weights.host = AllocateBuffer(layout.arena_elements());
  std::fill_n(weights.host.get(), layout.arena_elements(), 0.0f);
  if (source.hugging_face && which == FinalWeights::kAverage) {
    return absl::InvalidArgumentError(absl::StrCat(
        folder,
        ": --average needs the folder of a run; a folder in the format "
        "of Hugging Face has no average"));
  }
  if (source.hugging_face) {
    TRIBUTARY_RETURN_IF_ERROR(LoadInitialWeights(source.model.initial_weights(),
                                                 layout, weights.host.get()));
  } else {
    TRIBUTARY_ASSIGN_OR_RETURN(const std::string path,
                               FinalWeightsPath(folder, which));
    TRIBUTARY_RETURN_IF_ERROR(ReadWeights(path, layout, weights.host.get()));
  }
  weights.arena = weights.host.get();
  if (!device->has_own_memory()) return weights;
  const size_t bytes =
      static_cast<size_t>(layout.arena_elements()) * sizeof(float);
  TRIBUTARY_ASSIGN_OR_RETURN(weights.device, device->Allocate(bytes));
  device->CopyFromHost(weights.device.get(), weights.host.get(), bytes);
  weights.arena = static_cast<const float*>(weights.device.get());
  weights.host.reset();
  return weights;
}

absl::StatusOr<std::unique_ptr<TextCodec>> OpenCodec(
    const std::string& path, const SampleRequest& request, int64_t vocabulary) {
  TRIBUTARY_ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer,
                             request.open_tokenizer(path));
  if (tokenizer->vocabulary() > vocabulary) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": the tokenizer has ", tokenizer->vocabulary(),
                     " tokens, but the model has ", vocabulary,
                     "; pass the tokenizer that the model was trained with"));
  }
  return TokenizerCodec(std::move(tokenizer));
}

absl::StatusOr<std::unique_ptr<TextCodec>> CodecOf(
    const std::string& folder, const Source& source,
    const SampleRequest& request) {
  const int64_t vocabulary = source.model.gpt().vocabulary();
  const std::string& path =
      request.tokenizer.empty() ? source.tokenizer : request.tokenizer;
  if (!path.empty()) {
    absl::StatusOr<std::unique_ptr<TextCodec>> codec =
        OpenCodec(path, request, vocabulary);
    const bool may_lack = source.hugging_face && request.tokenizer.empty();
    if (codec.ok() || !may_lack || !absl::IsNotFound(codec.status())) {
      return codec;
    }
  }
  std::unique_ptr<TextCodec> bytes = ByteCodec();
  if (bytes->vocabulary() == vocabulary) return bytes;
  return absl::InvalidArgumentError(absl::StrCat(
      folder, ": the model has ", vocabulary,
      " tokens, and no tokenizer is known; pass --tokenizer PATH: a file "
      "tokenizer.json, a .tiktoken file, or a folder in the format of Hugging "
      "Face"));
}

// Returns the tokens with which the model begins.
absl::StatusOr<std::vector<int32_t>> BeginningOf(const std::string& prompt,
                                                 const TextCodec& codec) {
  if (prompt.empty() && codec.end_of_text().has_value()) {
    return std::vector<int32_t>{*codec.end_of_text()};
  }
  return codec.Encode(prompt.empty() ? "\n" : prompt);
}

}  // namespace

absl::Status SampleTrainedModel(
    const std::string& folder, const SampleRequest& request,
    const DeviceName& place,
    const std::function<void(absl::string_view text)>& write) {
  TRIBUTARY_RETURN_IF_ERROR(CheckGenerateOptions(request.options));
  TRIBUTARY_ASSIGN_OR_RETURN(const Source source, OpenSource(folder));
  TRIBUTARY_ASSIGN_OR_RETURN(const std::unique_ptr<TextCodec> codec,
                             CodecOf(folder, source, request));
  TRIBUTARY_ASSIGN_OR_RETURN(std::vector<int32_t> prompt,
                             BeginningOf(request.prompt, *codec));
  TRIBUTARY_ASSIGN_OR_RETURN(const std::unique_ptr<Device> device,
                             CreateDevice(place, source.precision));
  TRIBUTARY_ASSIGN_OR_RETURN(const std::unique_ptr<GptDecoder> decoder,
                             GptDecoder::Create(source.model, device.get()));
  TRIBUTARY_ASSIGN_OR_RETURN(const LoadedWeights weights,
                             LoadWeights(folder, request.weights, source,
                                         decoder->layout(), device.get()));
  decoder->SetWeights(weights.arena);

  GenerateOptions options = request.options;
  options.end = codec->end_of_text();
  Utf8Stream text(/*replace_invalid=*/codec->is_unicode());
  int64_t bytes = 0;
  const auto reached = [&] {
    return request.bytes.has_value() && bytes >= *request.bytes;
  };
  if (reached()) return absl::OkStatus();
  TRIBUTARY_RETURN_IF_ERROR(GenerateTokens(
      [&](absl::Span<const int32_t> tokens, absl::Span<float> logits) {
        return decoder->NextTokenLogits(tokens, logits);
      },
      decoder->vocabulary(), std::move(prompt), options,
      [&](int32_t token) {
        const std::string piece = codec->BytesOf(token);
        bytes += static_cast<int64_t>(piece.size());
        write(text.Add(piece));
        return !reached();
      }));
  write(text.Finish());
  return absl::OkStatus();
}

bool KnowsTokens(const JobSpec& job) {
  return !TokenizerOf(job.data()).empty() ||
         ByteCodec()->vocabulary() == job.model().gpt().vocabulary();
}

}  // namespace tributary
