#include "tests/worker/models/golden_file.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

namespace tributary {
namespace {

[[noreturn]] void Stop(const std::string& what) {
  std::fprintf(stderr, "golden file: %s\n", what.c_str());
  std::abort();
}

template <typename T>
std::vector<double> Convert(const char* data, size_t bytes) {
  std::vector<double> values(bytes / sizeof(T));
  for (size_t i = 0; i < values.size(); ++i) {
    T value;
    std::memcpy(&value, data + i * sizeof(T), sizeof(T));
    values[i] = static_cast<double>(value);
  }
  return values;
}

std::vector<double> GoldenValues(const std::string& type, const char* data,
                                 size_t bytes) {
  if (type == "F32") return Convert<float>(data, bytes);
  if (type == "F64") return Convert<double>(data, bytes);
  if (type == "I32") return Convert<int32_t>(data, bytes);
  Stop("unknown type " + type);
}

}  // namespace

const std::string& GoldenFile::Text(const std::string& key) const {
  const auto found = metadata.find(key);
  if (found == metadata.end()) Stop("no metadata " + key);
  return found->second;
}

const std::vector<double>& GoldenFile::Tensor(const std::string& name) const {
  const auto found = tensors.find(name);
  if (found == tensors.end()) Stop("no tensor " + name);
  return found->second;
}

GoldenFile ReadGoldenFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)),
                          std::istreambuf_iterator<char>());
  uint64_t header_size = 0;
  if (bytes.size() < sizeof(header_size)) Stop("cannot read " + path);
  std::memcpy(&header_size, bytes.data(), sizeof(header_size));
  if (header_size > bytes.size() - sizeof(header_size)) Stop(path + " is cut");
  const char* data = bytes.data() + sizeof(header_size) + header_size;
  const size_t data_size = bytes.data() + bytes.size() - data;
  const auto header = nlohmann::json::parse(bytes.data() + sizeof(header_size),
                                            data, nullptr, false);
  if (header.is_discarded()) Stop(path + " has no header");
  GoldenFile golden;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") {
      golden.metadata = entry.get<std::map<std::string, std::string>>();
      continue;
    }
    const size_t begin = entry["data_offsets"][0].get<size_t>();
    const size_t end = entry["data_offsets"][1].get<size_t>();
    if (begin > end || end > data_size) Stop(path + " is cut");
    golden.tensors[name] = GoldenValues(entry["dtype"].get<std::string>(),
                                        data + begin, end - begin);
  }
  return golden;
}

}  // namespace tributary
