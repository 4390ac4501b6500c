// The weights of a network, from which it computes one micro-batch.
#ifndef TRIBUTARY_WORKER_NN_WEIGHTS_VIEW_H_
#define TRIBUTARY_WORKER_NN_WEIGHTS_VIEW_H_

#include <cstdint>

namespace tributary {

// A view of an arena, a buffer with the weights of the whole model, which may
// still be arriving. The arena is in the memory where the model computes, and
// must outlive this object.
class WeightsView {
 public:
  // Views weights that are all there.
  WeightsView(const float* data) : data_(data) {}  // NOLINT: no other meaning.
  virtual ~WeightsView() = default;

  const float* data() const { return data_; }
  // Blocks until elements [begin, end) may be read. Returns false if the
  // micro-batch must be given up instead. Must be called before elements are
  // read, on the compute thread.
  virtual bool Await(int64_t /*begin*/, int64_t /*end*/) const { return true; }

 private:
  const float* const data_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_NN_WEIGHTS_VIEW_H_
