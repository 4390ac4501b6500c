#include "library/index_view.h"

#include <numeric>

namespace tributary {
namespace {

void Fill(const DataInfo& info, Batch* batch) {
  batch->samples = static_cast<int64_t>(batch->indexes.size());
  const int64_t counted =
      info.kind == DataInfo::Kind::kTokens || info.token_labels
          ? info.sample_shape[0]
          : 1;
  batch->labels.assign(batch->samples * counted, 0);
}

}  // namespace

void IndexView::ReadTrain(int64_t epoch, absl::Span<const int64_t> indexes,
                          Batch* batch) const {
  *batch = Batch();
  batch->epoch = epoch;
  batch->indexes.assign(indexes.begin(), indexes.end());
  Fill(info(), batch);
}

void IndexView::ReadEvaluation(int64_t begin, int64_t end, Batch* batch) const {
  *batch = Batch();
  batch->indexes.resize(end - begin);
  std::iota(batch->indexes.begin(), batch->indexes.end(), begin);
  Fill(info(), batch);
}

}  // namespace tributary
