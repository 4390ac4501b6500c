// Writes the logits of a GPT-2 in the format of Hugging Face, for comparison
// with other programs (compare_gpt2.py).
//
//   gpt2_logits FOLDER TOKEN... OUTPUT.safetensors
//
// OUTPUT receives two tensors of logits: "decoded", [tokens, vocabulary], of
// GptDecoder, token by token; and "forward", [tokens / 8, vocabulary], of a
// forward pass, after each eighth token, because each pass computes the whole
// context.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "common/base/buffer_pool.h"
#include "common/base/status_macros.h"
#include "common/tensor_io/safetensors_file.h"
#include "worker/device/device.h"
#include "worker/models/gpt2_config.h"
#include "worker/models/gpt_decoder.h"
#include "worker/models/initial_weights.h"
#include "worker/models/model.h"

namespace tributary {
namespace {

constexpr int64_t kForwardEvery = 8;

absl::Status Run(const std::string& folder, const std::vector<int32_t>& tokens,
                 const std::string& output) {
  ModelSpec spec;
  TRIBUTARY_ASSIGN_OR_RETURN(*spec.mutable_gpt(), ReadGpt2Config(folder));
  spec.mutable_initial_weights()->set_path(folder);
  const std::unique_ptr<Device> device = CreateCpuDevice();
  TRIBUTARY_ASSIGN_OR_RETURN(const std::unique_ptr<GptDecoder> decoder,
                             GptDecoder::Create(spec, device.get()));
  const Buffer weights = AllocateBuffer(decoder->layout().arena_elements());
  std::fill_n(weights.get(), decoder->layout().arena_elements(), 0.0f);
  TRIBUTARY_RETURN_IF_ERROR(LoadInitialWeights(
      spec.initial_weights(), decoder->layout(), weights.get()));
  decoder->SetWeights(weights.get());

  DataInfo info;
  info.kind = DataInfo::Kind::kTokens;
  info.sample_shape = {spec.gpt().context()};
  info.classes = spec.gpt().vocabulary();
  TRIBUTARY_ASSIGN_OR_RETURN(
      const std::unique_ptr<Model> model,
      CreateModel(spec, info, /*max_samples=*/1, device.get()));
  const int64_t count = static_cast<int64_t>(tokens.size());
  const int64_t vocabulary = spec.gpt().vocabulary();
  const int64_t passes = count / kForwardEvery;
  std::vector<float> forward(passes * vocabulary), decoded(count * vocabulary);
  for (int64_t i = 0; i < count; ++i) {
    const auto seen = absl::MakeSpan(tokens).subspan(0, i + 1);
    TRIBUTARY_RETURN_IF_ERROR(decoder->NextTokenLogits(
        seen, absl::MakeSpan(decoded).subspan(i * vocabulary, vocabulary)));
    if ((i + 1) % kForwardEvery != 0) continue;
    TRIBUTARY_RETURN_IF_ERROR(model->NextTokenLogits(
        seen, weights.get(),
        absl::MakeSpan(forward).subspan(i / kForwardEvery * vocabulary,
                                        vocabulary)));
  }
  return WriteSafetensors(output,
                          {{"decoded", {count, vocabulary}, decoded.data()},
                           {"forward", {passes, vocabulary}, forward.data()}},
                          {});
}

}  // namespace
}  // namespace tributary

int main(int count, char** arguments) {
  if (count < 4) {
    std::fprintf(stderr, "gpt2_logits FOLDER TOKEN... OUTPUT.safetensors\n");
    return 2;
  }
  std::vector<int32_t> tokens;
  for (int i = 2; i + 1 < count; ++i) {
    tokens.push_back(static_cast<int32_t>(std::atoi(arguments[i])));
  }
  const absl::Status status =
      tributary::Run(arguments[1], tokens, arguments[count - 1]);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return 1;
}
