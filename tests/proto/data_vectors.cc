#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/sha256.h"
#include "common/job/job.h"
#include "tests/proto/vectors.h"
#include "worker/data/files/data_fingerprint.h"
#include "worker/data/open_data_set.h"
#include "worker/training/training_setup.h"

namespace tributary {
namespace {

template <typename T>
std::string DigestOf(const std::vector<T>& values) {
  return Sha256Hex({reinterpret_cast<const char*>(values.data()),
                    values.size() * sizeof(T)});
}

JobSpec JobOf(const std::string& text) {
  const absl::StatusOr<JobSpec> job = ParseJob(text, "job");
  if (!job.ok()) std::abort();
  return ResolveJob(*job);
}

// `size` bytes, byte i of which is i * 7 mod 251.
std::string Bytes(int size) {
  std::string bytes(size, '\0');
  for (int i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 7 % 251);
  return bytes;
}

// Covers every branch of XXH3: lengths around 16, 128, 240 and 1024, the sizes
// of the files included.
Vectors FingerprintVectors() {
  Vectors list = Vectors::array();
  const auto add = [&list](const std::vector<std::string>& files) {
    const std::vector<absl::string_view> views(files.begin(), files.end());
    Vectors sizes = Vectors::array();
    for (const std::string& file : files) sizes.push_back(file.size());
    list.push_back({{"sizes", sizes},
                    {"fingerprint", absl::StrCat(DataFingerprint(views))}});
  };
  for (const int size : {0, 1, 8, 100, 200, 232, 233, 1000, 1016, 1017, 5000}) {
    add({Bytes(size)});
  }
  add({Bytes(300), ""});
  add({"", Bytes(300)});
  add({Bytes(100), Bytes(200), Bytes(3000), Bytes(7)});
  return list;
}

Vectors RandomVectors() {
  Vectors list = Vectors::array();
  for (const char* text :
       {"model { mlp {} } batch { global: 8 }"
        "data { random { samples: 20 shape: 5 classes: 3 } }",
        "model { cnn {} } batch { global: 8 }"
        "data { random { samples: 20 shape: [3, 4, 4] } }",
        "model { gpt { context: 16 } } batch { global: 8 }"
        "data { random { samples: 20 } }"}) {
    const absl::StatusOr<std::unique_ptr<DataSet>> data =
        OpenDataSet(JobOf(text));
    if (!data.ok()) std::abort();
    Batch batch;
    std::vector<int64_t> all(20);
    for (int i = 0; i < 20; ++i) all[i] = i;
    (*data)->ReadTrain(/*epoch=*/0, all, &batch);
    list.push_back(
        {{"job", text},
         {"first_features",
          HexOf(batch.features.data(), batch.features.empty() ? 0 : 4)},
         {"first_labels",
          std::vector<int32_t>(batch.labels.begin(), batch.labels.begin() + 4)},
         {"features_sha256", DigestOf(batch.features)},
         {"tokens_sha256", DigestOf(batch.tokens)},
         {"labels_sha256", DigestOf(batch.labels)}});
  }
  return list;
}

Vectors FactsVectors(const std::string& testdata) {
  const std::string csv =
      absl::StrCat("data { csv { train: '", testdata, "/rows.csv' test: '",
                   testdata, "/rows.test.csv' } } model { mlp {} } ");
  Vectors list = Vectors::array();
  for (const std::string& text :
       {csv + "batch { global: 32 } epochs: 2.5",
        csv + "batch { global: 64 micro_batches: 2 } steps: 7",
        csv + "batch { global: 32 } steps: 7 evaluation { batch: 5 }",
        csv + "batch { global: 32 } steps: 7 evaluation { disabled: true }",
        std::string("data { random { samples: 100 shape: 5 } } model { mlp {} }"
                    "batch { global: 48 micro_batches: 16 } epochs: 0.01")}) {
    const JobSpec job = JobOf(text);
    const auto setup = TrainingSetup::Create(job, /*threads=*/1);
    if (!setup.ok()) std::abort();
    const DataFacts& facts = (*setup)->facts();
    std::string shown = text;
    const size_t at = shown.find(testdata);
    if (at != std::string::npos) {
      for (size_t i = at; i != std::string::npos; i = shown.find(testdata)) {
        shown.replace(i, testdata.size() + 1, "");
      }
    }
    list.push_back({{"job", shown},
                    {"micro_batches", job.batch().micro_batches()},
                    {"evaluation_batch", job.evaluation().batch()},
                    {"train_samples", facts.train_samples()},
                    {"steps_per_epoch", facts.steps_per_epoch()},
                    {"steps", facts.steps()},
                    {"evaluation_pieces", facts.evaluation_pieces()},
                    {"fingerprint", absl::StrCat(facts.fingerprint())},
                    {"unit", facts.unit()},
                    {"sampler", facts.sampler()}});
  }
  return list;
}

}  // namespace

Vectors DataVectors(const std::string& testdata) {
  return {{"fingerprints", FingerprintVectors()},
          {"random", RandomVectors()},
          {"facts", FactsVectors(testdata)}};
}

}  // namespace tributary
