#include "common/os/crash_handler.h"

#include <signal.h>

#include <cstdlib>
#include <exception>
#include <new>
#include <stdexcept>
#include <system_error>

#include "common/base/crash_context.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

using ::testing::ExitedWithCode;
using ::testing::KilledBySignal;

constexpr int kExhausted = 75;

template <typename Exception>
void Throw(const Exception& exception) {
  throw exception;
}

// Throws where nothing catches.
template <typename Exception>
void ThrowUncaught(const Exception& exception) noexcept {
  Throw(exception);
}

class CrashHandlerDeathTest : public testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "sanitizers report crashes themselves";
#endif
  }
};

TEST_F(CrashHandlerDeathTest, NamesTheLayerAndTheStepOfASegmentationFault) {
  EXPECT_EXIT(
      {
        ReportCrashes(kExhausted);
        const CrashScopeOfMicroBatch micro_batch(/*step=*/12,
                                                 /*micro_batch=*/3);
        const CrashScopeOfLayer layer("hidden", /*backward=*/true);
        raise(SIGSEGV);
      },
      KilledBySignal(SIGSEGV),
      "^error: segmentation fault in layer 'hidden', backward, of step 13, "
      "micro-batch 3\n$");
}

TEST_F(CrashHandlerDeathTest, ForgetsLayersThatHaveEnded) {
  EXPECT_EXIT(
      {
        ReportCrashes(kExhausted);
        {
          const CrashScopeOfMicroBatch micro_batch(0, 0);
          const CrashScopeOfLayer layer("hidden", /*backward=*/false);
        }
        raise(SIGFPE);
      },
      KilledBySignal(SIGFPE), "^error: arithmetic error, [a-z ]*\n$");
}

TEST_F(CrashHandlerDeathTest, LeavesTheReasonOfAnAbortToThatWhichAborts) {
  EXPECT_EXIT(
      {
        ReportCrashes(kExhausted);
        abort();
      },
      KilledBySignal(SIGABRT), "^$");
}

TEST_F(CrashHandlerDeathTest, QuotesAnExceptionOnce) {
  EXPECT_EXIT(
      {
        ReportCrashes(kExhausted);
        ThrowUncaught(std::runtime_error("no such\nrow"));
      },
      KilledBySignal(SIGABRT), "^error: exception: no such row\n$");
}

TEST_F(CrashHandlerDeathTest, ExitsWhenMemoryOrThreadsDoNotSuffice) {
  EXPECT_EXIT(
      {
        ReportCrashes(kExhausted);
        ThrowUncaught(std::bad_alloc());
      },
      ExitedWithCode(kExhausted),
      "^error: memory has run out: this process uses [0-9]+ MiB of ");
  EXPECT_EXIT(
      {
        ReportCrashes(kExhausted);
        ThrowUncaught(std::system_error(
            std::make_error_code(std::errc::resource_unavailable_try_again)));
      },
      ExitedWithCode(kExhausted), "^error: cannot start a thread: ");
}

}  // namespace
}  // namespace tributary
