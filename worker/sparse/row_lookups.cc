#include "worker/sparse/row_lookups.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/buffer_pool.h"
#include "common/base/status_macros.h"
#include "worker/sparse/add_scaled.h"

namespace tributary {
namespace {

// Returns the factor of the rows of a bag of `count` keys.
float PoolingScale(SparseFeatureSpec::Pooling pooling, int64_t count) {
  return pooling == SparseFeatureSpec::MEAN ? 1 / static_cast<float>(count) : 1;
}

}  // namespace

RowLookups::RowLookups(Options options) : options_(std::move(options)) {}

absl::StatusOr<int64_t> RowLookups::Elements(const Bags& bags) const {
  const auto& features = options_.features->features();
  if (bags.feature < 0 || bags.feature >= static_cast<int>(features.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("there is no feature ", bags.feature, "; the job has ",
                     features.size(), " in sparse.feature"));
  }
  const FeatureRows::Feature& of = feature(bags);
  int64_t before = 0;
  for (const int64_t end : bags.ends) {
    if (end < before) {
      return absl::InvalidArgumentError(
          absl::StrCat("feature '", of.name, "': a bag ends at key ", end,
                       ", before key ", before, ", where it begins"));
    }
    if (of.pooling == SparseFeatureSpec::NONE && end - before != 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "feature '", of.name, "': a bag has ", end - before,
          " keys, but pooling is NONE, which needs one; set SUM or MEAN"));
    }
    before = end;
  }
  if (before != static_cast<int64_t>(bags.keys.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("feature '", of.name, "': the last bag ends at key ",
                     before, ", but there are ", bags.keys.size(), " keys"));
  }
  return static_cast<int64_t>(bags.ends.size()) * of.dim;
}

std::shared_ptr<const KeyedRows> RowLookups::Rows(const Bags& bags) const {
  const int table = feature(bags).table;
  if (options_.announced != nullptr) {
    std::shared_ptr<const KeyedRows> rows =
        options_.announced->Find(options_.step, options_.micro_batch);
    if (rows != nullptr &&
        std::all_of(bags.keys.begin(), bags.keys.end(),
                    [&](uint64_t key) { return rows->Has(table, key); })) {
      return rows;
    }
  }
  const RowDims& dims = options_.features->dims();
  std::vector<KeyNumbers> numbers;
  for (size_t i = 0; i < dims.size(); ++i) {
    numbers.emplace_back(static_cast<int>(i) == table ? bags.keys.size() : 0);
  }
  for (const uint64_t key : bags.keys) numbers[table].Of(key);
  return std::make_shared<const KeyedRows>(dims, std::move(numbers),
                                           options_.version, options_.exchange);
}

absl::StatusOr<int> RowLookups::LookUp(const Bags& bags, float* vectors) {
  const FeatureRows::Feature& of = feature(bags);
  const std::shared_ptr<const KeyedRows> requested = Rows(bags);
  TRIBUTARY_ASSIGN_OR_RETURN(const float* const rows,
                             requested->Await(of.table, options_.given_up));
  int64_t key = 0;
  for (size_t bag = 0; bag < bags.ends.size(); ++bag, vectors += of.dim) {
    const int64_t count = bags.ends[bag] - key;
    if (count == 1) {
      std::copy_n(requested->Find(of.table, bags.keys[key++], rows), of.dim,
                  vectors);
      continue;
    }
    std::fill_n(vectors, of.dim, 0.f);
    const float scale = PoolingScale(of.pooling, count);
    for (; key < bags.ends[bag]; ++key) {
      AddScaled(requested->Find(of.table, bags.keys[key], rows), scale, of.dim,
                vectors);
    }
  }
  lookups_.push_back({bags.feature,
                      {bags.keys.begin(), bags.keys.end()},
                      {bags.ends.begin(), bags.ends.end()},
                      {}});
  return static_cast<int>(lookups_.size()) - 1;
}

absl::Status RowLookups::AddGradients(int lookup,
                                      absl::Span<const float> gradients) {
  if (lookup < 0 || lookup >= static_cast<int>(lookups_.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("there is no look-up ", lookup, "; the micro-batch has ",
                     lookups_.size(), " look-ups"));
  }
  Lookup& of = lookups_[lookup];
  const FeatureRows::Feature& feature =
      options_.features->features()[of.feature];
  const size_t elements = of.ends.size() * feature.dim;
  if (gradients.size() != elements) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the gradient of the vectors of feature '", feature.name, "' has ",
        gradients.size(), " elements, expected ", elements));
  }
  if (of.gradients.empty()) {
    of.gradients.assign(gradients.begin(), gradients.end());
  } else {
    for (size_t i = 0; i < elements; ++i) of.gradients[i] += gradients[i];
  }
  return absl::OkStatus();
}

absl::Status RowLookups::AwaitVersion() const {
  if (!lookups_.empty()) return absl::OkStatus();
  const RowDims& dims = options_.features->dims();
  const KeyedRows none(
      dims, std::vector<KeyNumbers>(dims.size(), KeyNumbers(/*most=*/0)),
      options_.version, options_.exchange);
  return none.Await(/*table=*/0, options_.given_up).status();
}

RowLookups::Sums RowLookups::Zeros(std::vector<KeyNumbers>* numbers) const {
  const auto& features = options_.features->features();
  const RowDims& dims = options_.features->dims();
  std::vector<size_t> most(dims.size());
  for (const Lookup& lookup : lookups_) {
    if (lookup.gradients.empty()) continue;
    most[features[lookup.feature].table] += lookup.keys.size();
  }
  *numbers = std::vector<KeyNumbers>(most.begin(), most.end());
  for (const Lookup& lookup : lookups_) {
    if (lookup.gradients.empty()) continue;
    KeyNumbers& of_table = (*numbers)[features[lookup.feature].table];
    for (const uint64_t key : lookup.keys) of_table.Of(key);
  }
  Sums zeros;
  for (size_t table = 0; table < dims.size(); ++table) {
    (*numbers)[table].Sort();
    auto gradients = std::make_shared<RowGradients>();
    gradients->keys = (*numbers)[table].keys();
    const int64_t elements = gradients->rows() * dims[table];
    gradients->values = AllocateBuffer(elements);
    std::fill_n(gradients->values.get(), elements, 0.f);
    zeros.push_back(std::move(gradients));
  }
  return zeros;
}

bool RowLookups::AddNextBag(const FeatureRows::Feature& feature,
                            const KeyNumbers& numbers, Position* at,
                            RowGradients* sum) const {
  while (at->lookup < at->lookups.size() &&
         at->bag == at->lookups[at->lookup]->ends.size()) {
    ++at->lookup;
    at->bag = 0;
  }
  if (at->lookup == at->lookups.size()) return false;
  const Lookup& lookup = *at->lookups[at->lookup];
  const int64_t begin = at->bag == 0 ? 0 : lookup.ends[at->bag - 1];
  const int64_t end = lookup.ends[at->bag];
  const float* const from = lookup.gradients.data() + at->bag * feature.dim;
  const float scale = PoolingScale(feature.pooling, end - begin);
  for (int64_t key = begin; key < end; ++key) {
    const int64_t row = numbers.Find(lookup.keys[key]);
    AddScaled(from, scale, feature.dim, sum->values.get() + row * feature.dim);
  }
  ++at->bag;
  return true;
}

TableGradients RowLookups::Gradients() const {
  const auto& features = options_.features->features();
  std::vector<KeyNumbers> numbers;
  const Sums sums = Zeros(&numbers);
  std::vector<Position> positions(features.size());
  for (const Lookup& lookup : lookups_) {
    if (lookup.gradients.empty()) continue;
    positions[lookup.feature].lookups.push_back(&lookup);
  }
  for (bool added = true; added;) {
    added = false;
    for (size_t f = 0; f < features.size(); ++f) {
      const int table = features[f].table;
      added |= AddNextBag(features[f], numbers[table], &positions[f],
                          sums[table].get());
    }
  }
  return {sums.begin(), sums.end()};
}

}  // namespace tributary
