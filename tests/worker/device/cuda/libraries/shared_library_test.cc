#include "worker/device/cuda/libraries/shared_library.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
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
  EXPECT_THAT(SharedLibrary::Open("libnone.so.1"),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("libnone.so.1")));
}

TEST(SharedLibrary, NamesFunctionsThatAreMissing) {
  const auto library = SharedLibrary::Open("libc.so.6");
  ASSERT_TRUE(library.ok()) << library.status();
  int (*absolute)(int) = nullptr;
  ASSERT_TRUE(library->Bind({{"abs", &absolute}}).ok());
  EXPECT_EQ(absolute(-3), 3);
  EXPECT_THAT(library->Bind({{"no_such_function", &absolute}}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("no_such_function")));
}

}  // namespace
}  // namespace tributary::cuda
