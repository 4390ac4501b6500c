#include "worker/models/gpt2_config.h"

#include <cstdint>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/json.h"
#include "common/base/status_macros.h"
#include "common/os/file.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

constexpr int64_t kMaxConfigBytes = 1 << 20;
constexpr int64_t kMaxSize = int64_t{1} << 20;
constexpr double kEpsilon = 1e-5;
// Bytes of a wrong member that an error shows.
constexpr size_t kMaxShownBytes = 100;

// Reads members of a config.json, and keeps the first error.
class ConfigReader {
 public:
  ConfigReader(const nlohmann::json& config, const std::string& path)
      : config_(config), path_(path) {}

  int64_t Size(const char* name, int64_t standard) {
    const nlohmann::json* const member = Find(name);
    if (member == nullptr) return standard;
    const bool valid = member->is_number_integer() &&
                       member->get<double>() >= 1 &&
                       member->get<double>() <= static_cast<double>(kMaxSize);
    if (valid) return member->get<int64_t>();
    Fail(name, absl::StrCat("expected an integer from 1 to ", kMaxSize));
    return standard;
  }
  bool Flag(const char* name, bool standard) {
    const nlohmann::json* const member = Find(name);
    if (member == nullptr) return standard;
    if (member->is_boolean()) return member->get<bool>();
    Fail(name, "expected true or false");
    return standard;
  }
  // Fails if the member is present and not one of `values`.
  void Require(const char* name, const std::vector<nlohmann::json>& values) {
    const nlohmann::json* const member = Find(name);
    if (member == nullptr) return;
    std::vector<std::string> texts;
    for (const nlohmann::json& value : values) {
      if (*member == value) return;
      texts.push_back(value.dump());
    }
    Fail(name, absl::StrCat("model.gpt supports only ",
                            absl::StrJoin(texts, " or ")));
  }
  void Fail(const char* name, const std::string& expected) {
    if (!status_.ok()) return;
    const nlohmann::json* const member = Find(name);
    status_ = absl::InvalidArgumentError(absl::StrCat(
        path_, ": ", name, " is ",
        member == nullptr ? "missing"
                          : member
                                ->dump(-1, ' ', /*ensure_ascii=*/true,
                                       nlohmann::json::error_handler_t::replace)
                                .substr(0, kMaxShownBytes),
        "; ", expected));
  }
  // Returns the member, or null if it is absent or the JSON null.
  const nlohmann::json* Find(const char* name) const {
    const auto found = config_.find(name);
    return found == config_.end() || found->is_null() ? nullptr : &*found;
  }
  const absl::Status& status() const { return status_; }

 private:
  const nlohmann::json& config_;
  const std::string& path_;
  absl::Status status_;
};

// Returns the folder of the weights that `path`, a file or folder, names.
std::string ConfigFolder(const std::string& path) {
  if (!IsFile(path)) return path;
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

}  // namespace

absl::StatusOr<GptSpec> ParseGpt2Config(absl::string_view text,
                                        const std::string& path) {
  const nlohmann::json config = ParseJson(std::string(text));
  if (!config.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path,
                     " is not a JSON object; expected the config.json of "
                     "a GPT-2 in the format of Hugging Face"));
  }
  ConfigReader reader(config, path);
  if (reader.Find("model_type") == nullptr) {
    reader.Fail("model_type", "expected \"gpt2\"");
  }
  reader.Require("model_type", {"gpt2"});
  GptSpec gpt;
  gpt.set_layers(reader.Size("n_layer", 12));
  gpt.set_heads(reader.Size("n_head", 12));
  gpt.set_width(reader.Size("n_embd", 768));
  gpt.set_context(reader.Size("n_positions", 1024));
  gpt.set_vocabulary(reader.Size("vocab_size", 50257));
  gpt.set_tied_head(reader.Flag("tie_word_embeddings", true));
  reader.Require("n_inner", {4 * gpt.width()});
  // Two names of the tanh approximation.
  reader.Require("activation_function", {"gelu_new", "gelu_pytorch_tanh"});
  reader.Require("layer_norm_epsilon", {kEpsilon});
  reader.Require("scale_attn_weights", {true});
  reader.Require("scale_attn_by_inverse_layer_idx", {false});
  reader.Require("add_cross_attention", {false});
  if (gpt.width() % gpt.heads() != 0) {
    reader.Fail("n_head",
                absl::StrCat("expected a divisor of n_embd ", gpt.width()));
  }
  TRIBUTARY_RETURN_IF_ERROR(reader.status());
  return gpt;
}

absl::StatusOr<GptSpec> ReadGpt2Config(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/config.json");
  TRIBUTARY_ASSIGN_OR_RETURN(const std::string text,
                             ReadFile(path, kMaxConfigBytes));
  return ParseGpt2Config(text, path);
}

absl::Status CheckGpt2Config(const ModelSpec& model) {
  if (!model.has_gpt() || !model.has_initial_weights()) {
    return absl::OkStatus();
  }
  const std::string folder = ConfigFolder(model.initial_weights().path());
  if (!IsFile(absl::StrCat(folder, "/config.json"))) return absl::OkStatus();
  TRIBUTARY_ASSIGN_OR_RETURN(const GptSpec stored, ReadGpt2Config(folder));
  const GptSpec& gpt = model.gpt();
  std::vector<std::string> differences;
  const auto compare = [&](const char* field, int64_t value, const char* member,
                           int64_t expected) {
    if (value == expected) return;
    differences.push_back(absl::StrCat("model.gpt.", field, " is ", value,
                                       ", but ", member, " is ", expected));
  };
  compare("layers", gpt.layers(), "n_layer", stored.layers());
  compare("heads", gpt.heads(), "n_head", stored.heads());
  compare("width", gpt.width(), "n_embd", stored.width());
  compare("context", gpt.context(), "n_positions", stored.context());
  compare("vocabulary", gpt.vocabulary(), "vocab_size", stored.vocabulary());
  if (gpt.tied_head() != stored.tied_head()) {
    differences.push_back(
        absl::StrCat("model.gpt.tied_head is ", gpt.tied_head(),
                     ", but tie_word_embeddings is ", stored.tied_head()));
  }
  if (differences.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "model.initial_weights: the model of ", folder,
      "/config.json has other sizes: ", absl::StrJoin(differences, "; "),
      ". Change these fields of the job"));
}

}  // namespace tributary
