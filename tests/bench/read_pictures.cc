// Measures how many training pictures a thread reads in a second:
//   read_pictures FOLDER SECONDS
// Decodes JPEG files in FOLDER/CLASS, cuts a random rectangle out, scales it to
// 224 x 224, mirrors and normalizes. Prints pictures per second of processor
// time. Used by images_per_second.py.
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>

#include "worker/data/image_data_set.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: read_pictures FOLDER SECONDS\n");
    return 2;
  }
  tributary::ImagesSpec spec;
  spec.add_train(argv[1]);
  spec.set_height(224);
  spec.set_width(224);
  spec.mutable_augmentation()->mutable_resized_crop();
  spec.mutable_augmentation()->set_flip_probability(0.5);
  for (const double mean : {0.485, 0.456, 0.406}) spec.add_mean(mean);
  for (const double d : {0.229, 0.224, 0.225}) spec.add_deviation(d);
  const auto data =
      tributary::ImageDataSet::Open(spec, /*seed=*/1, /*threads=*/1);
  if (!data.ok()) {
    fprintf(stderr, "%s\n", data.status().ToString().c_str());
    return 1;
  }
  // Of the processor, because other programs may run beside this one.
  const auto seconds = [] {
    return static_cast<double>(clock()) / CLOCKS_PER_SEC;
  };
  const double limit = atof(argv[2]);
  const double start = seconds();
  int64_t count = 0;
  tributary::Batch batch;
  while (seconds() - start < limit) {
    const int64_t samples = (*data)->train_samples();
    (*data)->ReadTrain(count / samples, {count % samples}, &batch);
    if (!batch.error.ok()) {
      fprintf(stderr, "%s\n", batch.error.ToString().c_str());
      return 1;
    }
    ++count;
  }
  printf("%.2f\n", static_cast<double>(count) / (seconds() - start));
  return 0;
}
