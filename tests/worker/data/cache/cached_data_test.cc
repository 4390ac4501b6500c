#include "worker/data/cache/cached_data.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/data/data_test_util.h"
#include "tests/worker/data/images/picture_test_util.h"
#include "worker/data/open_data_set.h"

namespace {

// The error of the file system's locks; 0: it has locks.
std::atomic<int> lock_error{0};

}  // namespace

// Takes the place of the C library's.
extern "C" int flock(int file, int operation) noexcept {
  if (lock_error == 0) {
    return static_cast<int>(syscall(SYS_flock, file, operation));
  }
  errno = lock_error;
  return -1;
}

namespace tributary {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// Two numbers, a category, keys, and a label that is a category.
constexpr char kRows[] =
    "user,age,city,tags,income,kind\n"
    "ann,20,rome,a|b,1.5,good\n"
    "bob,30,oslo,,2.25,bad\n"
    "ann,45,rome,c,-3,good\n"
    "eve,5,bonn,a|b|c,0.1,bad\n";

// A line of Criteo's data with one integer and the categories C1 and C26.
std::string Click(int label, int number, const std::string& category) {
  return absl::StrCat(label, "\t", number, std::string(13, '\t'), category,
                      std::string(25, '\t'), "z\n");
}

class CachedDataTest : public testing::Test {
 protected:
  JobSpec Job(const std::string& text) const {
    JobSpec job;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &job));
    return job;
  }
  JobSpec RowsJob(const std::string& more = "") const {
    return Job(absl::StrCat(
        "data { csv { train: '", train_, "' test: '", test_,
        "' category_column: 2 category_column: 5 ",
        "ignored_column: 0 ignored_column: 3 standardize: true } } ", more));
  }

  // Opens the data set as another process does.
  std::unique_ptr<DataSet> Open(const JobSpec& job) {
    const DataOpener open = CacheData(
        [this](const JobSpec& opened) {
          ++decoded_;
          return OpenDataSet(opened);
        },
        {cache_,
         [this](const std::string& text) { warnings_.push_back(text); }});
    auto data = open(job);
    EXPECT_EQ(data.status(), absl::OkStatus());
    return data.ok() ? *std::move(data) : nullptr;
  }

  // Expects the bits of the data set that no files keep, and that this many
  // data sets were decoded to keep them.
  void Expect(const JobSpec& job, int decoded) {
    const auto want = *OpenDataSet(job);
    const auto data = Open(job);
    ASSERT_NE(data, nullptr);
    EXPECT_EQ(decoded_, decoded);
    EXPECT_EQ(data->info().kind, want->info().kind);
    EXPECT_EQ(data->info().sample_shape, want->info().sample_shape);
    EXPECT_EQ(data->info().classes, want->info().classes);
    EXPECT_EQ(data->info().vector_dims, want->info().vector_dims);
    EXPECT_EQ(data->info().vector_names, want->info().vector_names);
    EXPECT_EQ(data->fingerprint(), want->fingerprint());
    EXPECT_EQ(data->encoding(), want->encoding());
    ASSERT_EQ(data->train_samples(), want->train_samples());
    ASSERT_EQ(data->evaluation_samples(), want->evaluation_samples());
    Batch got_batch, want_batch;
    for (int64_t epoch = 0; epoch < 2; ++epoch) {
      std::vector<int64_t> indexes;
      for (int64_t i = 0; i < want->train_samples(); ++i) {
        indexes.push_back(want->train_samples() - 1 - i);
      }
      data->ReadTrain(epoch, indexes, &got_batch);
      want->ReadTrain(epoch, indexes, &want_batch);
      ExpectEqual(got_batch, want_batch);
    }
    data->ReadEvaluation(0, want->evaluation_samples(), &got_batch);
    want->ReadEvaluation(0, want->evaluation_samples(), &want_batch);
    ExpectEqual(got_batch, want_batch);
  }

  static void ExpectEqual(const Batch& got, const Batch& want) {
    EXPECT_EQ(got.error, absl::OkStatus());
    EXPECT_EQ(got.samples, want.samples);
    EXPECT_EQ(got.features, want.features);
    EXPECT_EQ(got.labels, want.labels);
    EXPECT_EQ(got.values, want.values);
    ASSERT_EQ(got.feature_keys.size(), want.feature_keys.size());
    for (size_t i = 0; i < want.feature_keys.size(); ++i) {
      EXPECT_EQ(got.feature_keys[i].keys, want.feature_keys[i].keys);
      EXPECT_EQ(got.feature_keys[i].ends, want.feature_keys[i].ends);
    }
  }

  // Returns the paths of the files of decoded data.
  std::vector<std::string> Files() const {
    std::vector<std::string> files;
    for (const auto& file : std::filesystem::directory_iterator(cache_)) {
      files.push_back(file.path().string());
    }
    return files;
  }

  DataFolder folder_;
  const std::string train_ = folder_.Write("train.csv", kRows);
  const std::string test_ = folder_.Write("test.csv",
                                          "user,age,city,tags,income,kind\n"
                                          "zoe,33,oslo,b,7,good\n");
  std::string cache_ = folder_.PathOf("study/decoded");
  int decoded_ = 0;
  std::vector<std::string> warnings_;
};

constexpr char kSparse[] = R"(
  sparse {
    table { name: 't' dim: 4 }
    feature { column: 'user' table: 't' }
    feature { column: 'tags' table: 't' separator: '|' }
    feature { name: 'both' cross: ['user', 'age'] table: 't' }
  })";

TEST_F(CachedDataTest, RowsHaveTheSameBitsAndAreDecodedOnce) {
  const JobSpec job =
      Job(absl::StrCat("data { csv { train: '", train_, "' test: '", test_,
                       "' category_column: 2 category_column: 5 } }", kSparse));
  Expect(job, 1);
  Expect(job, 1);
  EXPECT_THAT(Files(), SizeIs(1));
  // Rows of numbers only, and with a number to predict.
  JobSpec numbers = RowsJob("model { loss: MEAN_SQUARED_ERROR }");
  CsvSpec* const csv = numbers.mutable_data()->mutable_csv();
  csv->clear_category_column();
  csv->clear_ignored_column();
  for (const int column : {0, 2, 3, 5}) csv->add_ignored_column(column);
  csv->set_label_column(4);
  Expect(numbers, 2);
  Expect(numbers, 2);
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(CachedDataTest, ClicksHaveTheSameBitsAndAreDecodedOnce) {
  const JobSpec job = Job(absl::StrCat(
      "data { criteo { train: '",
      folder_.Write("a.tsv", Click(1, 3, "a") + Click(0, -2, "b")),
      "' train: '", folder_.Write("b.tsv", Click(1, 70, "a")),
      "' } } sparse { ",
      "table { name: 't' dim: 4 } feature { column: 'C1' table: 't' } ",
      "feature { column: 'C26' table: 't' } }"));
  Expect(job, 1);
  Expect(job, 1);
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(CachedDataTest, WhatRowsDoNotDependOnSharesAFile) {
  JobSpec job =
      Job(absl::StrCat("data { csv { train: '", train_, "' test: '", test_,
                       "' category_column: 2 category_column: 5 } }", kSparse));
  job.mutable_model()->mutable_mlp()->add_hidden(8);
  Expect(job, 1);
  job.mutable_model()->mutable_mlp()->set_hidden(0, 16);
  job.mutable_sparse()->mutable_table(0)->set_dim(8);
  job.set_seed(7);
  Expect(job, 1);
  job.mutable_data()->mutable_csv()->set_standardize(true);
  Expect(job, 2);
  job.mutable_sparse()->mutable_feature(0)->set_name("other");
  Expect(job, 3);
  EXPECT_THAT(Files(), SizeIs(3));
}

TEST_F(CachedDataTest, ChangedFilesAreDecodedAgain) {
  // Times of changes have a resolution of some milliseconds.
  for (const std::string& path : {train_, test_}) {
    std::filesystem::last_write_time(
        path,
        std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  }
  Expect(RowsJob(), 1);
  folder_.Write("train.csv", absl::StrCat(kRows, "ann,21,bonn,a,4,good\n"));
  Expect(RowsJob(), 2);
  // A file of the same size.
  folder_.Write("test.csv",
                "user,age,city,tags,income,kind\n"
                "zoe,34,oslo,b,7,good\n");
  Expect(RowsJob(), 3);
  Expect(RowsJob(), 3);
}

TEST_F(CachedDataTest, WhatAKilledProcessHasLeftIsReplaced) {
  Expect(RowsJob(), 1);
  const std::string whole = Files()[0];
  std::filesystem::rename(whole, whole + ".part");
  std::filesystem::resize_file(whole + ".part", 100);
  Expect(RowsJob(), 2);
  EXPECT_THAT(Files(), ElementsAre(whole));
  Expect(RowsJob(), 2);
}

TEST_F(CachedDataTest, OnlyOneProcessWrites) {
  Expect(RowsJob(), 1);
  const std::string whole = Files()[0];
  std::filesystem::rename(whole, whole + ".part");
  const int other = open((whole + ".part").c_str(), O_RDWR);
  ASSERT_EQ(flock(other, LOCK_EX), 0);
  Expect(RowsJob(), 2);
  EXPECT_THAT(Files(), ElementsAre(whole + ".part"));
  EXPECT_EQ(close(other), 0);
  Expect(RowsJob(), 3);
  EXPECT_THAT(Files(), ElementsAre(whole));
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(CachedDataTest, WithoutLocksDataAreDecodedAfterAWarning) {
  int decoded = 0;
  for (const int error : {ENOLCK, EOPNOTSUPP}) {
    lock_error = error;
    warnings_.clear();
    Expect(RowsJob(), ++decoded);
    EXPECT_THAT(warnings_,
                ElementsAre(AllOf(HasSubstr("cannot lock"),
                                  HasSubstr("decodes the data itself"))));
    EXPECT_THAT(Files(), IsEmpty());
  }
  lock_error = 0;
  Expect(RowsJob(), ++decoded);
  EXPECT_THAT(Files(), SizeIs(1));
}

TEST_F(CachedDataTest, DamagedFilesAreNotUsed) {
  Expect(RowsJob(), 1);
  const std::string whole = Files()[0];
  const auto size = std::filesystem::file_size(whole);
  std::string bytes(size, '\0');
  std::ifstream(whole, std::ios::binary)
      .read(bytes.data(), static_cast<std::streamsize>(size));
  int decoded = 1;
  for (const auto rest : {size - 8, size / 2, size_t{16}, size_t{0}}) {
    std::filesystem::resize_file(whole, rest);
    warnings_.clear();
    Expect(RowsJob(), ++decoded);
    EXPECT_THAT(warnings_, ElementsAre(HasSubstr(whole))) << rest;
  }
  // Numbers of the header that do not fit to the rest.
  for (size_t at = 0; at < 80; at += 8) {
    if (at == 32) continue;  // Any number of classes fits.
    std::string wrong = bytes;
    wrong[at + 5] ^= 0x40;
    std::ofstream(whole, std::ios::binary) << wrong;
    Expect(RowsJob(), ++decoded);
  }
}

TEST_F(CachedDataTest, WithoutAFolderDataAreDecodedAfterAWarning) {
  folder_.Write("file", "");
  cache_ = folder_.PathOf("file/decoded");
  Expect(RowsJob(), 1);
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("decodes the data itself")));
  Expect(RowsJob(), 2);
}

TEST_F(CachedDataTest, ErrorsAreThoseOfTheDataSet) {
  const DataOpener open =
      CacheData([](const JobSpec& job) { return OpenDataSet(job); },
                {cache_, [](const std::string&) {}});
  EXPECT_EQ(open(Job("data { csv { train: '/absent.csv' } }")).status(),
            OpenDataSet(Job("data { csv { train: '/absent.csv' } }")).status());
  const std::string wrong =
      absl::StrCat("data { csv { train: '",
                   folder_.Write("wrong.csv", "1,2\n3,x\n"), "' } }");
  EXPECT_THAT(open(Job(wrong)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(":2:")));
  EXPECT_THAT(Files(), IsEmpty());
  // A gpt does not learn from rows, also after another model has.
  Expect(RowsJob(), 1);
  EXPECT_THAT(open(RowsJob("model { gpt {} }")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("gpt")));
}

TEST_F(CachedDataTest, PicturesHaveTheSameBits) {
  std::string tar;
  for (int i = 0; i < 6; ++i) {
    tar += TarFile(absl::StrCat("class", i % 2, "/", i, ".png"),
                   EncodePng(MakePicture(12 + i, 16, 3, i)));
  }
  const JobSpec job = Job(absl::StrCat(
      "seed: 3 data { images { train: '",
      folder_.Write("train.tar", tar + TarEnd()), "' test: '",
      folder_.PathOf("train.tar"), "' height: 8 width: 8 ",
      "augmentation { resized_crop {} flip_probability: 0.5 } } }"));
  Expect(job, 0);
  // The pictures are in files: of the archive, only the hashes are read.
  Expect(job, 0);
  int files = 0;
  for (const std::string& file : Files()) {
    files += absl::StrContains(file, "pictures-") ? 1 : 0;
  }
  EXPECT_GE(files, 2);
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(CachedDataTest, BothPartsTogetherKeepNoMorePicturesThanTheMemoryHolds) {
  const auto tar = [&](const std::string& name, int pictures) {
    std::string bytes;
    for (int i = 0; i < pictures; ++i) {
      bytes += TarFile(absl::StrCat("class", i % 2, "/", i, ".png"),
                       EncodePng(MakePicture(8, 8, 3, i)));
    }
    return folder_.Write(name, bytes + TarEnd());
  };
  const JobSpec job = Job(
      absl::StrCat("data { images { train: '", tar("train.tar", 8), "' test: '",
                   tar("test.tar", 4), "' height: 8 width: 8 } }"));
  constexpr int64_t kPictureBytes = 8 * 8 * 3;
  SharedCache cache;
  cache.folder = cache_;
  cache.warn = [this](const std::string& text) { warnings_.push_back(text); };
  cache.most_picture_bytes = 6 * kPictureBytes;
  const auto data = *CacheData(
      [](const JobSpec& opened) { return OpenDataSet(opened); }, cache)(job);
  Batch batch;
  data->ReadTrain(/*epoch=*/0, {0, 1, 2, 3, 4, 5, 6, 7}, &batch);
  data->ReadEvaluation(0, 4, &batch);
  int64_t bytes = 0;
  for (const std::string& file : Files()) {
    if (!absl::EndsWith(file, ".pixels")) continue;
    bytes += static_cast<int64_t>(std::filesystem::file_size(file));
  }
  EXPECT_EQ(bytes, 6 * kPictureBytes);
  EXPECT_THAT(warnings_, SizeIs(2));
}

}  // namespace
}  // namespace tributary
