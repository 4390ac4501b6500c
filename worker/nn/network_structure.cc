#include "worker/nn/network_structure.h"

#include <algorithm>
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

// Returns the parameters, [begin, end), that a layer of the part uses first.
// They are consecutive, because the table lists them in this order.
std::pair<size_t, size_t> FirstUsed(const Graph& graph,
                                    const NetworkPlan& plan) {
  size_t begin = 0;
  size_t end = 0;
  for (int i = 0; i < plan.end; ++i) {
    if (i == plan.begin) begin = end;
    for (const int parameter : graph.nodes()[i].parameters) {
      end = std::max(end, static_cast<size_t>(parameter) + 1);
    }
  }
  return {begin, end};
}

Range ElementsOf(std::pair<size_t, size_t> parameters,
                 const ArenaLayout& layout) {
  const auto begin_of = [&](size_t parameter) {
    return parameter < layout.parameters().size()
               ? layout.parameters()[parameter].offset
               : layout.arena_elements();
  };
  return {begin_of(parameters.first), begin_of(parameters.second)};
}

std::vector<Range> FindBorrowed(const Graph& graph, const NetworkPlan& plan,
                                const ArenaLayout& layout, size_t first_used) {
  std::set<int> numbers;
  for (int i = plan.begin; i < plan.end; ++i) {
    for (const int parameter : graph.nodes()[i].parameters) {
      if (static_cast<size_t>(parameter) < first_used)
        numbers.insert(parameter);
    }
  }
  std::vector<Range> borrowed;
  for (const int number : numbers) {
    const Parameter& parameter = layout.parameters()[number];
    borrowed.push_back({parameter.offset,
                        parameter.offset + parameter.size + parameter.padding});
  }
  return borrowed;
}

std::vector<Range> FindGaps(const ArenaLayout& layout,
                            std::pair<size_t, size_t> range) {
  std::vector<Range> gaps;
  const std::vector<Parameter>& parameters = layout.parameters();
  for (size_t i = range.first; i < range.second; ++i) {
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

// Sets Segment::frozen. `end` is the end of the part's parameters.
void FindFrozen(const Graph& graph, const ArenaLayout& layout, size_t end,
                std::vector<Segment>* segments) {
  int final_before = static_cast<int>(end);
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
  int64_t bytes = 0;
  size_t group = 0;
  Segment segment;
  segment.begin = plan.begin;
  for (int i = plan.begin; i < plan.end; ++i) {
    for (const int parameter : graph.nodes()[i].parameters) {
      bytes += layout.parameters()[parameter].size * int64_t{sizeof(float)};
    }
    // The first layer's gradients become final last.
    if (segment.ready_parameter < 0) {
      segment.ready_parameter = plan.nodes[i].ready_parameter;
    }
    segment.end = i + 1;
    const bool ends_group = segment.end == plan.groups[group];
    if (ends_group) ++group;
    if (captures && bytes < kSegmentBytes && !ends_group) continue;
    segment.weights = WeightsOf(segment, graph, layout);
    segments.push_back(std::move(segment));
    segment = Segment();
    segment.begin = i + 1;
    bytes = 0;
  }
  return segments;
}

}  // namespace

absl::StatusOr<NetworkStructure> NetworkStructure::Create(
    Graph graph, int64_t max_samples, const Device& device,
    const NetworkPart& part) {
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
                             PlanNetwork(graph, max_samples, device, part));
  const std::pair<size_t, size_t> parameters = FirstUsed(graph, plan);
  const Range elements = ElementsOf(parameters, layout);
  std::vector<Range> borrowed =
      FindBorrowed(graph, plan, layout, parameters.first);
  std::vector<Range> gaps = FindGaps(layout, parameters);
  std::vector<Segment> segments =
      FindSegments(graph, layout, plan, device.capture() != nullptr);
  FindFrozen(graph, layout, parameters.second, &segments);
  return NetworkStructure{std::move(graph),
                          max_samples,
                          std::move(layout),
                          std::move(plan),
                          part,
                          elements,
                          std::move(borrowed),
                          std::move(gaps),
                          std::move(segments)};
}

}  // namespace tributary
