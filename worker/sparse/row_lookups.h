// The rows that a program looks up for one micro-batch.
#ifndef TRIBUTARY_WORKER_SPARSE_ROW_LOOKUPS_H_
#define TRIBUTARY_WORKER_SPARSE_ROW_LOOKUPS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/sparse/row_gradients.h"
#include "worker/exchange/row_exchange.h"
#include "worker/sparse/announced_rows.h"
#include "worker/sparse/feature_rows.h"
#include "worker/sparse/keyed_rows.h"
#include "worker/sparse/row_gradient_sum.h"

namespace tributary {

// Reads the rows of keys that the model of a program finds out itself, and
// turns the gradients of what they were pooled to into those of rows. For one
// micro-batch, or for samples to evaluate. Not thread-safe.
class RowLookups {
 public:
  struct Options {
    // Must outlive the look-ups, like `exchange` and `announced`.
    const FeatureRows* features = nullptr;
    RowExchange* exchange = nullptr;
    // The version of the rows.
    int64_t version = 0;
    // Where rows may have been announced. Null for samples to evaluate.
    const AnnouncedRows* announced = nullptr;
    int64_t step = 0;
    int micro_batch = 0;
    // Returns true if the micro-batch is not needed any more.
    std::function<bool()> given_up;
  };
  // The keys of a feature, which belong to bags: those of bag b are [ends[b -
  // 1], ends[b]) of `keys`, where ends[-1] stands for 0.
  struct Bags {
    int feature = 0;
    absl::Span<const uint64_t> keys;
    absl::Span<const int64_t> ends;
  };

  explicit RowLookups(Options options);

  // Returns the number of elements of the vectors of all bags. Returns
  // InvalidArgument, naming the feature, if the bags do not have the form that
  // Bags describes, or if the feature has pooling NONE and a bag does not have
  // one key.
  absl::StatusOr<int64_t> Elements(const Bags& bags) const;
  // Writes the vector of each bag, [bags, dim], to `vectors`: the rows of its
  // keys, pooled in the order of the keys. Blocks until the rows have arrived.
  // Returns the number of the look-up, from 0, or the errors of
  // RequestedRows::Await. `bags` must be valid; see Elements.
  absl::StatusOr<int> LookUp(const Bags& bags, float* vectors);
  // Adds to the gradient of the vectors of a look-up; it is zero initially.
  // Returns InvalidArgument if there is no such look-up, or if the number of
  // elements differs.
  absl::Status AddGradients(int lookup, absl::Span<const float> gradients);
  // Blocks until all servers have the version of the rows, before which they
  // refuse gradients. Returns at once after a look-up. Returns the errors of
  // RequestedRows::Await.
  absl::Status AwaitVersion() const;
  // Returns the gradients of the rows of those look-ups to whose gradient
  // something was added. Let the bags of a feature be those of all of its
  // look-ups, one look-up after another: the gradients of a row are added in
  // the order of the bags, for equal numbers of bags in the order of the
  // features, and within a bag in the order of the keys. If bag number i
  // belongs to sample i, this is the order of FeatureRows::GradientsOf.
  TableGradients Gradients() const;

 private:
  struct Lookup {
    int feature = 0;
    std::shared_ptr<const KeyedRows> rows;
    std::vector<int32_t> row_of_key;  // Places among the keys of `rows`.
    std::vector<int64_t> ends;
    std::vector<float> gradients;  // Empty: none was added.
  };
  // The look-ups of a feature that have gradients, and their next bag.
  struct Position {
    std::vector<size_t> lookups;
    size_t lookup = 0;
    size_t bag = 0;
  };
  // The keys of the look-ups that have gradients.
  struct Keys {
    std::vector<std::vector<uint64_t>> of_table;  // Ascending.
    // For each look-up, the places of its keys among those of its table.
    std::vector<std::vector<int32_t>> row_of_key;
  };

  const FeatureRows::Feature& feature(int number) const {
    return options_.features->features()[number];
  }
  // Returns the rows of the keys, which were announced or are requested, and
  // sets the place of each key among theirs.
  std::shared_ptr<const KeyedRows> Rows(const Bags& bags,
                                        std::vector<int32_t>* row_of_key) const;
  Keys KeysWithGradients() const;
  // Adds the gradients of the feature's next bag. Returns false if there is
  // none.
  bool AddNextBag(int feature, const Keys& keys, Position* at,
                  RowGradientSum* sum) const;

  const Options options_;
  std::vector<Lookup> lookups_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_SPARSE_ROW_LOOKUPS_H_
