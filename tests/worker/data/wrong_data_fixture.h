// Valid data of each kind, and the errors expected for data that a test has
// damaged.
#ifndef TRIBUTARY_TESTS_WORKER_DATA_WRONG_DATA_FIXTURE_H_
#define TRIBUTARY_TESTS_WORKER_DATA_WRONG_DATA_FIXTURE_H_

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "tests/worker/data/data_test_util.h"
#include "worker/data/open_data_set.h"

namespace tributary {

inline constexpr char kTrainImages[] = "train-images-idx3-ubyte";
inline constexpr char kTrainLabels[] = "train-labels-idx1-ubyte";
inline constexpr char kTestImages[] = "t10k-images-idx3-ubyte";
inline constexpr char kTestLabels[] = "t10k-labels-idx1-ubyte";

// Write valid data of one kind to `folder`, and return a job that uses the
// data.
inline JobSpec IdxJob(const DataFolder& folder) {
  folder.Write(kTrainImages, IdxImagesFile(2, 2, 2, "12345678"));
  folder.Write(kTrainLabels, IdxLabelsFile({9, 0}));
  folder.Write(kTestImages, IdxImagesFile(1, 2, 2, "abcd"));
  folder.Write(kTestLabels, IdxLabelsFile({3}));
  JobSpec job;
  job.mutable_model()->mutable_mlp();
  job.mutable_data()->mutable_idx()->set_directory(folder.path());
  return job;
}

inline JobSpec CsvJob(const DataFolder& folder) {
  JobSpec job;
  job.mutable_model()->mutable_mlp();
  CsvSpec* csv = job.mutable_data()->mutable_csv();
  csv->set_train(folder.Write("train.csv", "x,y,kind\n1,2,0\n3,4,1\n"));
  csv->set_test(folder.Write("test.csv", "5,6,1\n"));
  return job;
}

inline JobSpec TextJob(const DataFolder& folder) {
  JobSpec job;
  job.mutable_model()->mutable_gpt()->set_context(4);
  job.mutable_data()->mutable_text()->add_path(
      folder.Write("text", std::string(50, 'x')));
  return job;
}

// Invalid data, and the expected error.
struct WrongData {
  std::string name;
  // Writes the files to a folder and returns the job.
  std::function<JobSpec(const DataFolder&)> make;
  absl::StatusCode code;
  // Texts that the message must contain. `DIR` stands for the path of the
  // folder.
  std::vector<std::string> pieces;
};

inline void PrintTo(const WrongData& test, std::ostream* stream) {
  *stream << test.name;
}

// Returns a function that creates a valid job with `make`, and then applies
// `change` to its folder and to the job.
template <typename Make, typename Change>
std::function<JobSpec(const DataFolder&)> Changed(Make make, Change change) {
  return [make, change](const DataFolder& folder) {
    JobSpec job = make(folder);
    change(folder, &job);
    return job;
  };
}

class WrongDataTest : public testing::TestWithParam<WrongData> {
 public:
  static std::string NameOf(const testing::TestParamInfo<WrongData>& info) {
    return info.param.name;
  }

 protected:
  // Expects that OpenDataSet returns the error that `test` describes.
  static void ExpectRefused(const WrongData& test) {
    const DataFolder folder;
    const auto data = OpenDataSet(test.make(folder));
    EXPECT_EQ(data.status().code(), test.code) << data.status();
    for (std::string piece : test.pieces) {
      for (size_t at; (at = piece.find("DIR")) != std::string::npos;) {
        piece.replace(at, 3, folder.path());
      }
      EXPECT_THAT(std::string(data.status().message()),
                  testing::HasSubstr(piece));
    }
  }
};

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_WORKER_DATA_WRONG_DATA_FIXTURE_H_
