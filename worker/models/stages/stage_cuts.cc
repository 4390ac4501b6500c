#include "worker/models/stages/stage_cuts.h"

#include <algorithm>
#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/text/nearest.h"
#include "worker/nn/network_cuts.h"

namespace tributary {
namespace {

// A line lists at most so many layers.
constexpr size_t kListedLayers = 12;

template <typename... Parts>
absl::Status SplitError(const Parts&... parts) {
  return absl::InvalidArgumentError(
      absl::StrCat("parallel.pipeline.split: ", parts...));
}

// Returns "; a stage may begin with a, b, c", for `name`, with which none may.
std::string MayBeginWith(const std::string& name, const Graph& graph) {
  const std::vector<bool> allowed = CutsBetweenParameters(graph);
  std::vector<std::string> names;
  for (size_t i = 0; i < allowed.size(); ++i) {
    if (allowed[i]) names.push_back(graph.nodes()[i].name);
  }
  if (names.empty()) return "; the model cannot be divided";
  const std::string near = DidYouMean(name, names);
  if (!near.empty()) return near;
  const size_t left_out = names.size() - std::min(names.size(), kListedLayers);
  names.resize(names.size() - left_out);
  return absl::StrCat(
      "; a stage may begin with ", absl::StrJoin(names, ", "),
      left_out == 0 ? "" : absl::StrCat(" and ", left_out, " others"));
}

bool HasParameters(const Graph& graph, int begin, int end) {
  return std::any_of(
      graph.nodes().begin() + begin, graph.nodes().begin() + end,
      [](const Graph::Node& node) { return !node.parameters.empty(); });
}

}  // namespace

std::vector<bool> CutsBetweenParameters(const Graph& graph) {
  std::vector<bool> cuts = AllowedCuts(graph);
  bool found = false;  // Parameters, between a layer and the next cut.
  for (size_t i = cuts.size(); i-- > 0;) {
    found = found || !graph.nodes()[i].parameters.empty();
    if (i == 0 || !cuts[i]) continue;
    cuts[i] = found;
    found = false;
  }
  if (found) return cuts;
  const auto first = std::find(cuts.begin(), cuts.end(), true);
  if (first != cuts.end()) *first = false;
  return cuts;
}

absl::StatusOr<std::vector<int>> NamedCuts(const PipelineSpec& spec,
                                           const Graph& graph) {
  const std::vector<Graph::Node>& nodes = graph.nodes();
  const std::vector<bool> allowed = AllowedCuts(graph);
  std::vector<int> cuts;
  int begin = 0;
  for (const std::string& name : spec.split()) {
    const auto found = std::find_if(
        nodes.begin(), nodes.end(),
        [&](const Graph::Node& node) { return node.name == name; });
    if (found == nodes.end()) {
      return SplitError("the model has no layer ", name,
                        MayBeginWith(name, graph));
    }
    const int cut = static_cast<int>(found - nodes.begin());
    if (cut == 0) {
      return SplitError(name,
                        " is the model's first layer, with which stage 0 "
                        "begins; name the first layers of the others",
                        MayBeginWith(name, graph));
    }
    if (cut <= begin) {
      return SplitError(name, " is not behind ", nodes[begin].name,
                        ", which is named before it; name the layers in the "
                        "order of the model, each once");
    }
    if (!allowed[cut]) {
      return SplitError("a stage cannot begin with ", name,
                        ", because it is computed together with ",
                        nodes[cut - 1].name, MayBeginWith(name, graph));
    }
    if (!HasParameters(graph, begin, cut)) {
      return SplitError("the stage that ends before ", name,
                        " has no parameters", MayBeginWith(name, graph));
    }
    cuts.push_back(cut);
    begin = cut;
  }
  if (begin > 0 &&
      !HasParameters(graph, begin, static_cast<int>(nodes.size()))) {
    return SplitError("the stage that begins with ", nodes[begin].name,
                      " has no parameters",
                      MayBeginWith(nodes[begin].name, graph));
  }
  return cuts;
}

absl::Status CheckStages(const PipelineSpec& spec, const Graph& graph) {
  const std::vector<bool> cuts = CutsBetweenParameters(graph);
  const auto possible = 1 + std::count(cuts.begin(), cuts.end(), true);
  if (spec.stages() > possible) {
    return absl::InvalidArgumentError(
        absl::StrCat("parallel.pipeline.stages is ", spec.stages(),
                     ", but the model can be divided into at most ", possible,
                     " stages with parameters; reduce it"));
  }
  return NamedCuts(spec, graph).status();
}

}  // namespace tributary
