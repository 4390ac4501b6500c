#include "tests/structure/rooms_map.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
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

TEST(RoomsMapTest, ReportsAnIncludeOfAFolderThatIsNoRoom) {
  EXPECT_THAT(
      CheckIncludes(
          Parse("a/b:\n"),
          {{"a/b/x.cc", "#include \"a/c/y.h\"\n#include \"tests/z.h\"\n"}}),
      ElementsAre(HasSubstr("a/b/x.cc includes a header of a/c"),
                  HasSubstr("a/b/x.cc includes a header of tests")));
}

TEST(RoomsMapTest, PublicHeadersAreARoom) {
  const std::vector<SourceFile> files = {
      {"a/x.cc", "#include \"tributary/x.h\"\n"},
      {"include/tributary/x.h", ""}};
  EXPECT_THAT(
      CheckIncludes(Parse("a: include/tributary\ninclude/tributary:\n"), files),
      IsEmpty());
  EXPECT_THAT(
      CheckIncludes(Parse("a:\ninclude/tributary:\n"), files),
      ElementsAre(HasSubstr("a/x.cc includes a header of include/tributary")));
}

TEST(RoomsMapTest, ReportsAnArrowThatNoFileUses) {
  EXPECT_THAT(CheckIncludes(Parse("a: b\nb:\n"), {{"a/x.cc", ""}}),
              ElementsAre(HasSubstr("no file of a includes a header of b")));
}

TEST(RoomsMapTest, ReportsAFileOutsideTheRooms) {
  EXPECT_THAT(CheckIncludes(Parse("a:\n"), {{"b/x.cc", ""}}),
              ElementsAre(HasSubstr("rooms.txt has no room b")));
}

// A page with a table of rooms, which has `rows`, and one other table.
std::string PageWithRooms(absl::string_view rows) {
  return absl::StrCat(
      "| word | meaning |\n| --- | --- |\n| d | other |\n\n"
      "| room | contents |\n| --- | --- |\n",
      rows, "\n| word | meaning | note |\n| --- | --- | --- |\n| e | f | |\n");
}

TEST(RoomsMapTest, AcceptsATableThatAgreesWithTheMap) {
  EXPECT_THAT(
      CheckRoomsTable(Parse("a/b:\na/b/c: a/b\n"),
                      PageWithRooms("| a/b | first |\n| a/b/c | second |\n")),
      IsEmpty());
}

TEST(RoomsMapTest, ReportsRowsThatAreMissingOrTooMany) {
  EXPECT_THAT(
      CheckRoomsTable(Parse("a:\nb:\n"), PageWithRooms("| a | first |\n"
                                                       "| a | again |\n"
                                                       "| c | third |\n")),
      ElementsAre(HasSubstr("row a: the room is listed twice"),
                  HasSubstr("row c: rooms.txt has no room c"),
                  HasSubstr("no row b;")));
}

TEST(RoomsMapTest, ReportsARowWithoutTwoCells) {
  EXPECT_THAT(CheckRoomsTable(Parse("a:\n"), PageWithRooms("| a |\n")),
              ElementsAre(HasSubstr("row \"| a |\" must have two"),
                          HasSubstr("no row a;")));
}

TEST(RoomsMapTest, ReportsAllRoomsIfThePageHasNoTable) {
  EXPECT_THAT(CheckRoomsTable(Parse("a:\nb:\n"), "| a | first |\n"),
              ElementsAre(HasSubstr("no row a;"), HasSubstr("no row b;")));
}

TEST(RoomsMapTest, ReportsFullRoomsAndLongFiles) {
  EXPECT_THAT(CheckSizes({{"a/x.cc", "1\n2\n3\n"}, {"a/y.cc", ""}},
                         /*max_files=*/1, /*max_lines=*/2),
              ElementsAre(HasSubstr("a/x.cc has 3 lines"),
                          HasSubstr("a has 2 source files")));
}

}  // namespace
}  // namespace tributary
