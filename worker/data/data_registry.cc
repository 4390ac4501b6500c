#include "worker/data/data_registry.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace tributary {

DataRegistry& DataRegistry::Add(absl::string_view name, DataFactory factory) {
  const bool added =
      factories_.emplace(std::string(name), std::move(factory)).second;
  if (!added && status_.ok()) {
    status_ = absl::InvalidArgumentError(
        absl::StrCat("DataRegistry: \"", name, "\" was added twice"));
  }
  return *this;
}

const DataFactory* DataRegistry::Find(absl::string_view name) const {
  const auto found = factories_.find(std::string(name));
  return found == factories_.end() ? nullptr : &found->second;
}

std::vector<std::string> DataRegistry::names() const {
  std::vector<std::string> names;
  for (const auto& [name, factory] : factories_) names.push_back(name);
  return names;
}

}  // namespace tributary
