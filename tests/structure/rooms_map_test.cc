#include "tests/structure/rooms_map.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

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

TEST(RoomsMapTest, RefusesLinesThatAreNoRoomOrOneAgain) {
  EXPECT_THAT(
      ParseRoomsMap("a:\nb a\n"),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("line 2")));
  EXPECT_THAT(ParseRoomsMap("a:\na: b\n"),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(RoomsMapTest, FindsACycle) {
  EXPECT_THAT(FindCycle(Parse("a: b\nb: c\nc: b\n")),
              ElementsAre("b", "c", "b"));
  EXPECT_THAT(FindCycle(Parse("a: b c\nb: c\nc:\n")), IsEmpty());
}

TEST(RoomsMapTest, AllowsArrowsTheRoomItselfPublicHeadersAndOthers) {
  EXPECT_THAT(
      CheckIncludes(Parse("a: include/tributary proto\ninclude/tributary:\n"),
                    {{"a/x.cc",
                      "#include \"a/x.h\"\n#include \"proto/job.pb.h\"\n"
                      "#include \"tributary/x.h\"\n"
                      "#include \"absl/status/status.h\"\n"},
                     {"include/tributary/x.h", ""}}),
      IsEmpty());
}

TEST(RoomsMapTest, ReportsOtherIncludesFilesAndArrows) {
  const auto check = [](const std::string& map, const std::string& file,
                        const std::string& include = "") {
    std::vector<SourceFile> files = {{"include/tributary/x.h", ""}};
    files.push_back(
        {file, include.empty() ? "" : "#include \"" + include + "\"\n"});
    const std::vector<std::string> errors =
        CheckIncludes(Parse("include/tributary:\n" + map), files);
    EXPECT_EQ(errors.size(), 1u);
    return errors.empty() ? "" : errors[0];
  };
  EXPECT_THAT(check("a:\nb:\n", "a/x.cc", "b/y.h"),
              HasSubstr("a/x.cc includes a header of b"));
  EXPECT_THAT(check("a/b:\n", "a/b/x.cc", "a/c/y.h"),
              HasSubstr("a/b/x.cc includes a header of a/c"));
  EXPECT_THAT(check("a/b:\n", "a/b/x.cc", "tests/z.h"),
              HasSubstr("a/b/x.cc includes a header of tests"));
  EXPECT_THAT(check("a:\n", "a/x.cc", "tributary/x.h"),
              HasSubstr("a/x.cc includes a header of include/tributary"));
  EXPECT_THAT(check("a: b\nb:\n", "a/x.cc"),
              HasSubstr("no file of a includes a header of b"));
  EXPECT_THAT(check("a:\n", "b/x.cc"), HasSubstr("rooms.txt has no room b"));
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

TEST(RoomsMapTest, ReportsRowsThatAreMissingOrTooManyOrNone) {
  EXPECT_THAT(
      CheckRoomsTable(Parse("a:\nb:\n"), PageWithRooms("| a | first |\n"
                                                       "| a | again |\n"
                                                       "| c | third |\n")),
      ElementsAre(HasSubstr("row a: "), HasSubstr("row c: "),
                  HasSubstr("no row b;")));
  EXPECT_THAT(CheckRoomsTable(Parse("a:\n"), PageWithRooms("| a |\n")),
              ElementsAre(HasSubstr("row \"| a |\""), HasSubstr("no row a;")));
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
