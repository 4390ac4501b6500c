#include "tests/structure/hidden_names.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr char kHeader[] =
    "namespace tributary {\n"
    "\n"
    "inline constexpr int kLimit = 3;\n"
    "using Row = int;\n"
    "class Shape {\n"
    "  void Local();\n"
    "};\n"
    "int Sum(double x,\n"
    "        double y);\n"
    "\n"
    "}  // namespace tributary\n";

// A file that includes the header and uses all of its names.
constexpr char kUser[] =
    "#include \"base/sum.h\"\n"
    "\n"
    "namespace tributary {\n"
    "\n"
    "int Twice(Shape* shape, Row row) {\n"
    "  shape->Local();\n"
    "  return 2 * Sum(row, kLimit);\n"
    "}\n"
    "\n"
    "}  // namespace tributary\n";

std::string Unnamed(const std::string& code) {
  return "namespace tributary {\nnamespace {\n\n" + code +
         "\n}  // namespace\n}  // namespace tributary\n";
}

std::vector<std::string> FindIn(const std::string& definer,
                                const std::string& path = "room/a.cc") {
  return FindHiddenNames(
      {{"base/sum.h", kHeader}, {path, definer}, {"room/b.cc", kUser}});
}

TEST(HiddenNamesTest, FindsFunctionsTypesAndConstants) {
  EXPECT_THAT(FindIn(Unnamed("int Sum(int x) { return x; }\n")),
              ElementsAre("room/a.cc: rename Sum, which hides that of "
                          "base/sum.h from room/b.cc"));
  EXPECT_THAT(FindIn(Unnamed("constexpr int kLimit = 4;\n")),
              ElementsAre(testing::HasSubstr("rename kLimit")));
  EXPECT_THAT(FindIn(Unnamed("struct Shape final {\n};\n")),
              ElementsAre(testing::HasSubstr("rename Shape")));
  EXPECT_THAT(FindIn(Unnamed("using Row = float;\n")),
              ElementsAre(testing::HasSubstr("rename Row")));
  EXPECT_THAT(FindIn(Unnamed("std::vector<std::map<std::string, int>>\n"
                             "Sum(int x) {\n}\n")),
              ElementsAre(testing::HasSubstr("rename Sum")));
}

TEST(HiddenNamesTest, AllowsNamesThatHideNothing) {
  // Members of classes, qualified names and other names.
  EXPECT_THAT(FindIn(Unnamed("int Local(int x) { return x; }\n"
                             "int Shape::Sum() { return 0; }\n"
                             "int Total() { return Sum(1, 2); }\n")),
              IsEmpty());
  // Outside of unnamed namespaces, the linker would report it.
  EXPECT_THAT(FindIn("namespace tributary {\nint Sum(double x,\n"
                     "        double y) {\n}\n}  // namespace tributary\n"),
              IsEmpty());
  // Files of other rooms are other translation units.
  EXPECT_THAT(FindIn(Unnamed("int Sum(int x) { return x; }\n"), "other/a.cc"),
              IsEmpty());
}

TEST(HiddenNamesTest, AllowsNamesThatTheNeighbourDoesNotUse) {
  const std::string definer = Unnamed("int Sum(int x) { return x; }\n");
  const SourceFile header = {"base/sum.h", kHeader};
  EXPECT_THAT(
      FindHiddenNames({header,
                       {"room/a.cc", definer},
                       {"room/b.cc", "#include \"base/sum.h\"\n// Sum\n"}}),
      IsEmpty());
  EXPECT_THAT(FindHiddenNames({header,
                               {"room/a.cc", definer},
                               {"room/b.cc", "int x = other.Sum(1, 2);\n"}}),
              IsEmpty());
}

}  // namespace
}  // namespace tributary
