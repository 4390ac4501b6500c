#include "tests/structure/rooms_map.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

RoomsMap Parse(absl::string_view text) { return ParseRoomsMap(text).value(); }

TEST(RoomsMapTest, ReadsArrowsAndSkipsComments) {
  EXPECT_EQ(Parse("# a map\n\na:\nb: a proto\n"),
            (RoomsMap{{"a", {}}, {"b", {"a", "proto"}}}));
}

TEST(RoomsMapTest, RefusesLinesThatAreNoRoom) {
  const absl::Status status = ParseRoomsMap("a:\nb a\n").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("line 2"));
}

TEST(RoomsMapTest, RefusesARoomThatIsListedTwice) {
  const absl::Status status = ParseRoomsMap("a:\na: b\n").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("room a is listed twice"));
}

TEST(RoomsMapTest, FindsACycle) {
  EXPECT_THAT(FindCycle(Parse("a: b\nb: c\nc: b\n")),
              ElementsAre("b", "c", "b"));
  EXPECT_THAT(FindCycle(Parse("a: b c\nb: c\nc:\n")), IsEmpty());
}

TEST(RoomsMapTest, ReportsAnIncludeAgainstTheArrows) {
  EXPECT_THAT(
      CheckIncludes(Parse("a:\nb:\n"), {{"a/x.cc", "#include \"b/y.h\"\n"}}),
      ElementsAre(HasSubstr("a/x.cc includes a header of b")));
}

TEST(RoomsMapTest, AllowsArrowsTheRoomItselfAndOthersHeaders) {
  EXPECT_THAT(
      CheckIncludes(Parse("a: proto\n"),
                    {{"a/x.cc",
                      "#include \"a/x.h\"\n#include \"proto/job.pb.h\"\n"
                      "#include \"absl/status/status.h\"\n"}}),
      IsEmpty());
}

TEST(RoomsMapTest, ReportsAnArrowThatNoFileUses) {
  EXPECT_THAT(CheckIncludes(Parse("a: b\nb:\n"), {{"a/x.cc", ""}}),
              ElementsAre(HasSubstr("no file of a includes a header of b")));
}

TEST(RoomsMapTest, ReportsAFileOutsideTheRooms) {
  EXPECT_THAT(CheckIncludes(Parse("a:\n"), {{"b/x.cc", ""}}),
              ElementsAre(HasSubstr("rooms.txt has no room b")));
}

TEST(RoomsMapTest, ReportsFullRoomsAndLongFiles) {
  EXPECT_THAT(CheckSizes({{"a/x.cc", "1\n2\n3\n"}, {"a/y.cc", ""}},
                         /*max_files=*/1, /*max_lines=*/2),
              ElementsAre(HasSubstr("a/x.cc has 3 lines"),
                          HasSubstr("a has 2 source files")));
}

}  // namespace
}  // namespace tributary
