#include "library/micro_batch_state.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/numerics/philox.h"
#include "worker/nn/step_observer.h"
#include "worker/sparse/row_lookups.h"

namespace tributary {
namespace {

// The layers of one micro-batch have numbers below it; see proto/SAMPLING.md.
constexpr int kMaxLayers = 4096;

std::string NoSuchParameter(int parameter, size_t declared,
                            absl::string_view call) {
  return absl::StrCat(call, " was called for parameter ", parameter,
                      ", but the program has declared ", declared,
                      ": they count from 0");
}

// Returns the size of the largest parameter. Memory of this size serves all
// parameters, so it is never moved, and spans of it stay valid.
size_t LargestSize(const ArenaLayout& layout) {
  int64_t largest = 0;
  for (const Parameter& parameter : layout.parameters()) {
    largest = std::max(largest, parameter.size);
  }
  return static_cast<size_t>(largest);
}

bool Exists(int parameter, const ArenaLayout& layout) {
  return parameter >= 0 &&
         parameter < static_cast<int>(layout.parameters().size());
}

// Writes the vectors of bags. Returns the number of the look-up. Sets
// `*refused` to the error of the program, if there is one. Otherwise, returns
// the error with which the rows did not arrive.
absl::StatusOr<int> LookUpRows(const Work& work, int feature, const Bags& bags,
                               absl::Span<float> vectors,
                               absl::Status* refused) {
  RowLookups* const lookups = work.batch->lookups;
  if (lookups == nullptr) {
    *refused = absl::FailedPreconditionError(
        "LookUp was called, but the job has no tables; declare them in sparse");
    return *refused;
  }
  const RowLookups::Bags feature_bags = {feature, bags.keys, bags.ends};
  const absl::StatusOr<int64_t> elements = lookups->Elements(feature_bags);
  if (!elements.ok()) {
    *refused = elements.status();
  } else if (static_cast<int64_t>(vectors.size()) != *elements) {
    *refused = absl::InvalidArgumentError(
        absl::StrCat("LookUp was called with room for ", vectors.size(),
                     " elements of vectors, expected ", *elements));
  }
  if (!refused->ok()) return *refused;
  return lookups->LookUp(feature_bags, vectors.data());
}

// Returns true if all gradients are finite. `device` has them if it is not
// null.
bool AreFinite(const float* gradients, int64_t elements, Device* device) {
  std::vector<float> copy;
  if (device != nullptr) {
    copy.resize(elements);
    // The trainer reports an error of the device.
    if (!device->CopyToHost(copy.data(), gradients, elements * sizeof(float))
             .ok()) {
      return false;
    }
    gradients = copy.data();
  }
  return std::all_of(gradients, gradients + elements,
                     [](float value) { return std::isfinite(value); });
}

void Zero(float* begin, float* end, Device* device) {
  if (begin == end) return;
  if (device != nullptr) {
    device->Zero(begin, end - begin);
  } else {
    std::fill(begin, end, 0.0f);
  }
}

}  // namespace

MicroBatchState::MicroBatchState(Work* work, const ArenaLayout* layout,
                                 std::function<void(const absl::Status&)> done)
    : work_(work),
      layout_(layout),
      done_(std::move(done)),
      seed_(work->seed),
      step_(work->step),
      number_(work->micro_batch),
      epoch_(work->batch->epoch),
      indexes_(work->batch->indexes),
      on_gpu_(work->device != nullptr),
      gpu_stream_(on_gpu_ ? work->device->stream() : nullptr),
      arrived_(layout->parameters().size()),
      ready_(layout->parameters().size()),
      sent_(static_cast<int>(layout->parameters().size())) {
  int64_t end = layout->arena_elements();
  for (int i = sent_ - 1; i >= 0; --i) {
    Zero(work->gradients->data() + place(i).offset + place(i).size,
         work->gradients->data() + end, work->device);
    end = place(i).offset;
  }
}

void MicroBatchState::Refuse(absl::string_view message) {
  if (!status_.ok()) return;
  status_ = absl::InvalidArgumentError(
      absl::StrCat("micro-batch ", number_, " of step ", step_, ": ", message));
}

bool MicroBatchState::Open(absl::string_view call) {
  if (work_ == nullptr) {
    Refuse(absl::StrCat(call, " was called after Finish"));
  }
  return work_ != nullptr && status_.ok();
}

bool MicroBatchState::Allows(int parameter, absl::string_view call) {
  if (Exists(parameter, *layout_)) return Open(call);
  Refuse(NoSuchParameter(parameter, layout_->parameters().size(), call));
  return false;
}

Random MicroBatchState::random(int layer) {
  if (layer < 0 || layer >= kMaxLayers) {
    Refuse(absl::StrCat("random was called for layer ", layer,
                        ", expected 0 to ", kMaxLayers - 1));
  }
  return Random(seed_, static_cast<uint32_t>(RandomPurpose::kDropout),
                static_cast<uint32_t>(step_),
                static_cast<uint32_t>(number_ * kMaxLayers + layer));
}

absl::Span<const float> MicroBatchState::weights(int parameter) {
  const bool allowed = Allows(parameter, "weights");
  if (!Exists(parameter, *layout_)) return {};
  const Parameter& at = place(parameter);
  if (allowed && !aborted_ && !arrived_[parameter]) {
    arrived_[parameter] = work_->weights->Await(at.offset, at.offset + at.size);
    aborted_ = !arrived_[parameter];
  }
  // On a GPU, the weights of a micro-batch that was given up are any values.
  if (allowed && (!aborted_ || on_gpu_))
    return {work_->weights->data() + at.offset, size_t(at.size)};
  if (on_gpu_) return {};
  zeros_.resize(LargestSize(*layout_));
  return {zeros_.data(), size_t(at.size)};
}

absl::Span<float> MicroBatchState::Spare(int parameter) {
  if (on_gpu_) return {};
  const auto size = static_cast<size_t>(place(parameter).size);
  spare_.resize(LargestSize(*layout_));
  return {spare_.data(), size};
}

absl::Span<float> MicroBatchState::gradient(int parameter) {
  const bool allowed = Allows(parameter, "gradient");
  if (!Exists(parameter, *layout_)) return {};
  if (allowed && ready_[parameter]) {
    Refuse(absl::StrCat("gradient was called after the gradient of ",
                        place(parameter).name, " was ready"));
  }
  if (!allowed || ready_[parameter]) return Spare(parameter);
  return {work_->gradients->data() + place(parameter).offset,
          size_t(place(parameter).size)};
}

int MicroBatchState::LookUp(int feature, const Bags& bags,
                            absl::Span<float> vectors) {
  std::fill(vectors.begin(), vectors.end(), 0.0f);
  if (!Open("LookUp") || aborted_) return 0;
  absl::Status refused;
  const absl::StatusOr<int> look_up =
      LookUpRows(*work_, feature, bags, vectors, &refused);
  if (look_up.ok()) return *look_up;
  if (refused.ok()) {
    aborted_ = true;
    rows_status_ = look_up.status();
  } else {
    Refuse(refused.message());
  }
  return 0;
}

void MicroBatchState::AddGradient(int look_up,
                                  absl::Span<const float> gradient) {
  if (!Open("AddGradient") || aborted_) return;
  RowLookups* const lookups = work_->batch->lookups;
  const absl::Status added =
      lookups == nullptr
          ? absl::FailedPreconditionError("AddGradient needs a job with tables")
          : lookups->AddGradients(look_up, gradient);
  if (!added.ok()) Refuse(added.message());
}

void MicroBatchState::SetSampleCount(int64_t count) {
  if (!Open("SetSampleCount")) return;
  if (backward_) {
    Refuse(
        "SetSampleCount was called after Ready or Add; the sample count is "
        "sent with the gradients, so call it before");
  } else if (count < 0) {
    Refuse(absl::StrCat("SetSampleCount(", count, "): expected 0 or more"));
  } else {
    sample_count_ = count;
  }
}

void MicroBatchState::SetLearningRate(double rate) {
  if (!Open("SetLearningRate")) return;
  if (backward_) {
    Refuse(
        "SetLearningRate was called after Ready or Add; the learning rate is "
        "sent with the gradients, so call it before");
  } else {
    learning_rate_ = rate;
  }
}

void MicroBatchState::BeginBackward() {
  if (std::exchange(backward_, true) || aborted_) return;
  aborted_ = !work_->weights->Await(0, layout_->arena_elements());
  if (aborted_) return;
  if (sample_count_ >= 0) work_->gradients->SetSampleCount(sample_count_);
  if (learning_rate_.has_value()) {
    const absl::Status stated =
        work_->gradients->SetLearningRate(*learning_rate_);
    if (!stated.ok()) Refuse(stated.message());
  }
  work_->observer->OnPhase(StepObserver::Phase::kBackward);
}

void MicroBatchState::Ready(int parameter) {
  if (!Allows(parameter, "Ready")) return;
  if (ready_[parameter]) {
    Refuse(absl::StrCat("the gradient of ", place(parameter).name,
                        " was given twice"));
    return;
  }
  BeginBackward();
  ready_[parameter] = true;
  const int before = sent_;
  while (sent_ > 0 && ready_[sent_ - 1]) --sent_;
  if (sent_ < before && !aborted_) {
    work_->gradients->Ready(place(sent_).offset);
  }
}

void MicroBatchState::Add(int parameter, absl::Span<const float> values) {
  if (!Allows(parameter, "Add")) return;
  const Parameter& at = place(parameter);
  if (static_cast<int64_t>(values.size()) != at.size) {
    Refuse(absl::StrCat("the gradient of ", at.name, " has ", values.size(),
                        " values, expected ", at.size,
                        ", the size of its declared shape"));
    return;
  }
  const absl::Span<float> to = gradient(parameter);
  if (!on_gpu_) {
    std::copy(values.begin(), values.end(), to.begin());
  } else if (!to.empty()) {
    work_->device->CopyFromHost(to.data(), values.data(),
                                values.size() * sizeof(float));
  }
  Ready(parameter);
}

void MicroBatchState::Finish(std::optional<double> loss_sum) {
  if (work_ == nullptr) Refuse("Finish was called twice");
  if (work_ == nullptr) return;
  const auto missing = std::find(ready_.begin(), ready_.end(), false);
  if (missing != ready_.end() && !aborted_) {
    Refuse(absl::StrCat(
        "parameter ", place(missing - ready_.begin()).name,
        " has no gradient; call Ready or Add for every parameter, also if its "
        "gradient is zero, before Finish"));
  } else if (std::isnan(loss_sum.value_or(0)) && !aborted_ &&
             AreFinite(work_->gradients->data(), layout_->arena_elements(),
                       work_->device)) {
    Refuse("the loss is NaN, although all gradients are finite");
  }
  work_->result.loss = loss_sum.value_or(0);
  work_->result.has_loss = loss_sum.has_value();
  End();
}

void MicroBatchState::Leave() {
  if (work_ == nullptr) return;
  if (!aborted_) {
    Refuse(
        "it was not finished; call Finish with the sum of its losses before "
        "continuing");
  }
  End();
}

void MicroBatchState::End() {
  work_ = nullptr;
  if (!status_.ok() || !aborted_) return done_(status_);
  done_(rows_status_.ok() ? absl::AbortedError("the micro-batch was given up")
                          : rows_status_);
}

PieceState::PieceState(Work* work, const ArenaLayout* layout,
                       std::function<void(const absl::Status&)> done)
    : work_(work),
      layout_(layout),
      done_(std::move(done)),
      begin_(work->batch->indexes.front()),
      end_(work->batch->indexes.back() + 1),
      on_gpu_(work->device != nullptr) {}

void PieceState::Refuse(absl::string_view message) {
  if (!status_.ok()) return;
  status_ = absl::InvalidArgumentError(absl::StrCat(
      "evaluation of samples ", begin_, " to ", end_ - 1, ": ", message));
}

absl::Span<const float> PieceState::weights(int parameter) {
  if (!Exists(parameter, *layout_)) {
    Refuse(NoSuchParameter(parameter, layout_->parameters().size(), "weights"));
    return {};
  }
  const Parameter& at = layout_->parameters()[parameter];
  if (work_ != nullptr) {
    return {work_->weights->data() + at.offset, size_t(at.size)};
  }
  Refuse("weights was called after Report");
  if (on_gpu_) return {};
  zeros_.resize(LargestSize(*layout_));
  return {zeros_.data(), size_t(at.size)};
}

void PieceState::LookUp(int feature, const Bags& bags,
                        absl::Span<float> vectors) {
  std::fill(vectors.begin(), vectors.end(), 0.0f);
  if (work_ == nullptr) Refuse("LookUp was called after Report");
  if (!status_.ok() || !rows_status_.ok()) return;
  absl::Status refused;
  const absl::StatusOr<int> look_up =
      LookUpRows(*work_, feature, bags, vectors, &refused);
  if (!refused.ok()) {
    Refuse(refused.message());
  } else {
    rows_status_ = look_up.status();
  }
}

void PieceState::AddMetric(const std::string& name, double sum, double count) {
  if (work_ == nullptr) Refuse("AddMetric was called after Report");
  metrics_.push_back({name, sum, count});
}

void PieceState::Report(double loss_sum, int64_t correct, int64_t count) {
  if (work_ == nullptr) Refuse("Report was called twice");
  if (work_ == nullptr) return;
  if (count < 0 || correct < 0 || correct > count) {
    Refuse(absl::StrCat("Report with ", correct, " correct of ", count,
                        ": expected 0 <= correct <= count"));
  }
  work_->result = {loss_sum, correct, count, /*has_loss=*/true,
                   std::move(metrics_)};
  work_ = nullptr;
  done_(status_.ok() ? rows_status_ : status_);
}

void PieceState::Leave() {
  if (work_ == nullptr) return;
  Refuse("it was not reported; call Report before continuing");
  work_ = nullptr;
  done_(status_);
}

}  // namespace tributary
