#include "common/update/chunk_pass.h"

#include "common/base/status_macros.h"

namespace tributary {
namespace {

class OneByOne final : public ChunkPassGroup {
 public:
  int most() const override { return 1; }
  int streams() const override { return 1; }
  absl::StatusOr<std::vector<double>> SumOfSquares(
      absl::Span<const SumItem> items) override {
    std::vector<double> squares;
    for (const SumItem& item : items) {
      TRIBUTARY_ASSIGN_OR_RETURN(squares.emplace_back(),
                                 item.pass->SumOfSquares(*item.sum));
    }
    return squares;
  }
  absl::StatusOr<std::vector<double>> Run(
      absl::Span<const RunItem> items) override {
    std::vector<double> squares;
    for (const RunItem& item : items) {
      TRIBUTARY_ASSIGN_OR_RETURN(squares.emplace_back(),
                                 item.pass->Run(*item.arguments));
    }
    return squares;
  }
};

}  // namespace

std::unique_ptr<ChunkPassGroup> RunPassesOneByOne() {
  return std::make_unique<OneByOne>();
}

}  // namespace tributary
