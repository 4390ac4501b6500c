#include "worker/device/cpu/kernels/convolution_runner.h"

#include <cstdint>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "oneapi/dnnl/dnnl.hpp"
#include "worker/device/cpu/products/one_thread.h"

namespace tributary::cpu {
namespace {

using dnnl::memory;

// Models have far fewer layers; evaluation adds one shape per layer for a short
// last batch. If there are more, all plans are discarded and made again, which
// takes milliseconds.
constexpr size_t kMaximumPlans = 64;

constexpr memory::data_type kFloat32 = memory::data_type::f32;

memory::desc Any(const memory::dims& dims, memory::data_type type) {
  return {dims, type, memory::format_tag::any};
}

memory::desc Plain(const memory::dims& dims, memory::data_type type) {
  static constexpr memory::format_tag kTags[] = {
      memory::format_tag::undef, memory::format_tag::a, memory::format_tag::ab,
      memory::format_tag::abc, memory::format_tag::abcd};
  return {dims, type, kTags[dims.size()]};
}

// Selects caller-provided scratchpads: the library's own belong to the thread
// that created the primitive, and crash on any other.
dnnl::primitive_attr OwnScratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

// The temporary tensors of one pass: their places in memory that all passes
// share. No two tensors of one pass overlap.
class Workspace {
 public:
  // Adds a tensor. It has an address, with unspecified content, after Bind.
  memory Add(const memory::desc& desc, const dnnl::engine& engine) {
    const memory tensor(desc, engine, nullptr);
    tensors_.push_back({tensor, floats_});
    const auto bytes = static_cast<int64_t>(desc.get_size());
    floats_ += (bytes + kAlignmentBytes - 1) / kAlignmentBytes *
               (kAlignmentBytes / int64_t{sizeof(float)});
    return tensor;
  }

  // Places the tensors in `scratch`, until the next pass uses it.
  void Bind(Scratch* scratch) const {
    if (floats_ == 0) return;
    float* const floats = scratch->Floats(floats_);
    for (const Tensor& tensor : tensors_) {
      tensor.tensor.set_data_handle(floats + tensor.offset);
    }
  }

 private:
  // A cache line, the alignment that the library asks for.
  static constexpr int64_t kAlignmentBytes = 64;

  struct Tensor {
    memory tensor;
    int64_t offset;  // In floats.
  };
  std::vector<Tensor> tensors_;
  int64_t floats_ = 0;
};

// Copies a tensor from one layout to another.
class Reorder {
 public:
  Reorder() = default;
  Reorder(const dnnl::engine& engine, const memory::desc& from,
          const memory::desc& to, Workspace* workspace) {
    const dnnl::reorder::primitive_desc description(engine, from, engine, to,
                                                    OwnScratchpad());
    primitive_ = dnnl::reorder(description);
    scratchpad_ = workspace->Add(description.scratchpad_desc(), engine);
  }

  void Execute(dnnl::stream& stream, const memory& from, const memory& to) {
    primitive_.execute(stream, {{DNNL_ARG_FROM, from},
                                {DNNL_ARG_TO, to},
                                {DNNL_ARG_SCRATCHPAD, scratchpad_}});
  }

 private:
  dnnl::reorder primitive_;
  memory scratchpad_;
};

}  // namespace

// Converts one tensor between the caller's layout and the primitive's. Copies
// nothing if they are equal; otherwise, the copy is in `workspace`.
class Port {
 public:
  Port(const dnnl::engine& engine, const memory::desc& plain,
       const memory::desc& wanted, Workspace* workspace)
      : outside_(plain, engine, nullptr), same_(plain == wanted) {
    if (same_) return;
    inside_ = workspace->Add(wanted, engine);
    in_ = Reorder(engine, plain, wanted, workspace);
    out_ = Reorder(engine, wanted, plain, workspace);
  }

  // Returns the primitive's input: `data` in the required layout.
  memory& Read(dnnl::stream& stream, const void* data) {
    outside_.set_data_handle(const_cast<void*>(data));
    if (same_) return outside_;
    in_.Execute(stream, outside_, inside_);
    return inside_;
  }

  // Returns the memory for the primitive's output. Finish copies it to `data`.
  memory& Write(void* data) {
    outside_.set_data_handle(data);
    return same_ ? outside_ : inside_;
  }
  void Finish(dnnl::stream& stream) {
    if (!same_) out_.Execute(stream, inside_, outside_);
  }

 private:
  memory outside_, inside_;
  bool same_;
  Reorder in_, out_;
};

class ConvolutionPlan {
 public:
  // `scratch` must outlive the plan.
  ConvolutionPlan(const ConvolutionShape& shape, Precision precision,
                  Scratch* scratch);

  void Forward(const void* x, const void* weight, const float* bias, void* y);
  void BackwardInput(const void* dy, const void* weight, void* dx);
  void BackwardWeight(const void* x, const void* dy, float* dweight,
                      float* dbias);

 private:
  struct ForwardPass {
    Workspace workspace;
    dnnl::convolution_forward primitive;
    memory scratchpad;
    Port x, weight, y;
  };
  struct InputPass {
    Workspace workspace;
    dnnl::convolution_backward_data primitive;
    memory scratchpad;
    Port dy, weight, dx;
  };
  struct WeightPass {
    Workspace workspace;
    dnnl::convolution_backward_weights primitive;
    memory scratchpad;
    Port x, dy, dweight;
  };
  using ForwardDescription = dnnl::convolution_forward::primitive_desc;

  ForwardDescription Describe(bool with_bias) const;
  ForwardPass& ForwardFor(bool with_bias);
  WeightPass& WeightFor(bool with_bias);

  memory::desc AnyReal(const memory::dims& dims) const {
    return Any(dims, real_);
  }
  memory::desc PlainReal(const memory::dims& dims) const {
    return Plain(dims, real_);
  }

  const memory::data_type real_;
  Scratch* const scratch_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  memory::dims x_, weight_, bias_, y_, strides_, padding_, padding_end_;
  std::unique_ptr<ForwardPass> forward_[2];  // Without and with bias.
  std::unique_ptr<InputPass> input_;
  std::unique_ptr<WeightPass> weight_pass_[2];
};

ConvolutionPlan::ConvolutionPlan(const ConvolutionShape& s, Precision precision,
                                 Scratch* scratch)
    : real_(precision == Precision::kFloat32 ? kFloat32
                                             : memory::data_type::bf16),
      scratch_(scratch),
      x_{s.batch, s.in_channels, s.in_height, s.in_width},
      weight_{s.out_channels, s.in_channels, s.kernel, s.kernel},
      bias_{s.out_channels},
      y_{s.batch, s.out_channels, s.out_height, s.out_width},
      strides_{s.stride, s.stride},
      padding_{s.padding, s.padding},
      // Extent of the last window beyond the image. Smaller than the padding,
      // possibly negative, if the stride skips pixels.
      padding_end_{
          (s.out_height - 1) * s.stride + s.kernel - s.in_height - s.padding,
          (s.out_width - 1) * s.stride + s.kernel - s.in_width - s.padding} {}

ConvolutionPlan::ForwardDescription ConvolutionPlan::Describe(
    bool with_bias) const {
  const auto kind = dnnl::prop_kind::forward_training;
  const auto algorithm = dnnl::algorithm::convolution_auto;
  using Desc = dnnl::convolution_forward::desc;
  const Desc desc = with_bias
                        ? Desc(kind, algorithm, AnyReal(x_), AnyReal(weight_),
                               Plain(bias_, kFloat32), AnyReal(y_), strides_,
                               padding_, padding_end_)
                        : Desc(kind, algorithm, AnyReal(x_), AnyReal(weight_),
                               AnyReal(y_), strides_, padding_, padding_end_);
  return {desc, OwnScratchpad(), engine_};
}

ConvolutionPlan::ForwardPass& ConvolutionPlan::ForwardFor(bool with_bias) {
  auto& pass = forward_[with_bias];
  if (pass == nullptr) {
    const ForwardDescription d = Describe(with_bias);
    Workspace workspace;
    const memory scratchpad = workspace.Add(d.scratchpad_desc(), engine_);
    Port x(engine_, PlainReal(x_), d.src_desc(), &workspace);
    Port weight(engine_, PlainReal(weight_), d.weights_desc(), &workspace);
    Port y(engine_, PlainReal(y_), d.dst_desc(), &workspace);
    pass.reset(new ForwardPass{std::move(workspace),
                               dnnl::convolution_forward(d), scratchpad,
                               std::move(x), std::move(weight), std::move(y)});
  }
  return *pass;
}

void ConvolutionPlan::Forward(const void* x, const void* weight,
                              const float* bias, void* y) {
  ForwardPass& pass = ForwardFor(bias != nullptr);
  pass.workspace.Bind(scratch_);
  std::unordered_map<int, memory> arguments = {
      {DNNL_ARG_SRC, pass.x.Read(stream_, x)},
      {DNNL_ARG_WEIGHTS, pass.weight.Read(stream_, weight)},
      {DNNL_ARG_DST, pass.y.Write(y)},
      {DNNL_ARG_SCRATCHPAD, pass.scratchpad}};
  if (bias != nullptr) {
    arguments.emplace(DNNL_ARG_BIAS, memory(Plain(bias_, kFloat32), engine_,
                                            const_cast<float*>(bias)));
  }
  pass.primitive.execute(stream_, arguments);
  pass.y.Finish(stream_);
}

void ConvolutionPlan::BackwardInput(const void* dy, const void* weight,
                                    void* dx) {
  if (input_ == nullptr) {
    const dnnl::convolution_backward_data::desc desc(
        dnnl::algorithm::convolution_auto, AnyReal(x_), AnyReal(weight_),
        AnyReal(y_), strides_, padding_, padding_end_);
    const dnnl::convolution_backward_data::primitive_desc d(
        desc, OwnScratchpad(), engine_, Describe(false));
    Workspace workspace;
    const memory scratchpad = workspace.Add(d.scratchpad_desc(), engine_);
    Port dy(engine_, PlainReal(y_), d.diff_dst_desc(), &workspace);
    Port weight(engine_, PlainReal(weight_), d.weights_desc(), &workspace);
    Port dx(engine_, PlainReal(x_), d.diff_src_desc(), &workspace);
    input_.reset(new InputPass{
        std::move(workspace), dnnl::convolution_backward_data(d), scratchpad,
        std::move(dy), std::move(weight), std::move(dx)});
  }
  input_->workspace.Bind(scratch_);
  input_->primitive.execute(
      stream_, {{DNNL_ARG_DIFF_DST, input_->dy.Read(stream_, dy)},
                {DNNL_ARG_WEIGHTS, input_->weight.Read(stream_, weight)},
                {DNNL_ARG_DIFF_SRC, input_->dx.Write(dx)},
                {DNNL_ARG_SCRATCHPAD, input_->scratchpad}});
  input_->dx.Finish(stream_);
}

ConvolutionPlan::WeightPass& ConvolutionPlan::WeightFor(bool with_bias) {
  auto& pass = weight_pass_[with_bias];
  if (pass == nullptr) {
    using Desc = dnnl::convolution_backward_weights::desc;
    const auto algorithm = dnnl::algorithm::convolution_auto;
    const Desc desc = with_bias
                          ? Desc(algorithm, AnyReal(x_), Any(weight_, kFloat32),
                                 Plain(bias_, kFloat32), AnyReal(y_), strides_,
                                 padding_, padding_end_)
                          : Desc(algorithm, AnyReal(x_), Any(weight_, kFloat32),
                                 AnyReal(y_), strides_, padding_, padding_end_);
    const dnnl::convolution_backward_weights::primitive_desc d(
        desc, OwnScratchpad(), engine_, Describe(with_bias));
    Workspace workspace;
    const memory scratchpad = workspace.Add(d.scratchpad_desc(), engine_);
    Port x(engine_, PlainReal(x_), d.src_desc(), &workspace);
    Port dy(engine_, PlainReal(y_), d.diff_dst_desc(), &workspace);
    Port dweight(engine_, Plain(weight_, kFloat32), d.diff_weights_desc(),
                 &workspace);
    pass.reset(new WeightPass{std::move(workspace),
                              dnnl::convolution_backward_weights(d), scratchpad,
                              std::move(x), std::move(dy), std::move(dweight)});
  }
  return *pass;
}

void ConvolutionPlan::BackwardWeight(const void* x, const void* dy,
                                     float* dweight, float* dbias) {
  WeightPass& pass = WeightFor(dbias != nullptr);
  pass.workspace.Bind(scratch_);
  std::unordered_map<int, memory> arguments = {
      {DNNL_ARG_SRC, pass.x.Read(stream_, x)},
      {DNNL_ARG_DIFF_DST, pass.dy.Read(stream_, dy)},
      {DNNL_ARG_DIFF_WEIGHTS, pass.dweight.Write(dweight)},
      {DNNL_ARG_SCRATCHPAD, pass.scratchpad}};
  if (dbias != nullptr) {
    arguments.emplace(DNNL_ARG_DIFF_BIAS,
                      memory(Plain(bias_, kFloat32), engine_, dbias));
  }
  pass.primitive.execute(stream_, arguments);
  pass.dweight.Finish(stream_);
}

ConvolutionRunner::ConvolutionRunner(Precision precision, Scratch* scratch)
    : precision_(precision), scratch_(scratch) {}
ConvolutionRunner::~ConvolutionRunner() = default;

bool ConvolutionRunner::Less::operator()(const ConvolutionShape& a,
                                         const ConvolutionShape& b) const {
  const auto key = [](const ConvolutionShape& s) {
    return std::tie(s.batch, s.in_channels, s.in_height, s.in_width,
                    s.out_channels, s.out_height, s.out_width, s.kernel,
                    s.stride, s.padding);
  };
  return key(a) < key(b);
}

ConvolutionPlan& ConvolutionRunner::PlanFor(const ConvolutionShape& shape) {
  const auto found = plans_.find(shape);
  if (found != plans_.end()) return *found->second;
  if (plans_.size() >= kMaximumPlans) plans_.clear();
  auto& plan = plans_[shape];
  plan = std::make_unique<ConvolutionPlan>(shape, precision_, scratch_);
  return *plan;
}

void ConvolutionRunner::Forward(const ConvolutionShape& shape, const void* x,
                                const void* weight, const float* bias,
                                void* y) {
  const OneThread one_thread;
  PlanFor(shape).Forward(x, weight, bias, y);
}

void ConvolutionRunner::BackwardInput(const ConvolutionShape& shape,
                                      const void* dy, const void* weight,
                                      void* dx) {
  const OneThread one_thread;
  PlanFor(shape).BackwardInput(dy, weight, dx);
}

void ConvolutionRunner::BackwardWeight(const ConvolutionShape& shape,
                                       const void* x, const void* dy,
                                       float* dweight, float* dbias) {
  const OneThread one_thread;
  PlanFor(shape).BackwardWeight(x, dy, dweight, dbias);
}

}  // namespace tributary::cpu
