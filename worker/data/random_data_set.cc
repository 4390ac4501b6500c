#include "worker/data/random_data_set.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

#include "common/numerics/philox.h"

namespace tributary {
namespace {

// Numbers of the generator's streams.
constexpr uint32_t kInputs = 0;
constexpr uint32_t kLabels = 1;
constexpr uint32_t kPredicted = 2;

// Not keyed by the job's seed: the samples are the same for every job.
uint32_t Draw(uint32_t what, int64_t index) {
  const RandomStream stream = {/*seed=*/0, RandomPurpose::kMadeUpData, what, 0};
  return stream.Block(static_cast<uint64_t>(index) / 4)[index % 4];
}

void FillIntegers(uint32_t what, int64_t count, int64_t bound,
                  std::vector<int32_t>* values) {
  values->resize(count);
  for (int64_t i = 0; i < count; ++i) {
    (*values)[i] = static_cast<int32_t>(Draw(what, i) % bound);
  }
}

// Leaves labels only at tokens that are to be predicted. The first token of
// each sample is always predicted, so that every sample counts.
void MaskLabels(double probability, int64_t context,
                std::vector<int32_t>* labels) {
  for (size_t i = 0; i < labels->size(); ++i) {
    if (i % context == 0) continue;
    if (UniformFloat(Draw(kPredicted, i)) >= static_cast<float>(probability)) {
      (*labels)[i] = -1;
    }
  }
}

template <typename T>
void Gather(const std::vector<T>& from, int64_t samples,
            absl::Span<const int64_t> indexes, std::vector<T>* to) {
  const int64_t size = static_cast<int64_t>(from.size()) / samples;
  to->resize(indexes.size() * size);
  for (size_t i = 0; i < indexes.size(); ++i) {
    std::copy_n(from.begin() + indexes[i] * size, size, to->begin() + i * size);
  }
}

}  // namespace

RandomDataSet::RandomDataSet(const JobSpec& job) {
  const RandomSpec& spec = job.data().random();
  all_.samples = spec.samples();
  if (job.model().has_gpt()) {
    const int64_t context = job.model().gpt().context();
    info_.kind = DataInfo::Kind::kTokens;
    info_.sample_shape = {context};
    info_.classes = job.model().gpt().vocabulary();
    FillIntegers(kInputs, all_.samples * context, info_.classes, &all_.tokens);
    FillIntegers(kLabels, all_.samples * context, info_.classes, &all_.labels);
    return;
  }
  if (job.model().has_bert()) {
    FillSequences(job);
    return;
  }
  if (job.model().has_synthetic()) {
    info_.sample_shape = {0};
    all_.labels.resize(all_.samples);
    return;
  }
  info_.kind =
      spec.shape_size() == 3 ? DataInfo::Kind::kImages : DataInfo::Kind::kRows;
  info_.sample_shape.assign(spec.shape().begin(), spec.shape().end());
  info_.classes = spec.classes();
  const int64_t features =
      std::accumulate(spec.shape().begin(), spec.shape().end(), int64_t{1},
                      std::multiplies<int64_t>());
  all_.features.resize(all_.samples * features);
  for (size_t i = 0; i < all_.features.size(); ++i) {
    all_.features[i] = 2 * UniformFloat(Draw(kInputs, i)) - 1;
  }
  FillIntegers(kLabels, all_.samples, info_.classes, &all_.labels);
}

void RandomDataSet::FillSequences(const JobSpec& job) {
  const BertSpec& bert = job.model().bert();
  info_.kind = DataInfo::Kind::kSequences;
  info_.sample_shape = {bert.context()};
  info_.vocabulary = bert.vocabulary();
  info_.token_types = 1;
  info_.token_labels = bert.head() == BertSpec::MASKED_LANGUAGE_MODEL;
  info_.classes =
      info_.token_labels ? bert.vocabulary() : job.data().random().classes();
  const int64_t tokens = all_.samples * bert.context();
  FillIntegers(kInputs, tokens, info_.vocabulary, &all_.tokens);
  all_.token_types.assign(tokens, 0);
  all_.lengths.assign(all_.samples, static_cast<int32_t>(bert.context()));
  FillIntegers(kLabels, info_.token_labels ? tokens : all_.samples,
               info_.classes, &all_.labels);
  if (info_.token_labels) {
    MaskLabels(bert.mask_probability(), bert.context(), &all_.labels);
  }
}

uint64_t RandomDataSet::fingerprint() const { return all_.samples; }

void RandomDataSet::ReadTrain(int64_t /*epoch*/,
                              absl::Span<const int64_t> indexes,
                              Batch* batch) const {
  batch->samples = static_cast<int64_t>(indexes.size());
  Gather(all_.features, all_.samples, indexes, &batch->features);
  Gather(all_.tokens, all_.samples, indexes, &batch->tokens);
  Gather(all_.token_types, all_.samples, indexes, &batch->token_types);
  Gather(all_.lengths, all_.samples, indexes, &batch->lengths);
  Gather(all_.labels, all_.samples, indexes, &batch->labels);
  batch->values.clear();
}

void RandomDataSet::ReadEvaluation(int64_t /*begin*/, int64_t /*end*/,
                                   Batch* batch) const {
  *batch = Batch();
}

}  // namespace tributary
