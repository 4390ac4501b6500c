#include "worker/nn/network_structure.h"

#include <cstddef>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace tributary {
namespace {

using Range = NetworkStructure::Range;
using Segment = NetworkStructure::Segment;

// Bytes of parameters per segment. With smaller segments, large networks queue
// nearly as many captures as operations. With larger ones, less of the exchange
// of weights and gradients (a millisecond at 4 GB/s) overlaps with computation.
constexpr int64_t kSegmentBytes = int64_t{4} << 20;

std::vector<Range> FindGaps(const ArenaLayout& layout) {
  std::vector<Range> gaps;
  const std::vector<Parameter>& parameters = layout.parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    const int64_t begin = parameters[i].offset + parameters[i].size;
    const int64_t end = i + 1 < parameters.size() ? parameters[i + 1].offset
                                                  : layout.arena_elements();
    if (begin < end) gaps.push_back({begin, end});
  }
  return gaps;
}

// Returns the ranges of the weights that forward of the segment reads.
std::vector<Range> WeightsOf(const Segment& segment, const Graph& graph,
                             const ArenaLayout& layout) {
  std::set<int> needed;
  for (int i = segment.begin; i < segment.end; ++i) {
    needed.insert(graph.nodes()[i].parameters.begin(),
                  graph.nodes()[i].parameters.end());
  }
  std::vector<Range> ranges;
  int last = -1;
  for (const int number : needed) {
    const Parameter& parameter = layout.parameters()[number];
    const int64_t stop = parameter.offset + parameter.size + parameter.padding;
    if (!ranges.empty() && number == last + 1) {
      ranges.back().end = stop;
    } else {
      ranges.push_back({parameter.offset, stop});
    }
    last = number;
  }
  return ranges;
}

// Sets Segment::frozen.
void FindFrozen(const Graph& graph, const ArenaLayout& layout,
                std::vector<Segment>* segments) {
  int final_before = static_cast<int>(layout.parameters().size());
  for (auto segment = segments->rbegin(); segment != segments->rend();
       ++segment) {
    if (segment->ready_parameter < 0) continue;
    for (int i = segment->ready_parameter; i < final_before; ++i) {
      if (graph.frozen().count(i) == 0) continue;
      const Parameter& parameter = layout.parameters()[i];
      segment->frozen.push_back(
          {parameter.offset, parameter.offset + parameter.size});
    }
    final_before = segment->ready_parameter;
  }
}

std::vector<Segment> FindSegments(const Graph& graph, const ArenaLayout& layout,
                                  const NetworkPlan& plan, bool captures) {
  std::vector<Segment> segments;
  const int count = static_cast<int>(graph.nodes().size());
  int64_t bytes = 0;
  Segment segment;
  for (int i = 0; i < count; ++i) {
    for (const int parameter : graph.nodes()[i].parameters) {
      bytes += layout.parameters()[parameter].size * int64_t{sizeof(float)};
    }
    // The first layer's gradients become final last.
    if (segment.ready_parameter < 0) {
      segment.ready_parameter = plan.nodes[i].ready_parameter;
    }
    segment.end = i + 1;
    if (captures && bytes < kSegmentBytes && i + 1 < count) continue;
    segment.weights = WeightsOf(segment, graph, layout);
    segments.push_back(std::move(segment));
    segment = Segment();
    segment.begin = i + 1;
    bytes = 0;
  }
  FindFrozen(graph, layout, &segments);
  return segments;
}

}  // namespace

absl::StatusOr<NetworkStructure> NetworkStructure::Create(
    Graph graph, int64_t max_samples, const Device& device) {
  TRIBUTARY_RETURN_IF_ERROR(graph.status());
  if (graph.nodes().size() > kStreamsPerMicroBatch) {
    return absl::InvalidArgumentError(
        absl::StrCat("the network has ", graph.nodes().size(),
                     " layers; at most ", kStreamsPerMicroBatch, " work"));
  }
  ParameterTable table = graph.table();
  // Offsets do not depend on this value.
  table.set_chunk_elements(int64_t{1} << 20);
  TRIBUTARY_ASSIGN_OR_RETURN(ArenaLayout layout, ArenaLayout::Create(table));
  TRIBUTARY_ASSIGN_OR_RETURN(NetworkPlan plan,
                             PlanNetwork(graph, max_samples, device));
  std::vector<Range> gaps = FindGaps(layout);
  std::vector<Segment> segments =
      FindSegments(graph, layout, plan, device.capture() != nullptr);
  return NetworkStructure{std::move(graph),  max_samples,
                          std::move(layout), std::move(plan),
                          std::move(gaps),   std::move(segments)};
}

}  // namespace tributary
