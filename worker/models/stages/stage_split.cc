#include "worker/models/stages/stage_split.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/nn/network_cuts.h"

namespace tributary {
namespace {

using Range = StageSplit::Range;
using Stage = StageSplit::Stage;

absl::Status CheckCuts(const Graph& graph, const std::vector<int>& cuts) {
  const std::vector<Graph::Node>& nodes = graph.nodes();
  const std::vector<bool> allowed = AllowedCuts(graph);
  int before = 0;
  for (const int cut : cuts) {
    if (cut <= before || cut >= static_cast<int>(nodes.size())) {
      return absl::InvalidArgumentError(absl::StrCat(
          "a stage cannot begin with layer ", cut, " of ", nodes.size(),
          ": the one before it begins with layer ", before));
    }
    if (!allowed[cut]) {
      return absl::InvalidArgumentError(
          absl::StrCat(nodes[cut].name,
                       ": a stage cannot begin with this layer, because it "
                       "is computed together with ",
                       nodes[cut - 1].name));
    }
    before = cut;
  }
  return absl::OkStatus();
}

// Returns the stage of each layer.
std::vector<int> StagesOfLayers(const StageSplit& split, size_t layers) {
  std::vector<int> stages(layers);
  for (size_t s = 0; s < split.stages.size(); ++s) {
    for (int i = split.stages[s].begin; i < split.stages[s].end; ++i) {
      stages[i] = static_cast<int>(s);
    }
  }
  return stages;
}

// Returns the stages that use each parameter, in ascending order.
std::vector<std::vector<int>> UsersOf(const Graph& graph,
                                      const std::vector<int>& stages,
                                      size_t parameters) {
  std::vector<std::vector<int>> users(parameters);
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    for (const int parameter : graph.nodes()[i].parameters) {
      std::vector<int>& list = users[parameter];
      if (list.empty() || list.back() != stages[i]) list.push_back(stages[i]);
    }
  }
  return users;
}

// Returns the number of the first chunk that begins at or behind `element`.
int64_t FirstChunkFrom(int64_t element, const ArenaLayout& layout) {
  return (element + layout.chunk_elements() - 1) / layout.chunk_elements();
}

void SetElements(const std::vector<std::vector<int>>& users,
                 const ArenaLayout& layout, StageSplit* split) {
  const std::vector<Parameter>& parameters = layout.parameters();
  size_t next = 0;
  for (size_t s = 0; s < split->stages.size(); ++s) {
    const auto offset = [&] {
      return next < parameters.size() ? parameters[next].offset
                                      : layout.arena_elements();
    };
    Stage& stage = split->stages[s];
    stage.elements.begin = offset();
    while (next < parameters.size() && users[next][0] == static_cast<int>(s)) {
      ++next;
    }
    stage.elements.end = offset();
    stage.chunks = {FirstChunkFrom(stage.elements.begin, layout),
                    FirstChunkFrom(stage.elements.end, layout)};
  }
}

void SetReadChunks(const std::vector<std::vector<int>>& users,
                   const ArenaLayout& layout, StageSplit* split) {
  for (size_t p = 0; p < users.size(); ++p) {
    const Parameter& parameter = layout.parameters()[p];
    const Range chunks = {
        parameter.offset / layout.chunk_elements(),
        FirstChunkFrom(parameter.offset + parameter.size + parameter.padding,
                       layout)};
    for (const int user : users[p]) {
      std::vector<Range>& read = split->stages[user].read_chunks;
      if (!read.empty() && chunks.begin <= read.back().end) {
        read.back().end = std::max(read.back().end, chunks.end);
      } else {
        read.push_back(chunks);
      }
    }
  }
}

void SetParts(const std::vector<std::vector<int>>& users,
              const ArenaLayout& layout, StageSplit* split) {
  std::map<std::pair<int, int>, std::vector<Range>> parts;
  // The stage that contributes the chunk in which a later stage begins.
  for (size_t from = 0; from < split->stages.size(); ++from) {
    const Range& elements = split->stages[from].elements;
    const int64_t end =
        std::min(elements.end, FirstChunkFrom(elements.begin, layout) *
                                   layout.chunk_elements());
    if (elements.begin >= end) continue;
    const int64_t chunk = elements.begin / layout.chunk_elements();
    size_t to = 0;
    while (chunk < split->stages[to].chunks.begin ||
           chunk >= split->stages[to].chunks.end) {
      ++to;
    }
    parts[{static_cast<int>(from), static_cast<int>(to)}].push_back(
        {elements.begin, end});
  }
  for (size_t p = 0; p < users.size(); ++p) {
    const Parameter& parameter = layout.parameters()[p];
    for (size_t i = 1; i < users[p].size(); ++i) {
      parts[{users[p][i], users[p][i - 1]}].push_back(
          {parameter.offset,
           parameter.offset + parameter.size + parameter.padding});
    }
  }
  for (auto& [stages, elements] : parts) {
    split->parts.push_back({stages.first, stages.second, std::move(elements)});
  }
}

}  // namespace

int64_t StageSplit::Part::bytes() const {
  int64_t count = 0;
  for (const Range& range : elements) count += range.size();
  return count * static_cast<int64_t>(sizeof(float));
}

absl::StatusOr<StageSplit> SplitIntoStages(const Graph& graph,
                                           const ArenaLayout& layout,
                                           const std::vector<int>& cuts) {
  const absl::Status checked = CheckCuts(graph, cuts);
  if (!checked.ok()) return checked;
  StageSplit split;
  split.stages.resize(cuts.size() + 1);
  for (size_t s = 0; s < split.stages.size(); ++s) {
    split.stages[s].begin = s == 0 ? 0 : cuts[s - 1];
    split.stages[s].end =
        s < cuts.size() ? cuts[s] : static_cast<int>(graph.nodes().size());
  }
  const std::vector<std::vector<int>> users =
      UsersOf(graph, StagesOfLayers(split, graph.nodes().size()),
              layout.parameters().size());
  SetElements(users, layout, &split);
  SetReadChunks(users, layout, &split);
  SetParts(users, layout, &split);
  return split;
}

}  // namespace tributary
