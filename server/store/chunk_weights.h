// The weights of one chunk on a server: the newest version and the one before
// it, as the optimizer needs them and as workers get them.
#ifndef TRIBUTARY_SERVER_STORE_CHUNK_WEIGHTS_H_
#define TRIBUTARY_SERVER_STORE_CHUNK_WEIGHTS_H_

#include <cstdint>

#include "common/base/buffer_pool.h"
#include "common/codec/encoding.h"
#include "proto/job.pb.h"

namespace tributary {

// What workers get depends on the job's exchange:
//   * FLOAT32: the weights themselves. In shared memory the optimizer writes
//     them where workers read them.
//   * BFLOAT16, FLOAT16: the weights, rounded. As 16 bits for streams, as
//     float32 in shared memory; converted once for each version, block by block
//     while the update has them in the cache.
//   * compression: differences between published weights, which are therefore
//     kept beside the real ones. What a difference leaves out is in the next
//     one, because it is taken from what is published to what should be (Tang
//     et al., 2019). Who has no published version yet gets it in whole.
//
// Not thread-safe, but for Write and Complete: one thread may call these
// while others use the rest.
class ChunkWeights {
 public:
  // `exchange` is valid. Buffers of `buffers` have room for `elements`, those
  // of `halves` for half as many. All must outlive this object.
  ChunkWeights(const ExchangeSpec* exchange, int64_t elements,
               BufferPool* buffers, BufferPool* halves);

  // -1: there are none.
  int64_t version() const { return version_; }

  // Sets the first version: 0, or that of a checkpoint.
  void Initialize(int64_t version, Buffer values);

  // A version in the making.
  struct Next {
    Buffer from;    // The newest version, to read from.
    Buffer values;  // The next one, to be written to.
    // What Write and Complete make of it; null where nobody needs it.
    Buffer halves;
    Buffer rounded;
    Buffer published_from;
    Buffer published;
    // `published` holds the version before published_from to begin with.
    bool published_before = false;
    EncodedFloats difference;
    // `values` are in the shared memory, and overwritten in two versions' time.
    bool in_place = false;
  };
  // Begins version() + 1. The version before version() is gone then: the update
  // has gradients that were computed from version() of all chunks, so nobody
  // needs it. `for_streams`: somebody will ask for it in 16 bits.
  Next Begin(bool for_streams);
  // Takes elements [begin, begin + count), count at most TreeSum::kBlock, from
  // `values`: next.values + begin if they are there already, or elsewhere to be
  // written past the caches (see StreamingCopy).
  void Write(const Next& next, int64_t begin, int64_t count,
             const float* values) const;
  // All have been taken.
  void Complete(Next* next) const;
  // Makes it the newest version.
  void Finish(Next next);

  // Whether workers that read the shared memory find this version there.
  bool Has(int64_t version) const { return Find(version) != nullptr; }
  // This version in whole, as streams get it. Without data if it is not there.
  EncodedFloats Encoded(int64_t version);
  // What leads from the version before to the newest; without data if that is
  // to be sent in whole.
  const EncodedFloats& difference() const { return difference_; }
  // The optimizer's weights, float32. Without data if they are not there.
  EncodedFloats Exact(int64_t version);

  // From now on even and odd versions lie, or are copied, there too. Not with
  // compression.
  void Share(Buffer even, Buffer odd);

 private:
  struct Version {
    Buffer values;
    Buffer published;       // Of compressed weights.
    EncodedFloats encoded;  // What Encoded has made.
  };

  const Version* Find(int64_t version) const;
  Version* Find(int64_t version);
  // Puts `version`, which is at `*place`, into the shared memory.
  void CopyToShared(int64_t version, Version* place);
  Buffer CopyOf(const Buffer& values) const;

  const ExchangeSpec& exchange_;
  const WireDtype dtype_;
  const int64_t elements_;
  BufferPool* const buffers_;
  BufferPool* const halves_;

  int64_t version_ = -1;
  Version newest_;
  Version previous_;
  EncodedFloats difference_;
  Buffer shared_[2];
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_STORE_CHUNK_WEIGHTS_H_
