#include "worker/exchange/parameter_server/server_rows.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/buffer_pool.h"
#include "common/base/monotonic_clock.h"
#include "common/base/status_macros.h"
#include "common/codec/row_codec.h"
#include "common/sparse/key_hash.h"
#include "common/stream/received_rows.h"

namespace tributary {
namespace {

// How often a waiting thread checks whether its task is given up.
constexpr absl::Duration kPatience = absl::Milliseconds(20);

}  // namespace

// The rows of one request.
class ServerRows::Requested final {
 public:
  Requested(const TableKeys& keys, const RowDims& dims, int servers)
      : parts_(servers), missing_(servers) {
    int64_t elements = 0;
    for (size_t table = 0; table < keys.size(); ++table) {
      elements += static_cast<int64_t>(keys[table].size()) * dims[table];
    }
    values_ = AllocateBuffer(elements);
  }

  // States that the server sends a row of `dim` values after those that were
  // added before, which belongs to `begin` in the values.
  void Expect(int shard, int dim, int64_t begin) {
    Part& part = parts_[shard];
    ++part.missing;
    if (!part.runs.empty()) {
      Run& last = part.runs.back();
      if (last.dim == dim && last.begin + last.rows * dim == begin) {
        ++last.rows;
        return;
      }
    }
    part.runs.push_back({begin, dim, 1});
  }

  absl::Status Add(int shard, const Rows& rows, Encoding encoding,
                   const ReceivedPayload& payload) ABSL_LOCKS_EXCLUDED(mu_) {
    Part& part = parts_[shard];
    if (rows.gone()) {
      absl::MutexLock lock(&mu_);
      gone_ = true;
      return absl::OkStatus();
    }
    if (rows.first() != part.arrived || rows.rows() < 0 ||
        rows.rows() > part.missing || rows.encoding() != encoding) {
      return absl::InvalidArgumentError(absl::StrCat(
          "sent rows ", rows.first(), " to ", rows.first() + rows.rows(),
          " of ", part.arrived + part.missing, " in encoding ",
          Encoding_Name(rows.encoding()), ", expected row ", part.arrived,
          " in ", Encoding_Name(encoding)));
    }
    if (part.complete) {
      return absl::InvalidArgumentError(
          absl::StrCat("sent a message after all ", part.arrived,
                       " rows of request ", rows.request()));
    }
    const std::vector<Run> runs = part.Next(rows.rows());
    int64_t bytes = 0;
    for (const Run& run : runs) {
      bytes += run.rows * EncodedRowBytes(encoding, run.dim);
    }
    if (payload.bytes() != bytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("sent ", payload.bytes(), " bytes for ", rows.rows(),
                       " rows, expected ", bytes));
    }
    ReceivedRows received(encoding, &payload);
    for (const Run& run : runs) {
      const absl::Status read =
          received.Read(run.rows, run.dim, values_.get() + run.begin);
      if (!read.ok()) {
        return absl::Status(read.code(), absl::StrCat("sent ", read.message()));
      }
    }
    part.Arrived(runs);
    if (!part.complete) return absl::OkStatus();
    absl::MutexLock lock(&mu_);
    --missing_;
    return absl::OkStatus();
  }

  absl::StatusOr<const float*> Await(const WeightsSink& sink,
                                     const std::function<bool()>& given_up)
      ABSL_LOCKS_EXCLUDED(mu_) {
    const auto settled = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
      return missing_ == 0 || gone_;
    };
    while (true) {
      {
        absl::MutexLock lock(&mu_);
        AwaitFor(&mu_, absl::Condition(&settled), kPatience);
        if (missing_ == 0) return values_.get();
        if (gone_) return absl::AbortedError("the rows are gone");
      }
      TRIBUTARY_RETURN_IF_ERROR(sink.status());
      if (given_up()) return absl::AbortedError("the task was given up");
    }
  }

 private:
  // Rows whose places in the values follow each other.
  struct Run {
    int64_t begin = 0;
    int dim = 0;
    int64_t rows = 0;
  };
  // The rows of one server.
  struct Part {
    // Returns the next `rows` rows, which are missing.
    std::vector<Run> Next(int64_t rows) const {
      std::vector<Run> next;
      for (auto run = runs.begin(); rows > 0; ++run) {
        next.push_back({run->begin, run->dim, std::min(rows, run->rows)});
        rows -= next.back().rows;
      }
      return next;
    }
    // States that these rows have arrived.
    void Arrived(const std::vector<Run>& next) {
      for (const Run& run : next) {
        Run& from = runs.front();
        from.begin += run.rows * run.dim;
        from.rows -= run.rows;
        if (from.rows == 0) runs.pop_front();
        missing -= run.rows;
        arrived += run.rows;
      }
      complete = missing == 0;
    }

    std::deque<Run> runs;  // Of rows that have not arrived.
    int64_t missing = 0;
    int64_t arrived = 0;
    bool complete = false;  // At least one message has arrived, and all rows.
  };

  Buffer values_;
  std::vector<Part> parts_;  // By server; each is used by its stream.
  absl::Mutex mu_;
  int missing_ ABSL_GUARDED_BY(mu_);  // Servers whose rows have not arrived.
  bool gone_ ABSL_GUARDED_BY(mu_) = false;
};

ServerRows::ServerRows(const JobSpec& job, int servers,
                       const StatedRates* rates, WeightsSink* sink, Send send)
    : sparse_(job.sparse()),
      dims_(RowDimsOf(sparse_)),
      encoding_(RowEncoding(job)),
      servers_(servers),
      rates_(rates),
      sink_(sink),
      send_(std::move(send)),
      pushed_(servers, -1) {}

int ServerRows::ShardOf(int table, uint64_t key) const {
  if (servers_ == 1) return 0;
  return ServerOfBucket(
      BucketOfHash(KeyHash(key), sparse_.table(table).buckets()), servers_);
}

std::unique_ptr<RequestedRows> ServerRows::Request(int64_t version,
                                                   const TableKeys& keys) {
  // What the caller holds: the request ends with it.
  class Handle final : public RequestedRows {
   public:
    Handle(std::shared_ptr<Requested> rows, const WeightsSink* sink)
        : rows_(std::move(rows)), sink_(sink) {}
    absl::StatusOr<const float*> Await(
        const std::function<bool()>& given_up) override {
      return rows_->Await(*sink_, given_up);
    }

   private:
    const std::shared_ptr<Requested> rows_;
    const WeightsSink* const sink_;
  };

  auto rows = std::make_shared<Requested>(keys, dims_, servers_);
  std::vector<TableKeys> parts(servers_, TableKeys(keys.size()));
  int64_t begin = 0;
  for (size_t table = 0; table < keys.size(); ++table) {
    for (const uint64_t key : keys[table]) {
      const int shard = ShardOf(static_cast<int>(table), key);
      if (servers_ > 1) parts[shard][table].push_back(key);
      rows->Expect(shard, dims_[table], begin);
      begin += dims_[table];
    }
  }
  int64_t number = 0;
  {
    absl::MutexLock lock(&mu_);
    number = next_request_++;
    for (auto request = requests_.begin(); request != requests_.end();) {
      request = request->second.expired() ? requests_.erase(request)
                                          : std::next(request);
    }
    requests_.emplace(number, rows);
  }
  for (int shard = 0; shard < servers_; ++shard) {
    WorkerMessage message;
    RowsRequest* const request = message.mutable_rows_request();
    request->set_request(number);
    request->set_version(version);
    OutgoingPayload payload =
        PackRequest(servers_ > 1 ? parts[shard] : keys, request);
    // Before gradients, which take longer.
    send_(shard, message, std::move(payload), /*step=*/-1);
  }
  return std::make_unique<Handle>(std::move(rows), sink_);
}

std::vector<std::vector<OutgoingRows>> ServerRows::Parts(
    const TableSums& sum) const {
  if (servers_ == 1) return {AllRows(sum)};
  std::vector<std::vector<OutgoingRows>> parts(servers_);
  for (size_t table = 0; table < sum.size(); ++table) {
    std::vector<std::vector<int32_t>> places(servers_);
    const std::vector<uint64_t>& keys = sum[table]->keys();
    for (size_t row = 0; row < keys.size(); ++row) {
      places[ShardOf(static_cast<int>(table), keys[row])].push_back(
          static_cast<int32_t>(row));
    }
    for (int shard = 0; shard < servers_; ++shard) {
      parts[shard].push_back({sum[table], std::move(places[shard])});
    }
  }
  return parts;
}

void ServerRows::Push(int64_t step, int node, int64_t sample_count,
                      const TableSums& sum) {
  RowContribution header;
  header.set_step(step);
  header.set_node(node);
  header.set_weight(sample_count);
  if (const std::optional<double> rate = rates_->Of(step)) {
    header.set_learning_rate(*rate);
  }
  const std::vector<std::vector<OutgoingRows>> parts = Parts(sum);
  for (int shard = 0; shard < servers_; ++shard) {
    absl::MutexLock lock(&push_mu_);
    // Asynchronous workers may compute an older step again. Its parts must not
    // overtake those of a newer one that wait in the stream.
    const int64_t newest = pushed_[shard] = std::max(pushed_[shard], step);
    PackContribution(header, parts[shard], dims_, encoding_,
                     [&](const RowContribution& part, OutgoingPayload payload) {
                       WorkerMessage message;
                       *message.mutable_row_contribution() = part;
                       send_(shard, message, std::move(payload), newest);
                     });
  }
}

absl::Status ServerRows::OnRows(int shard, const Rows& rows,
                                const ReceivedPayload& payload) {
  std::shared_ptr<Requested> request;
  {
    absl::MutexLock lock(&mu_);
    if (rows.request() < 0 || rows.request() >= next_request_) {
      return absl::InvalidArgumentError(absl::StrCat(
          "sent rows of request ", rows.request(), " of ", next_request_));
    }
    const auto found = requests_.find(rows.request());
    if (found != requests_.end()) request = found->second.lock();
  }
  if (request == nullptr) return absl::OkStatus();
  return request->Add(shard, rows, encoding_, payload);
}

}  // namespace tributary
