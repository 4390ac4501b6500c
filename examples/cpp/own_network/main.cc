// A network of Tributary's layers and one of its own, trained on a data set of
// its own. The program has every command of `tributary`:
//
//   bazel build //examples/cpp/own_network
//   cd examples/cpp/own_network
//   ../../../bazel-bin/examples/cpp/own_network/own_network train
//   spirals.textproto
#include "tributary/main.h"

#include "slope_network.h"
#include "spirals.h"

int main(int argc, char** argv) {
  tributary::ModelRegistry models;
  models.Add("slope_network", &BuildSlopeNetwork);
  tributary::DataRegistry data_sets;
  data_sets.Add("spirals", &OpenSpirals);
  return tributary::Main(argc, argv, models, data_sets);
}
