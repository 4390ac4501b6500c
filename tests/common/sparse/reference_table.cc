#include "tests/common/sparse/reference_table.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/numerics/flush_denormals.h"
#include "common/sparse/initial_rows.h"
#include "common/sparse/key_hash.h"

namespace tributary {
namespace {

// Removes the keys whose last step is not after step `before`.
template <typename Map>
void RemoveUnused(int64_t before, Map* map) {
  for (auto next = map->begin(); next != map->end();) {
    next =
        next->second.last_step <= before ? map->erase(next) : std::next(next);
  }
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() ||
          std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

std::string DifferenceOfBucket(const BucketRows& is, const BucketRows& should) {
  if (is.bucket != should.bucket) {
    return absl::StrCat("is bucket ", is.bucket);
  }
  if (is.keys != should.keys) {
    return absl::StrCat("has ", is.keys.size(), " keys, should have ",
                        should.keys.size(), ", or other keys");
  }
  if (is.last_steps != should.last_steps) return "has other last steps";
  if (!SameBits(is.values, should.values)) return "has other values";
  if (is.candidates.size() != should.candidates.size()) {
    return absl::StrCat("has ", is.candidates.size(),
                        " keys that wait for admission, should have ",
                        should.candidates.size());
  }
  for (size_t i = 0; i < is.candidates.size(); ++i) {
    const BucketRows::Candidate& a = is.candidates[i];
    const BucketRows::Candidate& b = should.candidates[i];
    if (a.key != b.key || a.steps != b.steps || a.last_step != b.last_step) {
      return absl::StrCat("counts key ", a.key, " ", a.steps,
                          " times until step ", a.last_step,
                          ", should count key ", b.key, " ", b.steps,
                          " times until step ", b.last_step);
    }
  }
  return "";
}

}  // namespace

ReferenceTable::ReferenceTable(const SparseTableSpec& spec, uint64_t seed)
    : spec_(spec),
      rule_(RowRule::Create(spec).value()),
      seed_(seed),
      buckets_(spec.buckets()) {}

int ReferenceTable::BucketOf(uint64_t key) const {
  return BucketOfHash(KeyHash(key), spec_.buckets());
}

std::vector<float> ReferenceTable::InitialValues(uint64_t key) const {
  std::vector<float> values(spec_.dim());
  InitialRows(spec_, seed_).Write(key, values.data());
  return values;
}

void ReferenceTable::Apply(const Gradients& sum, float gradient_scale,
                           double rate_factor) {
  const FlushDenormals flush;
  const RowStep rule = rule_.At(step_, gradient_scale, rate_factor);
  std::vector<float> before(spec_.dim());
  for (const auto& [key, gradient] : sum) {
    Bucket& bucket = buckets_[BucketOf(key)];
    if (bucket.rows.count(key) == 0) {
      Seen& seen = bucket.seen[key];
      seen.last_step = step_;
      if (++seen.steps < spec_.admission().min_count()) continue;
      bucket.seen.erase(key);
      Row& row = bucket.rows[key];
      row.values = InitialValues(key);
      row.state.resize(rule_.StateElements(spec_.dim()));
    }
    Row& row = bucket.rows[key];
    row.last_step = step_;
    rule.Update(gradient.data(), spec_.dim(), row.values.data(),
                row.state.data(), before.data());
  }
  EndStep();
}

void ReferenceTable::Skip() { EndStep(); }

void ReferenceTable::EndStep() {
  for (int bucket = 0; bucket < spec_.buckets(); ++bucket) RemoveOld(bucket);
  ++step_;
}

void ReferenceTable::RemoveOld(int number) {
  Bucket& bucket = buckets_[number];
  const int64_t unused = spec_.expiry().unused_steps();
  if (unused > 0 && (step_ + 1) % unused == number % unused) {
    RemoveUnused(step_ - unused, &bucket.rows);
    RemoveUnused(step_ - unused, &bucket.seen);
  }
  const auto most = static_cast<size_t>(
      (spec_.capacity() + spec_.buckets() - 1) / spec_.buckets());
  if (most == 0 || bucket.rows.size() <= most) return;
  while (bucket.rows.size() > most - most / 8) {
    const auto oldest =
        std::min_element(bucket.rows.begin(), bucket.rows.end(),
                         [](const auto& a, const auto& b) {
                           return std::pair(a.second.last_step, a.first) <
                                  std::pair(b.second.last_step, b.first);
                         });
    bucket.rows.erase(oldest);
  }
}

std::vector<float> ReferenceTable::Read(uint64_t key) const {
  const Bucket& bucket = buckets_[BucketOf(key)];
  const auto found = bucket.rows.find(key);
  return found == bucket.rows.end() ? InitialValues(key) : found->second.values;
}

std::vector<BucketRows> ReferenceTable::Buckets() const {
  std::vector<BucketRows> buckets;
  for (const Bucket& bucket : buckets_) {
    BucketRows& rows = buckets.emplace_back();
    rows.bucket = static_cast<int>(buckets.size()) - 1;
    for (const auto& [key, row] : bucket.rows) {
      rows.keys.push_back(key);
      rows.last_steps.push_back(static_cast<uint32_t>(row.last_step));
      rows.values.insert(rows.values.end(), row.values.begin(),
                         row.values.end());
      rows.values.insert(rows.values.end(), row.state.begin(), row.state.end());
    }
    for (const auto& [key, seen] : bucket.seen) {
      rows.candidates.push_back(
          {key, seen.steps, static_cast<uint32_t>(seen.last_step)});
    }
  }
  return buckets;
}

std::string DifferenceOf(const std::vector<BucketRows>& is,
                         const std::vector<BucketRows>& should) {
  if (is.size() != should.size()) {
    return absl::StrCat(is.size(), " buckets, should be ", should.size());
  }
  for (size_t i = 0; i < is.size(); ++i) {
    const std::string bucket = DifferenceOfBucket(is[i], should[i]);
    if (!bucket.empty()) return absl::StrCat("bucket ", i, " ", bucket);
  }
  return "";
}

}  // namespace tributary
