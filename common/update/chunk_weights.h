// The newest two versions of one chunk's weights on a server, in the form that
// the optimizer uses and in the form that workers receive.
#ifndef TRIBUTARY_COMMON_UPDATE_CHUNK_WEIGHTS_H_
#define TRIBUTARY_COMMON_UPDATE_CHUNK_WEIGHTS_H_

#include <cstdint>
#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "common/base/buffer_pool.h"
#include "common/codec/encoding.h"
#include "common/parameters/memory_view.h"
#include "proto/job.pb.h"

namespace tributary {

// The form that the optimizer uses, and the one that streams send.
enum class WeightsForm { kExact, kEncoded };

// The newest versions of one chunk's weights, in the form that the optimizer
// uses and in the form that workers receive. The latter depends on the job's
// exchange:
//   * FLOAT32: the weights themselves. With shared memory, the optimizer writes
//     them to the place where workers read them.
//   * BFLOAT16, FLOAT16: the weights, rounded. They are encoded as 16 bits for
//     streams, and as float32 in shared memory. They are converted once for
//     each version, block by block, while the update has them in the cache.
//   * compression: the change since the previous version, encoded with loss.
//     Besides the exact weights, this object keeps the published weights, which
//     are the weights that workers have. For each version it encodes the
//     difference (exact - published), and adds the decoded result to the
//     published weights. The next difference therefore includes what one
//     encoding has left out (error feedback; Tang et al., 2019). A worker that
//     lacks the previous published version receives the published weights
//     whole.
//
// Not thread-safe, except that one thread may call Complete while a different
// thread calls one of the remaining methods.
class ChunkWeights {
 public:
  // `exchange` must be valid. Each buffer of `buffers` has room for `elements`
  // floats, and each buffer of `halves` for half as many. All pointers must
  // outlive this object.
  ChunkWeights(const ExchangeSpec* exchange, int64_t elements,
               BufferPool* buffers, BufferPool* halves);

  // Returns the newest version, or -1 if there are no weights yet.
  int64_t version() const { return version_; }
  // Returns the newest version in the form that the optimizer uses. Null if
  // there are no weights yet. If only the device holds this version (see
  // Next::place), the contents are unspecified.
  const Buffer& Newest() const { return newest_.values; }

  // A function that copies a version that only the device holds from there to
  // `to`. It may block. If it fails, the contents of `to` are unspecified, and
  // the version stays on the device. SetFetch sets the function to use.
  using Fetch = std::function<absl::Status(int64_t version, float* to)>;
  void SetFetch(Fetch fetch) { fetch_ = std::move(fetch); }

  // Sets the weights to `values`, which are the first version: 0, or the
  // version that the job resumes from.
  void Initialize(int64_t version, Buffer values);

  // A version of the chunk's weights that is being computed.
  struct Next {
    Buffer from;    // The weights of the newest version, which are read.
    Buffer values;  // The weights of the next version, which are written.
    // The next four buffers are null if they are not needed. `published_from`
    // holds the published weights of the newest version, which are read. Write
    // and Complete fill the others: the 16-bit form for streams, the rounded
    // form for shared memory, and the published weights of the next version.
    Buffer halves;
    Buffer rounded;
    Buffer published_from;
    Buffer published;
    // With compression: true if `published` still contains the published
    // weights of the version before `published_from`, so that only the elements
    // that have changed must be copied from `published_from`.
    bool published_before = false;
    EncodedFloats difference;
    WireDtype dtype = ExchangeSpec::FLOAT32;  // Of `halves` and `rounded`.
    // Where the weights are: kHost, or kShared if `values` is in shared memory,
    // which is overwritten two versions later. The caller may set kDevice
    // between Begin and Finish if only the device holds the weights. The
    // contents of `values` are then unspecified until a method that needs the
    // weights copies them from the device. Requires FLOAT32.
    MemoryPlace place = MemoryPlace::kHost;

    // Computes the forms in which workers receive elements [begin, begin +
    // count) of the new version; count is at most TreeSum::kBlock. `from`
    // points to these elements, either in `values` or in a different array. In
    // the second case, Write also copies them to values + begin (see
    // StreamingCopy).
    void Write(int64_t begin, int64_t count, const float* from) const;
  };
  // Begins to compute version() + 1, and releases the memory of version() - 1.
  // The released version is no longer needed: in synchronous mode, the
  // gradients of this update were computed from version() of all chunks, and in
  // all other modes, workers need only the newest version. `for_streams` is
  // true if a stream will send the new version.
  Next Begin(bool for_streams);
  // With compression, sets next->difference to the encoded difference between
  // the new weights and the published weights, and fills next->published.
  // Without compression, does nothing. Call it after Next::Write was called for
  // all elements.
  void Complete(Next* next) const;
  // Makes `next`, which is complete, the newest version.
  void Finish(Next next);

  // Returns true if this object holds the weights of `version`.
  bool Has(int64_t version) const { return Find(version) != nullptr; }
  // Returns all weights of `version` in the form that streams send. The result
  // has no data if this object does not hold the version or cannot fetch it
  // from the device.
  EncodedFloats Encoded(int64_t version);
  // Copies `version` to the host if only the device holds it. Returns false if
  // this object does not hold the version or cannot fetch it from the device.
  bool BringToHost(int64_t version);
  // Returns the difference between the newest two published versions. The
  // result has no data if the newest version must be sent whole.
  const EncodedFloats& difference() const { return difference_; }
  // Returns `version` in the form that the optimizer uses, in float32. The
  // result has no data if this object does not hold the version or cannot fetch
  // it from the device.
  EncodedFloats Exact(int64_t version);

  // Sets where this object stores the weights that workers read from shared
  // memory: even versions in `even`, and odd versions in `odd`. Copies the
  // existing versions there. Must not be called with compression.
  void Share(Buffer even, Buffer odd);

 private:
  struct Version {
    Buffer values;
    // The published weights (see the class comment); null without compression.
    Buffer published;
    // The cached result of Encoded; has no data if there is none.
    EncodedFloats encoded;
    bool on_device = false;  // True if only the device holds `values`.
  };

  const Version* Find(int64_t version) const;
  Version* Find(int64_t version);
  // Copies the weights in `*place`, which have version `version`, to shared
  // memory. Does nothing if they cannot be fetched from the device.
  void CopyToShared(int64_t version, Version* place);
  // Does the work of BringToHost.
  bool FetchIfNeeded(int64_t version, Version* place) const;
  Buffer CopyOf(const Buffer& values) const;

  const ExchangeSpec& exchange_;
  const WireDtype dtype_;
  const int64_t elements_;
  BufferPool* const buffers_;
  BufferPool* const halves_;
  Fetch fetch_;

  int64_t version_ = -1;
  Version newest_;
  Version previous_;
  EncodedFloats difference_;
  Buffer shared_[2];
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_UPDATE_CHUNK_WEIGHTS_H_
