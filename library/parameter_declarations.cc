#include "library/parameter_declarations.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/base/status_macros.h"
#include "common/numerics/philox.h"

namespace tributary {
namespace {

// The job decides how the arena is divided; offsets do not depend on it.
constexpr int64_t kAnyChunkElements = 1 << 18;

}  // namespace

absl::StatusOr<ParameterDeclarations> ParameterDeclarations::Create(
    std::vector<ParameterDeclaration> parameters) {
  ParameterTable table;
  for (const ParameterDeclaration& declared : parameters) {
    ParameterTable::Parameter* parameter = table.add_parameter();
    parameter->set_name(declared.name);
    parameter->mutable_shape()->Add(declared.shape.begin(),
                                    declared.shape.end());
    parameter->set_group(static_cast<OptimizerGroup>(declared.group));
    parameter->mutable_alias()->Add(declared.aliases.begin(),
                                    declared.aliases.end());
    if (declared.learning_rate_factor == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("parameter ", declared.name,
                       ": learning_rate_factor is 0, expected a number above "
                       "0; leave out parameters that are not trained"));
    }
    // Tables that differ in nothing are equal.
    if (declared.learning_rate_factor != 1) {
      parameter->set_learning_rate_factor(declared.learning_rate_factor);
    }
  }
  ParameterTable with_chunks = table;
  with_chunks.set_chunk_elements(kAnyChunkElements);
  TRIBUTARY_ASSIGN_OR_RETURN(ArenaLayout layout,
                             ArenaLayout::Create(with_chunks));
  return ParameterDeclarations(std::move(parameters), std::move(table),
                               std::move(layout));
}

void ParameterDeclarations::Initialize(uint64_t seed, float* arena) const {
  std::fill_n(arena, layout_.arena_elements(), 0.0f);
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (!parameters_[i].initialize) continue;
    const Parameter& place = layout_.parameters()[i];
    Random random(seed, static_cast<uint32_t>(RandomPurpose::kInitialization),
                  /*a=*/0, /*b=*/static_cast<uint32_t>(i));
    parameters_[i].initialize(&random,
                              absl::MakeSpan(arena + place.offset, place.size));
  }
}

}  // namespace tributary
