#include "server/progress/untrained_tensors.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

UntrainedTensorPart Part(const std::string& name, const std::string& dtype,
                         const std::vector<int64_t>& shape,
                         const std::vector<std::string>& data,
                         bool last = false) {
  UntrainedTensorPart part;
  part.set_name(name);
  part.set_dtype(dtype);
  for (const int64_t size : shape) part.add_shape(size);
  for (const std::string& bytes : data) part.add_data(bytes);
  part.set_last(last);
  return part;
}

UntrainedTensorPart Last() { return Part("", "", {}, {}, /*last=*/true); }

std::string DataOf(const NamedTensor& tensor, size_t bytes) {
  return std::string(static_cast<const char*>(tensor.data), bytes);
}

TEST(UntrainedTensorsTest, PutsPartsTogether) {
  UntrainedTensors tensors;
  ASSERT_TRUE(tensors.Add(Part("a", "I16", {3}, {"01", "2"})).ok());
  ASSERT_TRUE(tensors.Add(Part("a", "I16", {3}, {"345"})).ok());
  ASSERT_TRUE(tensors.Add(Part("empty", "F32", {0, 7}, {})).ok());
  ASSERT_TRUE(tensors.Add(Part("scalar", "BOOL", {}, {"x"})).ok());
  EXPECT_FALSE(tensors.complete());
  EXPECT_THAT(tensors.tensors(), IsEmpty());
  ASSERT_TRUE(tensors.Add(Last()).ok());
  EXPECT_TRUE(tensors.complete());
  const std::vector<NamedTensor> named = tensors.tensors();
  ASSERT_EQ(named.size(), 3);
  EXPECT_EQ(named[0].name, "a");
  EXPECT_EQ(named[0].dtype, "I16");
  EXPECT_THAT(named[0].shape, ElementsAre(3));
  EXPECT_EQ(DataOf(named[0], 6), "012345");
  EXPECT_THAT(named[1].shape, ElementsAre(0, 7));
  EXPECT_THAT(named[2].shape, IsEmpty());
  EXPECT_EQ(DataOf(named[2], 1), "x");
}

TEST(UntrainedTensorsTest, RefusesWhatTheFileCannotContain) {
  const auto refused = [](const std::vector<UntrainedTensorPart>& parts) {
    UntrainedTensors tensors(/*limit=*/1000);
    absl::Status status;
    for (const UntrainedTensorPart& part : parts) {
      EXPECT_TRUE(status.ok()) << status;
      status = tensors.Add(part);
    }
    EXPECT_FALSE(tensors.complete());
    return status.code();
  };
  const auto invalid = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(refused({Part("a", "F31", {1}, {})}), invalid);
  EXPECT_EQ(refused({Part("a", "F32", {-1}, {})}), invalid);
  EXPECT_EQ(refused({Part("a", "U8", {1}, {"xy"})}), invalid);
  EXPECT_EQ(refused({Part("a", "U8", {3}, {"xy"}), Last()}), invalid);
  EXPECT_EQ(refused({Part("a", "U8", {3}, {"xy"}), Part("b", "U8", {}, {"x"})}),
            invalid);
  EXPECT_EQ(refused({Part("a", "U8", {}, {"x"}), Part("b", "U8", {}, {"x"}),
                     Part("a", "U8", {}, {"x"})}),
            invalid);
  EXPECT_EQ(refused({Part(std::string(257, 'a'), "U8", {}, {"x"})}), invalid);
  EXPECT_EQ(refused({Part("a", "U8", std::vector<int64_t>(9, 1), {"x"})}),
            invalid);
}

TEST(UntrainedTensorsTest, HasALimitThatHugeShapesDoNotPass) {
  UntrainedTensors tensors(/*limit=*/1000);
  ASSERT_TRUE(tensors.Add(Part("a", "U8", {2}, {"xy"})).ok());
  std::string name = "b";
  for (const std::vector<int64_t>& shape : std::vector<std::vector<int64_t>>{
           {999}, {int64_t{1} << 62, 16}, {int64_t{1} << 62, 16, 1}}) {
    name += "b";
    EXPECT_TRUE(
        absl::IsResourceExhausted(tensors.Add(Part(name, "U8", shape, {}))));
  }
}

TEST(UntrainedTensorsTest, BeginsAgainAfterClear) {
  UntrainedTensors tensors;
  ASSERT_TRUE(tensors.Add(Part("a", "U8", {2}, {"x"})).ok());
  tensors.Clear();
  ASSERT_TRUE(tensors.Add(Part("a", "U8", {2}, {"xy"}, /*last=*/true)).ok());
  EXPECT_EQ(tensors.tensors().size(), 1);
  EXPECT_TRUE(absl::IsInvalidArgument(tensors.Add(Last())));
}

}  // namespace
}  // namespace tributary
