// Reads the batches of coming leaves in threads of its own, so that computing
// does not wait for data.
#ifndef TRIBUTARY_WORKER_DATA_READ_AHEAD_H_
#define TRIBUTARY_WORKER_DATA_READ_AHEAD_H_

#include <cstdint>
#include <memory>

#include "worker/data/batch.h"
#include "worker/data/data_set.h"
#include "worker/data/sampler.h"

namespace tributary {

// Thread-safe. Holds at most `depth` expected leaves, besides those that
// threads read just now; the oldest that nobody took is dropped when more are
// expected. With no threads or depth 0, each leaf is read when it is taken.
class ReadAhead {
 public:
  // `data` and `sampler` must outlive this object.
  ReadAhead(const DataSet* data, const Sampler* sampler, int threads,
            int depth);
  // Gives up what was not begun and waits for the reads in progress and for
  // calls of Take that wait for one.
  ~ReadAhead();

  // Says that the leaf will be wanted. Never blocks. Repeats are ignored.
  void Expect(int64_t step, int micro_batch);
  // The batch of the leaf: at once if it was read ahead, else it waits for the
  // thread that reads it, or reads it here. The leaf is then forgotten: taking
  // it again reads it again.
  std::shared_ptr<const Batch> Take(int64_t step, int micro_batch);
  // The same if it has been read ahead; else null, and nothing changes. Never
  // waits.
  std::shared_ptr<const Batch> TryTake(int64_t step, int micro_batch);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_READ_AHEAD_H_
