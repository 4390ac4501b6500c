#include "worker/models/model_registry.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace tributary {

ModelRegistry& ModelRegistry::Add(absl::string_view name,
                                  ModelFactory factory) {
  const bool added =
      factories_.emplace(std::string(name), std::move(factory)).second;
  if (!added && status_.ok()) {
    status_ = absl::InvalidArgumentError(
        absl::StrCat("ModelRegistry: \"", name, "\" was added twice"));
  }
  return *this;
}

const ModelFactory* ModelRegistry::Find(absl::string_view name) const {
  const auto found = factories_.find(std::string(name));
  return found == factories_.end() ? nullptr : &found->second;
}

std::vector<std::string> ModelRegistry::names() const {
  std::vector<std::string> names;
  for (const auto& [name, factory] : factories_) names.push_back(name);
  return names;
}

}  // namespace tributary
