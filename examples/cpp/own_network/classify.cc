// Evaluates a trained network and classifies a point:
//
//   classify RUN X Y
#include <cstdio>
#include <cstdlib>
#include <string>

#include "slope_network.h"
#include "spirals.h"
#include "tributary/trained_model.h"

namespace {

using tributary::TrainedModel;

absl::Status Classify(const std::string& run, float x, float y) {
  TrainedModel::Options options;
  options.models.Add("slope_network", &BuildSlopeNetwork);
  options.data_sets.Add("spirals", &OpenSpirals);
  const absl::StatusOr<TrainedModel> model = TrainedModel::Open(run, options);
  if (!model.ok()) return model.status();
  const absl::StatusOr<TrainedModel::Evaluation> evaluation = model->Evaluate();
  if (!evaluation.ok()) return evaluation.status();
  std::printf("loss %.4f, accuracy %.4f\n", evaluation->loss,
              evaluation->accuracy);
  const absl::StatusOr<TrainedModel::Outputs> outputs = model->Predict({x, y});
  if (!outputs.ok()) return outputs.status();
  for (int64_t i = 0; i < outputs->per_sample; ++i) {
    std::printf("class %d: %.4f\n", static_cast<int>(i), outputs->values[i]);
  }
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: classify RUN X Y\n");
    return 2;
  }
  const absl::Status status = Classify(argv[1], std::strtof(argv[2], nullptr),
                                       std::strtof(argv[3], nullptr));
  if (status.ok()) return 0;
  std::fprintf(stderr, "error: %s\n", std::string(status.message()).c_str());
  return 1;
}
