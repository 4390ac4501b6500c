// Reads the batches of upcoming micro-batches on background threads, so that
// computation does not wait for data.
#ifndef TRIBUTARY_WORKER_DATA_READ_AHEAD_H_
#define TRIBUTARY_WORKER_DATA_READ_AHEAD_H_

#include <cstdint>
#include <memory>

#include "worker/data/batch.h"
#include "worker/data/data_set.h"
#include "worker/data/sampler.h"

namespace tributary {

// Reads the samples of micro-batches on background threads after Expect has
// announced these micro-batches, and holds the samples until Take returns them.
// Holds at most `depth` micro-batches; if more are announced, drops the oldest
// ones. With 0 threads or depth 0, reads each micro-batch when it is taken.
// Thread-safe.
class ReadAhead {
 public:
  // `data` and `sampler` must outlive this object.
  ReadAhead(const DataSet* data, const Sampler* sampler, int threads,
            int depth);
  // Discards micro-batches whose samples no thread has begun to read. Waits for
  // reads in progress, and for calls of Take that wait for such a read.
  ~ReadAhead();

  // Schedules a read of the micro-batch. Never blocks. Has no effect if the
  // micro-batch is already expected.
  void Expect(int64_t step, int micro_batch);
  // Returns the samples of the micro-batch and stops holding them; if the
  // micro-batch is taken again, it is read again. If a background thread is
  // reading the micro-batch, waits for that thread. If no thread has begun to
  // read it, reads it on the calling thread.
  std::shared_ptr<const Batch> Take(int64_t step, int micro_batch);
  // Like Take, but returns null, without any effect, if the micro-batch has not
  // been read. Never waits.
  std::shared_ptr<const Batch> TryTake(int64_t step, int micro_batch);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_READ_AHEAD_H_
