#include "worker/device/cuda/libraries/shared_library.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/device/cuda/libraries/cublaslt_library.h"
#include "worker/device/cuda/libraries/cudnn_library.h"

namespace tributary::cuda {
namespace {

using testing::HasSubstr;

// Needs no GPU: the libraries look for one when they are used.
TEST(SharedLibrary, HasEveryFunctionThatWeCall) {
  const auto cublaslt = LoadCublasLt();
  EXPECT_TRUE(cublaslt.ok()) << cublaslt.status();
  const auto cudnn = LoadCudnn();
  EXPECT_TRUE(cudnn.ok()) << cudnn.status();
}

TEST(SharedLibrary, NamesWhatCannotBeLoaded) {
  const absl::Status status = SharedLibrary::Open("libnone.so.1").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("libnone.so.1"));
}

TEST(SharedLibrary, NamesFunctionsThatAreMissing) {
  const auto library = SharedLibrary::Open("libc.so.6");
  ASSERT_TRUE(library.ok()) << library.status();
  int (*absolute)(int) = nullptr;
  ASSERT_TRUE(library->Bind({{"abs", &absolute}}).ok());
  EXPECT_EQ(absolute(-3), 3);
  const absl::Status status = library->Bind({{"no_such_function", &absolute}});
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no_such_function"));
}

}  // namespace
}  // namespace tributary::cuda
