#include "worker/sparse/row_lookups.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/sparse/add_scaled.h"
#include "worker/sparse/key_numbers.h"

namespace tributary {
namespace {

// How many keys ahead a row is loaded: long enough for a miss of the cache.
constexpr int64_t kAhead = 8;

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
  const FeatureRows::Feature& of = feature(bags.feature);
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

std::shared_ptr<const KeyedRows> RowLookups::Rows(
    const Bags& bags, std::vector<int32_t>* row_of_key) const {
  const int table = feature(bags.feature).table;
  const auto find = [&](const KeyedRows& rows) {
    row_of_key->clear();
    row_of_key->reserve(bags.keys.size());
    for (const uint64_t key : bags.keys) {
      row_of_key->push_back(rows.Find(table, key));
      if (row_of_key->back() < 0) return false;
    }
    return true;
  };
  if (options_.announced != nullptr) {
    std::shared_ptr<const KeyedRows> rows =
        options_.announced->Find(options_.step, options_.micro_batch);
    if (rows != nullptr && find(*rows)) return rows;
  }
  const RowDims& dims = options_.features->dims();
  std::vector<KeyNumbers> numbers;
  for (size_t i = 0; i < dims.size(); ++i) {
    numbers.emplace_back(static_cast<int>(i) == table ? bags.keys.size() : 0);
  }
  for (const uint64_t key : bags.keys) numbers[table].Of(key);
  auto rows = std::make_shared<const KeyedRows>(
      dims, std::move(numbers), options_.version, options_.exchange);
  find(*rows);
  return rows;
}

absl::StatusOr<int> RowLookups::LookUp(const Bags& bags, float* vectors) {
  const FeatureRows::Feature& of = feature(bags.feature);
  Lookup lookup = {bags.feature};
  lookup.rows = Rows(bags, &lookup.row_of_key);
  TRIBUTARY_ASSIGN_OR_RETURN(const float* const rows,
                             lookup.rows->Await(of.table, options_.given_up));
  const auto row = [&](int64_t key) {
    return rows + int64_t{lookup.row_of_key[key]} * of.dim;
  };
  const auto keys = static_cast<int64_t>(bags.keys.size());
  int64_t key = 0;
  for (size_t bag = 0; bag < bags.ends.size(); ++bag, vectors += of.dim) {
    const int64_t count = bags.ends[bag] - key;
    if (key + kAhead < keys) PrefetchRow(row(key + kAhead), of.dim);
    if (count == 1) {
      std::copy_n(row(key++), of.dim, vectors);
      continue;
    }
    std::fill_n(vectors, of.dim, 0.f);
    const float scale = PoolingScale(of.pooling, count);
    for (; key < bags.ends[bag]; ++key) {
      AddScaled(row(key), scale, of.dim, vectors);
    }
  }
  lookup.ends.assign(bags.ends.begin(), bags.ends.end());
  lookups_.push_back(std::move(lookup));
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

RowLookups::Keys RowLookups::KeysWithGradients() const {
  Keys keys;
  keys.row_of_key.resize(lookups_.size());
  const auto tables = static_cast<int>(options_.features->dims().size());
  for (int table = 0; table < tables; ++table) {
    std::vector<size_t> lookups;
    size_t most = 0;
    bool requested_together = true;
    for (size_t i = 0; i < lookups_.size(); ++i) {
      const Lookup& lookup = lookups_[i];
      if (lookup.gradients.empty() || feature(lookup.feature).table != table) {
        continue;
      }
      lookups.push_back(i);
      most += lookup.row_of_key.size();
      requested_together &= lookup.rows == lookups_[lookups[0]].rows;
    }
    std::vector<uint64_t>& of_table = keys.of_table.emplace_back();
    if (lookups.empty()) continue;
    if (requested_together) {
      of_table = lookups_[lookups[0]].rows->keys(table);
      for (const size_t i : lookups) {
        keys.row_of_key[i] = lookups_[i].row_of_key;
      }
      continue;
    }
    KeyNumbers numbers(most);
    for (const size_t i : lookups) {
      const std::vector<uint64_t>& requested = lookups_[i].rows->keys(table);
      for (const int32_t row : lookups_[i].row_of_key) {
        keys.row_of_key[i].push_back(numbers.Of(requested[row]));
      }
    }
    const std::vector<int32_t> place = numbers.Sort();
    for (const size_t i : lookups) {
      for (int32_t& row : keys.row_of_key[i]) row = place[row];
    }
    of_table = numbers.keys();
  }
  return keys;
}

bool RowLookups::AddNextBag(int number, const Keys& keys, Position* at,
                            RowGradientSum* sum) const {
  while (at->lookup < at->lookups.size() &&
         at->bag == lookups_[at->lookups[at->lookup]].ends.size()) {
    ++at->lookup;
    at->bag = 0;
  }
  if (at->lookup == at->lookups.size()) return false;
  const FeatureRows::Feature& of = feature(number);
  const size_t place = at->lookups[at->lookup];
  const Lookup& lookup = lookups_[place];
  const int64_t begin = at->bag == 0 ? 0 : lookup.ends[at->bag - 1];
  const int64_t end = lookup.ends[at->bag];
  const float* const from = lookup.gradients.data() + at->bag * of.dim;
  const float scale = PoolingScale(of.pooling, end - begin);
  const std::vector<int32_t>& row_of_key = keys.row_of_key[place];
  if (end + kAhead <= static_cast<int64_t>(row_of_key.size())) {
    sum->Prefetch(row_of_key[end + kAhead - 1]);
  }
  for (int64_t key = begin; key < end; ++key) {
    sum->Add(row_of_key[key], scale, from);
  }
  ++at->bag;
  return true;
}

TableGradients RowLookups::Gradients() const {
  const auto features = static_cast<int>(options_.features->features().size());
  Keys keys = KeysWithGradients();
  std::vector<RowGradientSum> sums;
  for (size_t table = 0; table < keys.of_table.size(); ++table) {
    sums.emplace_back(std::move(keys.of_table[table]),
                      options_.features->dims()[table]);
  }
  std::vector<Position> positions(features);
  for (size_t i = 0; i < lookups_.size(); ++i) {
    if (lookups_[i].gradients.empty()) continue;
    positions[lookups_[i].feature].lookups.push_back(i);
  }
  for (bool added = true; added;) {
    added = false;
    for (int f = 0; f < features; ++f) {
      added |= AddNextBag(f, keys, &positions[f], &sums[feature(f).table]);
    }
  }
  TableGradients gradients;
  for (RowGradientSum& sum : sums) gradients.push_back(sum.Take());
  return gradients;
}

}  // namespace tributary
