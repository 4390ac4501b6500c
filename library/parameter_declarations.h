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

// Checked declarations and the layout that follows from them. Immutable.
class ParameterDeclarations {
 public:
  // Returns InvalidArgument, naming the parameter, for declarations that
  // ArenaLayout::Create refuses.
  static absl::StatusOr<ParameterDeclarations> Create(
      std::vector<ParameterDeclaration> parameters);

  // The table, without chunk_elements.
  const ParameterTable& table() const { return table_; }
  // The layout, whose chunks have any size.
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
