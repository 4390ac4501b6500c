// The parameters of a program's model.
#ifndef TRIBUTARY_LIBRARY_PARAMETER_DECLARATIONS_H_
#define TRIBUTARY_LIBRARY_PARAMETER_DECLARATIONS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/parameters/arena_layout.h"
#include "tributary/worker.h"

namespace tributary {

// The parameters that a program has declared, after validation, and their
// layout in an arena, a buffer for all parameters. Immutable.
class ParameterDeclarations {
 public:
  // Validates the declarations. Returns InvalidArgument, naming the parameter,
  // if ArenaLayout::Create refuses them or a learning_rate_factor is 0.
  static absl::StatusOr<ParameterDeclarations> Create(
      std::vector<ParameterDeclaration> parameters);

  // Returns the parameter table, in which `chunk_elements` is not set.
  const ParameterTable& table() const { return table_; }
  // Returns the layout of the parameters. Its chunk size is arbitrary; use only
  // the places of the parameters.
  const ArenaLayout& layout() const { return layout_; }
  // Writes the initial values of all parameters to an arena, and zeros to the
  // gaps between parameters.
  void Initialize(uint64_t seed, float* arena) const;

 private:
  ParameterDeclarations(std::vector<ParameterDeclaration> parameters,
                        ParameterTable table, ArenaLayout layout)
      : parameters_(std::move(parameters)),
        table_(std::move(table)),
        layout_(std::move(layout)) {}

  std::vector<ParameterDeclaration> parameters_;
  ParameterTable table_;
  ArenaLayout layout_;
};

}  // namespace tributary

#endif  // TRIBUTARY_LIBRARY_PARAMETER_DECLARATIONS_H_
