// What a table of embeddings must contain.
#ifndef TRIBUTARY_TESTS_COMMON_SPARSE_REFERENCE_TABLE_H_
#define TRIBUTARY_TESTS_COMMON_SPARSE_REFERENCE_TABLE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/sparse/row_rule.h"
#include "common/sparse/table_bucket.h"
#include "proto/job.pb.h"

namespace tributary {

// A table without slabs, servers or earlier versions: one map for each bucket.
// Copy it to keep a version.
class ReferenceTable {
 public:
  // `spec` must be valid.
  ReferenceTable(const SparseTableSpec& spec, uint64_t seed);

  const SparseTableSpec& spec() const { return spec_; }

  // The gradients of a step: [dim] for each key.
  using Gradients = std::map<uint64_t, std::vector<float>>;
  // Applies a step. The gradient of a row is its sum times `gradient_scale`;
  // the learning rate is that of the rule times `rate_factor`.
  void Apply(const Gradients& sum, float gradient_scale, double rate_factor);
  // Counts a step that changes no row.
  void Skip();

  // Returns the values of the key's row, [dim].
  std::vector<float> Read(uint64_t key) const;
  // Returns all buckets, ascending.
  std::vector<BucketRows> Buckets() const;

 private:
  struct Row {
    std::vector<float> values, state;
    int64_t last_step = 0;
  };
  struct Seen {
    int64_t steps = 0;
    int64_t last_step = 0;
  };
  struct Bucket {
    std::map<uint64_t, Row> rows;
    std::map<uint64_t, Seen> seen;  // Keys that wait for admission.
  };

  int BucketOf(uint64_t key) const;
  std::vector<float> InitialValues(uint64_t key) const;
  void EndStep();
  void RemoveOld(int number);

  SparseTableSpec spec_;
  RowRule rule_;
  uint64_t seed_;
  std::vector<Bucket> buckets_;
  int64_t step_ = 0;
};

// Returns where two tables, of all buckets, differ; an empty string if they
// have the same bits.
std::string DifferenceOf(const std::vector<BucketRows>& is,
                         const std::vector<BucketRows>& should);

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_COMMON_SPARSE_REFERENCE_TABLE_H_
