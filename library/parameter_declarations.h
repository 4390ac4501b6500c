// The parameters that a program has declared.
#ifndef TRIBUTARY_LIBRARY_PARAMETER_DECLARATIONS_H_
#define TRIBUTARY_LIBRARY_PARAMETER_DECLARATIONS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/parameters/parameter_table.h"
#include "tributary/worker.h"

namespace tributary {

// The parameters that a program has declared, after validation, and their
// layout in an arena. Immutable.
class ParameterDeclarations {
 public:
  // Returns InvalidArgument, naming the parameter, for declarations that
  // ArenaLayout::Create refuses.
  static absl::StatusOr<ParameterDeclarations> Create(
      std::vector<ParameterDeclaration> parameters);

  // Returns the parameter table, in which `chunk_elements` is not set.
  const ParameterTable& table() const { return table_; }
  // Returns the layout of the parameters. Its chunks have an arbitrary size.
  const ArenaLayout& layout() const { return layout_; }
  // Writes the initial values of all parameters to an arena; gaps become zero.
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
