#include "worker/process/first_state.h"

#include <xxhash.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/buffer_pool.h"
#include "common/base/limits.h"
#include "common/base/status_macros.h"
#include "common/optimizer/optimizer.h"
#include "worker/process/worker_network.h"

namespace tributary {
namespace {

// Writes a chunk's first version to the weights that the model reads.
absl::Status Place(const float* values, int64_t count, int chunk,
                   int64_t version, WeightsSink* sink) {
  float* to = nullptr;
  if (sink->BeginWrite(chunk, version, &to) != WeightsSink::Arrival::kWrite) {
    return absl::InternalError("the initial weights cannot be written");
  }
  std::copy_n(values, count, to);
  sink->EndWrite(chunk, version);
  return absl::OkStatus();
}

std::vector<int> Numbers(const ChunkRanges& chunks, const ArenaLayout& layout) {
  std::vector<int> numbers;
  for (int chunk = 0; chunk < layout.chunk_count(); ++chunk) {
    if (chunks.Contains(chunk)) numbers.push_back(chunk);
  }
  return numbers;
}

// The elements of one parameter that are in one chunk.
struct ParameterPart {
  const Parameter* parameter = nullptr;
  int64_t begin = 0;  // In the arena.
  int64_t end = 0;
};

// Returns the parts of all parameters, by chunk.
std::vector<std::vector<ParameterPart>> PartsOf(const ArenaLayout& layout) {
  std::vector<std::vector<ParameterPart>> parts(layout.chunk_count());
  for (const Parameter& parameter : layout.parameters()) {
    const int64_t end = parameter.offset + parameter.size;
    int64_t begin = parameter.offset;
    while (begin < end) {
      const auto chunk = static_cast<int>(begin / layout.chunk_elements());
      const int64_t next = std::min(end, layout.ChunkBegin(chunk + 1));
      parts[chunk].push_back({&parameter, begin, next});
      begin = next;
    }
  }
  return parts;
}

// Of the XXH3-64 of a part of a parameter.
constexpr size_t kDigestBytes = sizeof(uint64_t);

std::string DigestOf(const ParameterPart& part, const float* arena) {
  const uint64_t digest =
      XXH3_64bits(arena + part.begin, (part.end - part.begin) * sizeof(float));
  return std::string(reinterpret_cast<const char*>(&digest), sizeof(digest));
}

std::string PublicationOf(int member) {
  return member == 0 ? "initial weights"
                     : absl::StrCat("initial weights ", member);
}

}  // namespace

absl::Status MakeFirst(const TrainingSetup& setup, const ChunkRanges& read,
                       WeightsSink* sink) {
  const ArenaLayout& layout = setup.layout();
  const Buffer arena = BufferPool(layout.arena_elements()).Take();
  if (read.all()) {
    TRIBUTARY_RETURN_IF_ERROR(setup.MakeInitialWeights(arena.get()));
  }
  for (const ChunkRange& range : read.ranges()) {
    TRIBUTARY_RETURN_IF_ERROR(setup.MakeInitialElements(
        layout.ChunkBegin(range.begin()),
        std::min(layout.ChunkBegin(range.end()), layout.arena_elements()),
        arena.get()));
  }
  for (const int chunk : Numbers(read, layout)) {
    TRIBUTARY_RETURN_IF_ERROR(Place(arena.get() + layout.ChunkBegin(chunk),
                                    layout.ChunkSize(chunk), chunk,
                                    /*version=*/0, sink));
  }
  return absl::OkStatus();
}

absl::StatusOr<Snapshot> ReadFirst(const WorkerOptions& options,
                                   const Open& open, const TrainingSetup& setup,
                                   const ChunkRanges& read, WeightsSink* sink) {
  TRIBUTARY_ASSIGN_OR_RETURN(const std::unique_ptr<Optimizer> optimizer,
                             Optimizer::Create(setup.job().optimizer()));
  Snapshot first = MakeSnapshot(setup.layout(), Numbers(read, setup.layout()),
                                optimizer->slots());
  ReadJournalRequest request;
  *request.mutable_scope() = open.scope();
  request.set_version(open.version());
  *request.mutable_chunk() = read.ranges();
  TRIBUTARY_RETURN_IF_ERROR(
      options.network->ReadReplica(options.coordinator, request, &first));
  for (const Snapshot::Chunk& chunk : first.chunks) {
    TRIBUTARY_RETURN_IF_ERROR(Place(chunk.values.get(), chunk.elements,
                                    chunk.number, first.version, sink));
  }
  return first;
}

void Publish(const std::string& name, const std::string& bytes,
             MembershipClient* membership) {
  WorkerReport report;
  Publication* const publication = report.mutable_publication();
  publication->set_name(name);
  const size_t most = kDefaultLimits.text_bytes;
  for (size_t begin = 0; begin < bytes.size(); begin += most) {
    publication->add_part(bytes.substr(begin, most));
  }
  membership->Send(report);
}

absl::Status CompareFirst(const float* arena, int member,
                          const ChunkRoutes& routes, const ArenaLayout& layout,
                          MembershipClient* membership) {
  const std::vector<std::vector<ParameterPart>> parts = PartsOf(layout);
  // Each chunk is published by the first member that contributes to it.
  std::string own;
  for (int chunk = 0; chunk < routes.chunk_count(); ++chunk) {
    if (routes.ContributorsOf(chunk).front() != member) continue;
    for (const ParameterPart& part : parts[chunk]) own += DigestOf(part, arena);
  }
  if (!own.empty()) Publish(PublicationOf(member), own, membership);
  // What other members have published, and how much of it was passed.
  std::map<int, std::string> published;
  std::map<int, size_t> passed;
  for (int chunk = 0; chunk < routes.chunk_count(); ++chunk) {
    const int other = routes.ContributorsOf(chunk).front();
    if (other == member) continue;
    size_t& begin = passed[other];
    if (!routes.Reads(member, chunk)) {
      begin += parts[chunk].size() * kDigestBytes;
      continue;
    }
    if (published.count(other) == 0) {
      TRIBUTARY_ASSIGN_OR_RETURN(
          published[other], membership->AwaitPublication(PublicationOf(other)));
    }
    for (const ParameterPart& part : parts[chunk]) {
      const std::string theirs =
          begin < published[other].size()
              ? published[other].substr(begin, kDigestBytes)
              : "";
      begin += kDigestBytes;
      if (theirs == DigestOf(part, arena)) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "the initial values of parameter ", part.parameter->name,
          " differ from those of another member of the all-reduce: derive them "
          "only from the job's seed, so that all workers begin with the same "
          "weights (in Python: create the network after tributary.connect)"));
    }
  }
  return absl::OkStatus();
}

}  // namespace tributary
