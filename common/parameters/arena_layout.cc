#include "common/parameters/arena_layout.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/base/casts.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/sha256.h"
#include "common/base/status_macros.h"

namespace tributary {
namespace {

constexpr size_t kMaxNameBytes = kDefaultLimits.name_bytes;
constexpr int kMaxDimensions = kDefaultLimits.dimensions;

int64_t RoundUpToAlignment(int64_t elements) {
  return (elements + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

bool IsGoodName(absl::string_view name) {
  return !name.empty() && name.size() <= kMaxNameBytes &&
         std::all_of(name.begin(), name.end(), absl::ascii_isgraph);
}

// Names come from peers, so error messages escape and truncate them.
std::string Printable(absl::string_view name) {
  return absl::StrCat("\"", absl::CHexEscape(name.substr(0, 64)),
                      name.size() > 64 ? "...\"" : "\"");
}

// Converts and checks one parameter; the caller sets `offset`. No size exceeds
// `max_elements`, so sums of two sizes cannot overflow.
absl::StatusOr<Parameter> Convert(const ParameterTable::Parameter& from,
                                  int64_t max_elements) {
  const auto error = [&](const auto&... what) {
    return absl::InvalidArgumentError(
        absl::StrCat("parameter ", Printable(from.name()), ": ", what...));
  };
  if (!IsGoodName(from.name())) {
    return error("the name must be 1 to ", kMaxNameBytes,
                 " printable ASCII characters without spaces");
  }
  if (from.group() != DECAY && from.group() != NO_DECAY &&
      from.group() != STATISTICS) {
    return error("unknown optimizer group ", static_cast<int>(from.group()));
  }
  for (const std::string& alias : from.alias()) {
    if (!IsGoodName(alias)) {
      return error("the alias ", Printable(alias), " must be 1 to ",
                   kMaxNameBytes, " printable ASCII characters without spaces");
    }
  }
  if (from.shape_size() > kMaxDimensions) {
    return error("has ", from.shape_size(), " dimensions, at most ",
                 kMaxDimensions, " are allowed");
  }
  Parameter to;
  to.name = from.name();
  to.aliases.assign(from.alias().begin(), from.alias().end());
  to.group = from.group();
  to.size = 1;
  for (const int64_t dimension : from.shape()) {
    if (dimension < 1) return error("dimension ", dimension, " is below 1");
    if (to.size > max_elements / dimension) {
      return error("shape [", absl::StrJoin(from.shape(), ", "),
                   "] has more than ", max_elements, " elements");
    }
    to.size *= dimension;
    to.shape.push_back(dimension);
  }
  if (from.padding() < 0 || from.padding() > max_elements) {
    return error("padding ", from.padding(), " is not from 0 to ",
                 max_elements);
  }
  to.padding = from.padding();
  const float factor = from.learning_rate_factor();
  // Also refuses NaN.
  if (!(factor >= 0 && factor <= kMaxLearningRateFactor)) {
    return error("learning_rate_factor ", factor,
                 " is not above 0 and at most ", kMaxLearningRateFactor);
  }
  if (factor != 0) to.learning_rate_factor = factor;
  if (to.group == STATISTICS && to.learning_rate_factor != 1) {
    return error("learning_rate_factor ", factor,
                 " has no effect on group STATISTICS; leave it out");
  }
  return to;
}

std::string Signature(const ParameterTable& table) {
  Sha256 digest;
  digest.Update(
      absl::StrCat("tributary-table-1\n", table.chunk_elements(), "\n"));
  for (const ParameterTable::Parameter& parameter : table.parameter()) {
    digest.Update(absl::StrCat(parameter.name(), " ",
                               absl::StrJoin(parameter.shape(), "x"), " ",
                               OptimizerGroup_Name(parameter.group())));
    if (parameter.padding() != 0) {
      digest.Update(absl::StrCat(" +", parameter.padding()));
    }
    const float factor = parameter.learning_rate_factor();
    if (factor != 0 && factor != 1) {
      digest.Update(absl::StrCat(
          " *", absl::Hex(absl::bit_cast<uint32_t>(factor), absl::kZeroPad8)));
    }
    for (const std::string& alias : parameter.alias()) {
      digest.Update(absl::StrCat(" =", alias));
    }
    digest.Update("\n");
  }
  return digest.FinishHex();
}

}  // namespace

absl::StatusOr<ArenaLayout> ArenaLayout::Create(const ParameterTable& table,
                                                int64_t max_elements) {
  if (table.parameter_size() == 0) {
    return absl::InvalidArgumentError("the model has no parameters");
  }
  int64_t name_count = table.parameter_size();
  for (const ParameterTable::Parameter& parameter : table.parameter()) {
    name_count += parameter.alias_size();
  }
  if (name_count > kDefaultLimits.parameters) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the model has ", name_count, " parameters (with aliases), at most ",
        kDefaultLimits.parameters, " are allowed"));
  }
  if (table.chunk_elements() < 1 ||
      table.chunk_elements() % kArenaAlignment != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("chunk_elements: ", table.chunk_elements(),
                     " is not a positive multiple of ", kArenaAlignment));
  }
  ArenaLayout layout;
  layout.chunk_elements_ = table.chunk_elements();
  layout.parameters_.reserve(table.parameter_size());
  absl::flat_hash_set<absl::string_view> names;
  for (const ParameterTable::Parameter& from : table.parameter()) {
    TRIBUTARY_ASSIGN_OR_RETURN(Parameter to, Convert(from, max_elements));
    if (!names.insert(from.name()).second) {
      return absl::InvalidArgumentError(absl::StrCat(
          "parameter ", Printable(from.name()), ": the name is used twice"));
    }
    for (const std::string& alias : from.alias()) {
      if (names.insert(alias).second) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("parameter ", Printable(from.name()), ": the alias ",
                       Printable(alias), " is used twice"));
    }
    to.offset = layout.arena_elements_;
    const int64_t elements = RoundUpToAlignment(to.size + to.padding);
    if (elements > max_elements - to.offset) {
      return absl::InvalidArgumentError(absl::StrCat(
          "parameter ", Printable(from.name()),
          ": the model up to here has more than ", max_elements, " elements"));
    }
    layout.arena_elements_ += elements;
    layout.parameter_count_ += to.size;
    layout.parameters_.push_back(std::move(to));
  }
  const int64_t chunks =
      (layout.arena_elements_ - 1) / layout.chunk_elements_ + 1;
  if (chunks > std::numeric_limits<int>::max()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "chunk_elements: ", layout.chunk_elements_, " is too small for ",
        layout.arena_elements_, " elements"));
  }
  layout.chunk_count_ = static_cast<int>(chunks);
  layout.signature_ = Signature(table);
  return layout;
}

int64_t ArenaLayout::ChunkSize(int chunk) const {
  return std::min(chunk_elements_, arena_elements_ - ChunkBegin(chunk));
}

int64_t ArenaLayout::ElementsOf(const std::vector<int>& chunks) const {
  int64_t elements = 0;
  for (const int chunk : chunks) elements += ChunkSize(chunk);
  return elements;
}

const Parameter& ArenaLayout::ParameterAt(int64_t element) const {
  const auto after = std::upper_bound(
      parameters_.begin(), parameters_.end(), element,
      [](int64_t at, const Parameter& p) { return at < p.offset; });
  return *(after - 1);
}

std::vector<ChunkSegment> ArenaLayout::ChunkSegments(int chunk,
                                                     bool by_parameter) const {
  const int64_t begin = ChunkBegin(chunk);
  const int64_t end = begin + ChunkSize(chunk);
  // The first parameter that extends into the chunk.
  auto parameter = std::partition_point(
      parameters_.begin(), parameters_.end(),
      [&](const Parameter& p) { return p.offset + p.size <= begin; });
  std::vector<ChunkSegment> segments;
  for (; parameter != parameters_.end() && parameter->offset < end;
       ++parameter) {
    ChunkSegment next;
    next.begin = std::max(parameter->offset, begin) - begin;
    next.end = std::min(parameter->offset + parameter->size, end) - begin;
    next.group = parameter->group;
    next.learning_rate_factor = parameter->learning_rate_factor;
    if (!by_parameter && !segments.empty() &&
        segments.back().end == next.begin &&
        segments.back().group == next.group &&
        segments.back().learning_rate_factor == next.learning_rate_factor) {
      segments.back().end = next.end;
    } else {
      segments.push_back(next);
    }
  }
  return segments;
}

void ArenaLayout::ClearLearningRateFactors() {
  for (Parameter& parameter : parameters_) parameter.learning_rate_factor = 1;
}

std::vector<int> ArenaLayout::ChunksOf(int shard, int servers) const {
  std::vector<int> chunks;
  for (int chunk = 0; chunk < chunk_count_; ++chunk) {
    if (ShardOf(chunk, servers) == shard) chunks.push_back(chunk);
  }
  return chunks;
}

}  // namespace tributary
