#include "tests/structure/hidden_names.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const SourceFile kHeader = {"base/sum.h",
                            "namespace tributary {\n"
                            "\n"
                            "inline constexpr int kLimit = 3;\n"
                            "inline constexpr std::chrono::milliseconds\n"
                            "    kLongTimeout = 5;\n"
                            "using Row = int;\n"
                            "class Shape {\n"
                            "  void Local();\n"
                            "};\n"
                            "template <typename T>\n"
                            "int Largest(T x);\n"
                            "std::function<int()> SourceOf(int x);\n"
                            "int Sum(double x,\n"
                            "        double y);\n"
                            "\n"
                            "}  // namespace tributary\n"};
const SourceFile kNeighbour = {"room/b.cc", "#include \"base/sum.h\"\n"};

std::string Unnamed(const std::string& code) {
  return "namespace tributary {\nnamespace {\n\n" + code +
         "\n}  // namespace\n}  // namespace tributary\n";
}

std::vector<std::string> FindIn(const std::string& text,
                                const std::string& path = "room/a.cc") {
  return FindHiddenNames({kHeader, {path, text}, kNeighbour});
}

TEST(HiddenNamesTest, FindsFunctionsTypesAndConstants) {
  EXPECT_THAT(FindIn(Unnamed("int Sum(int x) { return x; }\n")),
              ElementsAre("room/a.cc: rename Sum, a name of base/sum.h, which "
                          "room/b.cc includes"));
  EXPECT_THAT(FindIn(Unnamed("constexpr int kLimit = 4;\n")),
              ElementsAre(HasSubstr("rename kLimit")));
  EXPECT_THAT(FindIn(Unnamed("constexpr int kLongTimeout = 4;\n")),
              ElementsAre(HasSubstr("rename kLongTimeout")));
  EXPECT_THAT(FindIn(Unnamed("struct Shape final {\n};\n")),
              ElementsAre(HasSubstr("rename Shape")));
  EXPECT_THAT(FindIn(Unnamed("using Row = float;\n")),
              ElementsAre(HasSubstr("rename Row")));
  EXPECT_THAT(FindIn(Unnamed("std::vector<std::map<std::string, int>>\n"
                             "Sum(int x) {\n}\n")),
              ElementsAre(HasSubstr("rename Sum")));
  EXPECT_THAT(FindIn(Unnamed("template <typename T>\nT Largest(T x) {\n}\n")),
              ElementsAre(HasSubstr("rename Largest")));
  EXPECT_THAT(FindIn(Unnamed("std::function<Row()> SourceOf(int x) {\n}\n")),
              ElementsAre(HasSubstr("rename SourceOf")));
  EXPECT_THAT(FindIn(Unnamed("[[noreturn]] void Sum() {\n}\n")),
              ElementsAre(HasSubstr("rename Sum")));
  EXPECT_THAT(FindIn(Unnamed("__attribute__((noinline)) int Sum(int x) {\n"
                             "}\n")),
              ElementsAre(HasSubstr("rename Sum")));
}

TEST(HiddenNamesTest, FollowsIncludes) {
  const SourceFile definer = {"room/a.cc", Unnamed("int Sum(int x) {\n}\n")};
  const SourceFile header = {"room/b.h", "#include \"base/sum.h\"\n"};
  const SourceFile neighbour = {"room/b.cc", "#include \"room/b.h\"\n"};
  EXPECT_THAT(FindHiddenNames({kHeader, definer, header, neighbour}),
              ElementsAre(HasSubstr("rename Sum")));
  EXPECT_THAT(FindHiddenNames({kHeader, definer, neighbour}), IsEmpty());
}

TEST(HiddenNamesTest, AllowsNamesThatHideNothing) {
  // Members of classes, qualified names and other names.
  EXPECT_THAT(FindIn(Unnamed("int Local(int x) { return x; }\n"
                             "int Shape::Sum() { return 0; }\n"
                             "int Total() { return Sum(1, 2); }\n"
                             "using other::Row;\n")),
              IsEmpty());
  // Outside of unnamed namespaces, the linker would report it.
  EXPECT_THAT(FindIn("namespace tributary {\nint Sum(double x,\n"
                     "        double y) {\n}\n}  // namespace tributary\n"),
              IsEmpty());
  // Files of other rooms are other translation units.
  EXPECT_THAT(FindIn(Unnamed("int Sum(int x) { return x; }\n"), "other/a.cc"),
              IsEmpty());
  // The compiler reports what a file gets from its own header only.
  EXPECT_THAT(FindHiddenNames({kHeader,
                               {"room/a.cc", "#include \"base/sum.h\"\n" +
                                                 Unnamed("int Sum() {\n}\n")},
                               {"room/b.cc", ""}}),
              IsEmpty());
}

}  // namespace
}  // namespace tributary
