#include "common/tensor_io/tensor_files.h"

#include <sys/stat.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TensorFilesTest : public ::testing::Test {
 protected:
  TensorFilesTest() {
    folder_ = absl::StrCat(
        testing::TempDir(), "/",
        testing::UnitTest::GetInstance()->current_test_info()->name());
    mkdir(folder_.c_str(), 0755);
  }

  void Write(const std::string& name, const std::string& text) {
    std::ofstream(absl::StrCat(folder_, "/", name), std::ios::binary) << text;
  }
  // Writes a file with one float32 tensor.
  void WriteTensor(const std::string& file, const std::string& name,
                   const std::vector<float>& values) {
    const std::string path = absl::StrCat(folder_, "/", file);
    ASSERT_EQ(
        WriteSafetensors(
            path,
            {{name, {static_cast<int64_t>(values.size())}, values.data()}}, {}),
        absl::OkStatus());
  }
  // Writes a file with one tensor "x" of any type, and reads it.
  absl::StatusOr<std::vector<float>> ReadTyped(const std::string& dtype,
                                               const std::string& bytes,
                                               int elements) {
    std::string header =
        absl::StrCat("{\"x\":{\"dtype\":\"", dtype, "\",\"shape\":[", elements,
                     "],\"data_offsets\":[0,", bytes.size(), "]}}");
    const uint64_t length = header.size();
    std::string file(sizeof(length), '\0');
    std::memcpy(file.data(), &length, sizeof(length));
    Write("x.safetensors", absl::StrCat(file, header, bytes));
    auto files = TensorFiles::Open(absl::StrCat(folder_, "/x.safetensors"));
    if (!files.ok()) return files.status();
    std::vector<float> values(elements);
    const absl::Status read = files->ReadFloats("x", absl::MakeSpan(values));
    if (!read.ok()) return read;
    return values;
  }

  std::string folder_;
};

TEST_F(TensorFilesTest, OpensAFileAFolderAndARun) {
  WriteTensor("model.safetensors", "w", {1, 2});
  mkdir(absl::StrCat(folder_, "/run").c_str(), 0755);
  mkdir(absl::StrCat(folder_, "/run/final").c_str(), 0755);
  WriteTensor("run/final/model.safetensors", "w", {3, 4});
  std::vector<float> values(2);
  for (const char* path : {"/model.safetensors", ""}) {
    const auto files = TensorFiles::Open(folder_ + path);
    ASSERT_TRUE(files.ok()) << files.status();
    ASSERT_TRUE(files->ReadFloats("w", absl::MakeSpan(values)).ok());
    EXPECT_THAT(values, ElementsAre(1, 2));
  }
  const auto run = TensorFiles::Open(folder_ + "/run");
  ASSERT_TRUE(run.ok()) << run.status();
  ASSERT_TRUE(run->ReadFloats("w", absl::MakeSpan(values)).ok());
  EXPECT_THAT(values, ElementsAre(3, 4));
}

TEST_F(TensorFilesTest, OpensTheFilesOfAnIndex) {
  WriteTensor("a.safetensors", "x", {1});
  WriteTensor("b.safetensors", "y", {2});
  Write("model.safetensors.index.json",
        R"({"weight_map": {"x": "a.safetensors", "y": "b.safetensors"}})");
  const auto files = TensorFiles::Open(folder_);
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(files->tensors().size(), 2u);
  float value = 0;
  ASSERT_TRUE(files->ReadFloats("y", absl::MakeSpan(&value, 1)).ok());
  EXPECT_EQ(value, 2);
}

TEST_F(TensorFilesTest, RefusesADamagedIndex) {
  WriteTensor("a.safetensors", "x", {1});
  WriteTensor("b.safetensors", "x", {2});
  const struct {
    const char* index;
    const char* message;
  } cases[] = {
      {"{", "has no object weight_map"},
      {R"({"weight_map": [1]})", "has no object weight_map"},
      {R"({"weight_map": {"x": 1}})", "the file of tensor x must be the name"},
      {R"({"weight_map": {"x": "../a.safetensors"}})",
       "the file of tensor x must be the name"},
      {R"({"weight_map": {"y": "a.safetensors"}})",
       "tensor y is not in a.safetensors"},
      {R"({"weight_map": {"x": "a.safetensors", "y": "b.safetensors"}})",
       "tensor x is also in another file"},
  };
  for (const auto& [index, message] : cases) {
    SCOPED_TRACE(index);
    Write("model.safetensors.index.json", index);
    EXPECT_THAT(TensorFiles::Open(folder_).status(),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr(message)));
  }
}

TEST_F(TensorFilesTest, SaysWhatAPathMayBe) {
  EXPECT_THAT(TensorFiles::Open(folder_ + "/none").status(),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("none: contains no weights")));
}

TEST_F(TensorFilesTest, ConvertsOtherTypes) {
  const double doubles[] = {1.5, 1.0 / 3};
  EXPECT_THAT(
      *ReadTyped("F64",
                 {reinterpret_cast<const char*>(doubles), sizeof(doubles)}, 2),
      ElementsAre(1.5f, 1.0f / 3));
  // 1.5 and -2 in half precision, and in bfloat16.
  EXPECT_THAT(*ReadTyped("F16", std::string("\x00\x3e\x00\xc0", 4), 2),
              ElementsAre(1.5f, -2));
  EXPECT_THAT(*ReadTyped("BF16", std::string("\xc0\x3f\x00\xc0", 4), 2),
              ElementsAre(1.5f, -2));
}

TEST_F(TensorFilesTest, RefusesIntegersAndWrongSizes) {
  EXPECT_THAT(ReadTyped("I64", std::string(8, '\0'), 1).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("tensor x has type I64")));
  WriteTensor("model.safetensors", "w", {1, 2});
  const auto files = TensorFiles::Open(folder_);
  ASSERT_TRUE(files.ok()) << files.status();
  std::vector<float> values(3);
  EXPECT_THAT(files->ReadFloats("w", absl::MakeSpan(values)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("expected F32 of 12")));
}

}  // namespace
}  // namespace tributary
