#include "worker/models/initial_weights.h"

#include <fnmatch.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/base/status_macros.h"
#include "common/tensor_io/tensor_files.h"

namespace tributary {
namespace {

// Prefixes of parameters that Hugging Face's models without a head leave out.
constexpr const char* kPrefixes[] = {"transformer.", "bert."};
// More names would make the message too long to read.
constexpr size_t kMaxNames = 10;

std::string ShapeText(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

std::string List(const std::vector<std::string>& names,
                 const char* separator = ", ") {
  const size_t shown = std::min(names.size(), kMaxNames);
  std::string list =
      absl::StrJoin(names.begin(), names.begin() + shown, separator);
  if (shown < names.size()) {
    absl::StrAppend(&list, " and ", names.size() - shown, " more");
  }
  return list;
}

// Returns true for the weight of a Conv1D layer in GPT-2.
bool IsConv1d(absl::string_view name) {
  return absl::EndsWith(name, ".c_attn.weight") ||
         absl::EndsWith(name, ".c_proj.weight") ||
         absl::EndsWith(name, ".c_fc.weight");
}

// Returns true if the files store Conv1D's matrices as [inputs, outputs]. The
// matrices of c_attn show it: they have three times as many outputs as inputs.
bool StoresConv1dTransposed(const TensorFiles& files) {
  for (const auto& [name, tensor] : files.tensors()) {
    if (!absl::EndsWith(name, ".c_attn.weight")) continue;
    return tensor.shape.size() == 2 && tensor.shape[1] == 3 * tensor.shape[0];
  }
  return false;
}

// Returns the name that the scale and shift of a layer norm have in old files,
// or `name`.
std::string OldName(const std::string& name) {
  std::string old = name;
  for (const auto& [now, then] :
       {std::make_pair(".LayerNorm.weight", ".LayerNorm.gamma"),
        std::make_pair(".LayerNorm.bias", ".LayerNorm.beta")}) {
    if (absl::EndsWith(name, now)) {
      old = absl::StrCat(absl::StripSuffix(name, now), then);
    }
  }
  return old;
}

// Returns the name of the tensor of the parameter `name`, or nothing if there
// is none.
absl::optional<std::string> FindTensor(const TensorFiles& files,
                                       const std::string& name) {
  std::vector<std::string> names = {name};
  for (const char* prefix : kPrefixes) {
    if (absl::StartsWith(name, prefix)) {
      names.emplace_back(absl::StripPrefix(name, prefix));
    }
  }
  for (const std::string& now : names) {
    for (const std::string& candidate : {now, OldName(now)}) {
      if (files.tensors().count(candidate) > 0) return candidate;
    }
  }
  return absl::nullopt;
}

// Returns true for tensors of BERT that are no weights of `names`, the model's
// parameters: copies of tied weights, the heads of pretraining that the model
// does not have, and the pooler of a file without the classifier.
bool IsIgnoredOfBert(absl::string_view name,
                     const std::set<std::string>& names) {
  if (names.count("bert.embeddings.word_embeddings.weight") == 0) return false;
  const bool predicts = names.count("cls.predictions.bias") > 0;
  return absl::EndsWith(name, "embeddings.position_ids") ||
         absl::StartsWith(name, "cls.predictions.decoder.") ||
         absl::StartsWith(name, "cls.seq_relationship.") ||
         (predicts && (absl::StartsWith(name, "bert.pooler.") ||
                       absl::StartsWith(name, "pooler."))) ||
         (!predicts && absl::StartsWith(name, "cls."));
}

// Returns true for tensors that are no weights, and for a tied head.
bool IsIgnored(absl::string_view name, const std::set<std::string>& names) {
  if (IsIgnoredOfBert(name, names)) return true;
  return absl::EndsWith(name, ".attn.bias") ||
         absl::EndsWith(name, ".attn.masked_bias") ||
         absl::EndsWith(name, ".num_batches_tracked") ||
         (name == "lm_head.weight" &&
          names.count("transformer.wte.weight") > 0);
}

// A parameter and the tensor that has its values.
struct Match {
  const Parameter* parameter = nullptr;
  std::string tensor;
  bool transposed = false;
};

// Returns InvalidArgument, naming the tensors, if a tensor does not have the
// shape of its parameter.
absl::Status CheckShapes(const TensorFiles& files, const std::string& path,
                         const std::vector<Match>& matches) {
  std::vector<std::string> wrong;
  for (const Match& match : matches) {
    const TensorEntry& tensor = files.tensors().at(match.tensor);
    std::vector<int64_t> expected = match.parameter->shape;
    if (match.transposed) std::reverse(expected.begin(), expected.end());
    if (tensor.shape == expected) continue;
    wrong.push_back(absl::StrCat("tensor ", match.tensor, " has shape ",
                                 ShapeText(tensor.shape), ", expected ",
                                 ShapeText(expected), " for parameter ",
                                 match.parameter->name));
  }
  if (wrong.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("model.initial_weights: ", path, ": ", List(wrong, "; "),
                   "; change the sizes of the model in the job"));
}

// Returns InvalidArgument if a parameter is missing in the files, or a tensor
// is neither one of `used` nor ignored. `names` are the names of all
// parameters.
absl::Status CheckAllUsed(const TensorFiles& files, const std::string& path,
                          const std::set<std::string>& used,
                          const std::set<std::string>& names,
                          const std::vector<std::string>& missing) {
  if (!missing.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model.initial_weights: ", path, " has no tensor for ", List(missing),
        "; to begin with random values there, set "
        "model.initial_weights.strict to false"));
  }
  std::vector<std::string> extra;
  for (const auto& [name, tensor] : files.tensors()) {
    if (used.count(name) == 0 && !IsIgnored(name, names)) extra.push_back(name);
  }
  if (extra.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "model.initial_weights: the model has no parameter for ", List(extra),
      " of ", path,
      "; to leave these tensors out, set model.initial_weights.strict to "
      "false"));
}

// Damage is an error of the user's files: starting a worker again would not
// help.
absl::StatusOr<TensorFiles> OpenVerified(const std::string& path) {
  absl::StatusOr<TensorFiles> files = TensorFiles::Open(path);
  absl::Status status = files.status();
  if (status.ok()) status = files->Verify();
  if (absl::IsDataLoss(status)) {
    return absl::InvalidArgumentError(status.message());
  }
  TRIBUTARY_RETURN_IF_ERROR(status);
  return files;
}

// Reads the values of one parameter.
absl::Status Read(const TensorFiles& files, const Match& match,
                  float* weights) {
  const Parameter& parameter = *match.parameter;
  const std::string& name = match.tensor;
  const size_t size = static_cast<size_t>(parameter.size);
  if (!match.transposed) {
    return files.ReadFloats(name, absl::MakeSpan(weights, size));
  }
  std::vector<float> values(size);
  TRIBUTARY_RETURN_IF_ERROR(files.ReadFloats(name, absl::MakeSpan(values)));
  const int64_t rows = parameter.shape[0], columns = parameter.shape[1];
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      weights[row * columns + column] = values[column * rows + row];
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckInitialWeights(const InitialWeightsSpec& spec) {
  const absl::Status status = OpenVerified(spec.path()).status();
  if (status.ok()) return status;
  return absl::Status(
      status.code(),
      absl::StrCat("model.initial_weights.path: ", status.message()));
}

absl::Status LoadInitialWeights(const InitialWeightsSpec& spec,
                                const ArenaLayout& layout, float* weights) {
  const std::string& path = spec.path();
  const absl::StatusOr<TensorFiles> opened = OpenVerified(path);
  TRIBUTARY_RETURN_IF_ERROR(opened.status());
  const TensorFiles& files = *opened;
  const bool transposed = StoresConv1dTransposed(files);
  std::set<std::string> used, names;
  std::vector<std::string> missing;
  std::vector<Match> matches;
  for (const Parameter& parameter : layout.parameters()) {
    names.insert(parameter.name);
    const absl::optional<std::string> found = FindTensor(files, parameter.name);
    if (!found.has_value()) {
      missing.push_back(parameter.name);
      continue;
    }
    matches.push_back({&parameter, *found, transposed && IsConv1d(*found)});
    used.insert(*found);
  }
  if (used.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model.initial_weights: no tensor of ", path,
        " has the name of a parameter; the first parameter is ",
        missing.empty() ? "" : missing[0], ", the first tensor ",
        files.tensors().empty() ? "none" : files.tensors().begin()->first));
  }
  TRIBUTARY_RETURN_IF_ERROR(CheckShapes(files, path, matches));
  for (const Match& match : matches) {
    TRIBUTARY_RETURN_IF_ERROR(
        Read(files, match, weights + match.parameter->offset));
  }
  if (!spec.strict()) return absl::OkStatus();
  return CheckAllUsed(files, path, used, names, missing);
}

absl::StatusOr<std::vector<int>> MatchParameters(
    const std::string& field, const std::vector<std::string>& patterns,
    const ParameterTable& table) {
  std::set<int> matches;
  for (const std::string& pattern : patterns) {
    bool matched = false;
    for (int i = 0; i < table.parameter_size(); ++i) {
      if (fnmatch(pattern.c_str(), table.parameter(i).name().c_str(), 0) != 0) {
        continue;
      }
      matches.insert(i);
      matched = true;
    }
    if (matched) continue;
    std::vector<std::string> names;
    for (const auto& parameter : table.parameter()) {
      names.push_back(parameter.name());
    }
    return absl::InvalidArgumentError(
        absl::StrCat(field, ": '", pattern, "' matches no parameter; they are ",
                     List(names)));
  }
  return std::vector<int>(matches.begin(), matches.end());
}

}  // namespace tributary
