#include "worker/exchange/all_reduce/chunk_routes.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/text/counted.h"

namespace tributary {
namespace {

absl::Status Uncovered(size_t members, int micro_batches) {
  return absl::InvalidArgumentError(
      absl::StrCat("the assignments of ", Counted(members, "member"),
                   " of the all-reduce do not cover ",
                   Counted(micro_batches, "micro-batch", "micro-batches")));
}

}  // namespace

absl::StatusOr<ChunkRoutes> ChunkRoutes::Create(
    int chunk_count, int micro_batches, const std::vector<LeafRange>& leaves,
    const std::vector<WorkerChunks>& chunks) {
  ChunkRoutes routes;
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (leaves[i].begin < 0 || leaves[i].end <= leaves[i].begin ||
        leaves[i].end > micro_batches) {
      return Uncovered(leaves.size(), micro_batches);
    }
    const WorkerChunks own = chunks.empty() ? WorkerChunks() : chunks[i];
    Member member;
    member.nodes = MaximalSubtrees(leaves[i], micro_batches);
    member.begin = own.begin;
    member.end = own.end == 0 ? chunk_count : own.end;
    member.read = own.read;
    routes.members_.push_back(std::move(member));
  }
  routes.chunks_.resize(chunk_count);
  for (int number = 0; number < chunk_count; ++number) {
    Chunk& chunk = routes.chunks_[number];
    int covered = 0;
    for (int member = 0; member < routes.size(); ++member) {
      if (!routes.Contributes(member, number)) continue;
      if (leaves[member].begin != covered) {
        return Uncovered(leaves.size(), micro_batches);
      }
      covered = leaves[member].end;
      chunk.contributors.push_back(member);
      if (routes.Reads(member, number)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("member ", member, " of the all-reduce contributes to ",
                       "chunk ", number, ", but does not read it"));
    }
    if (covered != micro_batches) {
      return Uncovered(leaves.size(), micro_batches);
    }
    chunk.owner = chunk.contributors[number % chunk.contributors.size()];
    std::vector<int>& owned = routes.members_[chunk.owner].owned;
    chunk.place = static_cast<int>(owned.size());
    owned.push_back(number);
  }
  return routes;
}

std::vector<int> ChunkRoutes::ReadBy(int member) const {
  std::vector<int> chunks;
  for (int chunk = 0; chunk < chunk_count(); ++chunk) {
    if (Reads(member, chunk)) chunks.push_back(chunk);
  }
  return chunks;
}

bool ChunkRoutes::IsSource(int source, int member) const {
  const std::vector<int>& sources = SourcesOf(member);
  return std::find(sources.begin(), sources.end(), source) != sources.end();
}

}  // namespace tributary
