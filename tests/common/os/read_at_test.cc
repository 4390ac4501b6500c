#include "common/os/read_at.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <memory>

namespace tributary {
namespace {

TEST(ReadAtTest, ReadsUpToTheEndOfTheFile) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::tmpfile(), &fclose);
  const int descriptor = fileno(file.get());
  ASSERT_EQ(write(descriptor, "0123456789", 10), 10);
  char bytes[8] = {};
  EXPECT_EQ(ReadAt(descriptor, 2, 3, bytes), 3);
  EXPECT_STREQ(bytes, "234");
  EXPECT_EQ(ReadAt(descriptor, 8, 5, bytes), 2);
  EXPECT_STREQ(bytes, "894");
  EXPECT_EQ(ReadAt(descriptor, 10, 5, bytes), 0);
  EXPECT_EQ(ReadAt(descriptor, 11, 5, bytes), 0);
  EXPECT_EQ(ReadAt(descriptor, 0, 0, bytes), 0);
  EXPECT_EQ(lseek(descriptor, 0, SEEK_CUR), 10);
}

TEST(ReadAtTest, LeavesTheErrorInErrno) {
  char byte = 0;
  EXPECT_EQ(ReadAt(/*file=*/-1, 0, 1, &byte), -1);
  EXPECT_EQ(errno, EBADF);
}

}  // namespace
}  // namespace tributary
