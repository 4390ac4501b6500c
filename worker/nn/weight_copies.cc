#include "worker/nn/weight_copies.h"

#include <cstddef>

#include "common/base/status_macros.h"
#include "worker/device/reals.h"
#include "worker/nn/plan/tensor_memory.h"

namespace tributary {
namespace {

// Offsets of the copies in bytes, by parameter; -1 if there is none.
struct Places {
  std::vector<int64_t> offsets;
  std::vector<int64_t> elements;
  int64_t total = 0;
};

// Number of elements that products read.
int64_t ElementsOf(const Graph::Node& node, const ArenaLayout& layout) {
  int64_t elements = 0;
  for (int i = 0; i < node.spec.product_parameters; ++i) {
    const Parameter& parameter = layout.parameters()[node.parameters[i]];
    elements += parameter.size + parameter.padding;
  }
  return elements;
}

Places PlaceCopies(const Graph& graph, const ArenaLayout& layout,
                   const Device& device, const NetworkPart& part) {
  Places places;
  places.offsets.assign(layout.parameters().size(), -1);
  places.elements.assign(layout.parameters().size(), 0);
  if (device.precision() == Precision::kFloat32) return places;
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const Graph::Node& node = graph.nodes()[i];
    if (!node.spec.product_weight || !part.Contains(static_cast<int>(i))) {
      continue;
    }
    const int parameter = node.parameters[0];
    if (places.offsets[parameter] >= 0) continue;
    places.offsets[parameter] = places.total;
    places.elements[parameter] = ElementsOf(node, layout);
    const int64_t bytes = places.elements[parameter] * device.real_bytes();
    places.total += RoundUp(bytes, kTensorAlignment);
  }
  return places;
}

}  // namespace

int64_t WeightCopies::BytesOf(const Graph& graph, const ArenaLayout& layout,
                              const Device& device, const NetworkPart& part) {
  return PlaceCopies(graph, layout, device, part).total;
}

absl::Status WeightCopies::Prepare(const Graph& graph,
                                   const ArenaLayout& layout, Device* device,
                                   const NetworkPart& part) {
  const Places places = PlaceCopies(graph, layout, *device, part);
  if (places.total == 0 || !copies_.empty()) return absl::OkStatus();
  TRIBUTARY_ASSIGN_OR_RETURN(
      memory_, device->Allocate(static_cast<size_t>(places.total)));
  memory_bytes_ = places.total;
  for (size_t i = 0; i < places.offsets.size(); ++i) {
    Copy& copy = *copies_.emplace_back(std::make_unique<Copy>());
    if (places.offsets[i] < 0) continue;
    copy.size = places.elements[i];
    copy.place = reinterpret_cast<Real*>(static_cast<char*>(memory_.get()) +
                                         places.offsets[i]);
  }
  return absl::OkStatus();
}

void WeightCopies::Renew() {
  for (const auto& copy : copies_) {
    absl::MutexLock lock(&copy->mu);
    copy->made = false;
  }
}

const Real* WeightCopies::Get(Device* device, int parameter,
                              const float* from) {
  if (device->precision() == Precision::kFloat32) return AsReals(from);
  Copy& copy = *copies_[parameter];
  absl::MutexLock lock(&copy.mu);
  if (!copy.made) {
    device->ops().elementwise->Round({copy.size, from, copy.place});
    copy.made = true;
  }
  return copy.place;
}

}  // namespace tributary
