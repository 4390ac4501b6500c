// The gradient of a contribution to tables.
#ifndef TRIBUTARY_COMMON_UPDATE_TABLES_ROW_SOURCE_H_
#define TRIBUTARY_COMMON_UPDATE_TABLES_ROW_SOURCE_H_

#include <algorithm>
#include <cstdint>
#include <utility>

#include "common/sparse/row_gradients.h"
#include "common/update/aggregation/gradient_source.h"

namespace tributary {

// Gradients of the rows of all tables, as the `gradient` of a NodeSum, so that
// the consistency modes treat rows and chunks alike. Has no elements: the rows
// of two sources may differ.
class RowSource final : public GradientSource {
 public:
  explicit RowSource(TableGradients tables) : tables_(std::move(tables)) {}

  const TableGradients& tables() const { return tables_; }

  const float* Read(int64_t /*begin*/, int64_t count,
                    float* scratch) const override {
    std::fill_n(scratch, count, 0.f);
    return scratch;
  }

 private:
  const TableGradients tables_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_UPDATE_TABLES_ROW_SOURCE_H_
