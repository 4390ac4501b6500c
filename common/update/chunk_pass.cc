#include "common/update/chunk_pass.h"

#include "common/base/status_macros.h"

namespace tributary {

absl::StatusOr<std::vector<double>> ChunkPassGroup::SumOfSquares(
    absl::Span<const SumItem> items) {
  std::vector<double> squares;
  for (const SumItem& item : items) {
    TRIBUTARY_ASSIGN_OR_RETURN(squares.emplace_back(),
                               item.pass->SumOfSquares(*item.sum));
  }
  return squares;
}

absl::StatusOr<std::vector<double>> ChunkPassGroup::Run(
    absl::Span<const RunItem> items) {
  std::vector<double> squares;
  for (const RunItem& item : items) {
    TRIBUTARY_ASSIGN_OR_RETURN(squares.emplace_back(),
                               item.pass->Run(*item.arguments));
  }
  return squares;
}

}  // namespace tributary
