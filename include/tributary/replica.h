// A network on one device, for the functions of tributary/data_parallel.h.
#ifndef TRIBUTARY_REPLICA_H_
#define TRIBUTARY_REPLICA_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tributary {

// A parameter's place in a vector of all weights or of all gradients.
struct ParameterPlace {
  std::string name;
  std::vector<int64_t> shape;
  int64_t offset = 0;  // Of its first element; the others follow, row by row.
  int64_t size = 0;    // Number of elements.
};

struct ReplicaState;

// A network on one device. Used by one thread at a time.
class Replica {
 public:
  ~Replica();
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  // The name of the device, as passed to Replicate.
  const std::string& device() const;
  // Where each parameter is in a vector of weights or of gradients. Such a
  // vector has elements() elements; those between parameters are zero.
  const std::vector<ParameterPlace>& parameters() const;
  int64_t elements() const;
  // The largest number of samples of a micro-batch.
  int64_t micro_batch_samples() const;
  // Returns initial values, as a job with this seed chooses them.
  std::vector<float> InitialWeights(uint64_t seed) const;

  // For the functions of tributary/data_parallel.h.
  explicit Replica(std::unique_ptr<ReplicaState> state);
  ReplicaState& state() { return *state_; }
  const ReplicaState& state() const { return *state_; }

 private:
  const std::unique_ptr<ReplicaState> state_;
};

}  // namespace tributary

#endif  // TRIBUTARY_REPLICA_H_
