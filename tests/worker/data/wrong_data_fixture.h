// Valid data of each kind, and the errors expected for data that a test has
// damaged.
#ifndef TRIBUTARY_TESTS_WORKER_DATA_WRONG_DATA_FIXTURE_H_
#define TRIBUTARY_TESTS_WORKER_DATA_WRONG_DATA_FIXTURE_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_replace.h"
#include "common/job/job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "tests/support/status_matchers.h"
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

// Writes files to a folder and returns the job that uses them.
using MakeData = std::function<JobSpec(const DataFolder&)>;

// Returns a function that creates valid data and a job with `make`, and then
// writes `bytes` to a file of the folder.
inline MakeData With(const MakeData& make, const std::string& file,
                     const std::string& bytes) {
  return [=](const DataFolder& folder) {
    const JobSpec job = make(folder);
    folder.Write(file, bytes);
    return job;
  };
}

// The same, but then makes a change of the form path=value to the job. "DIR" in
// the change stands for the path of the folder.
inline MakeData Set(const MakeData& make, const std::string& change) {
  return [=](const DataFolder& folder) {
    JobSpec job = make(folder);
    EXPECT_EQ(
        SetField(&job, absl::StrReplaceAll(change, {{"DIR", folder.path()}})),
        absl::OkStatus());
    return job;
  };
}

// Invalid data, and what the message must contain: the file or field, and the
// place or value. "DIR" stands for the path of the folder.
struct WrongData {
  MakeData make;
  std::vector<std::string> names;
};

// Expects that OpenDataSet refuses each of `cases` with `code`.
inline void ExpectRefused(
    const std::vector<WrongData>& cases,
    absl::StatusCode code = absl::StatusCode::kInvalidArgument) {
  for (const WrongData& wrong : cases) {
    const DataFolder folder;
    const auto data = OpenDataSet(wrong.make(folder));
    for (const std::string& name : wrong.names) {
      EXPECT_THAT(data, StatusIs(code, testing::HasSubstr(absl::StrReplaceAll(
                                           name, {{"DIR", folder.path()}}))));
    }
  }
}

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_WORKER_DATA_WRONG_DATA_FIXTURE_H_
