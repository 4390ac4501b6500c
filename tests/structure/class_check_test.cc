#include "tests/structure/class_check.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

SourceFile Within(const std::string& path, const std::string& code,
                  const std::string& scope = "namespace tributary") {
  return {path, scope + " {\n\n" + code + "\n}  // " + scope + "\n"};
}

const char kSum[] = "struct Sum {\n  int value;\n};\n";

TEST(ClassCheckTest, FindsTypesDefinedTwice) {
  EXPECT_THAT(FindRepeatedTypes(
                  {Within("a/sum.h", kSum), Within("b/sum.h",
                                                   "class Sum final : X {\n"
                                                   "};\n")}),
              ElementsAre(HasSubstr("tributary Sum is defined by each of")));
  EXPECT_THAT(FindRepeatedTypes({Within("a/sum.h", "enum class Sum { kA };\n"),
                                 Within("b/sum.cc",
                                        "template <typename T>\n"
                                        "struct alignas(4) Sum\n"
                                        "    : public Base<T> {\n};\n")}),
              ElementsAre(HasSubstr("tributary Sum")));
}

TEST(ClassCheckTest, AllowsOtherTypesOfTheSameName) {
  const SourceFile sum = Within("a/sum.h", kSum);
  for (const char* code :
       {"struct Sum;\n", "using Sum = int;\n", "enum Sum : int;\n",
        "struct Total {\n  struct Sum {};\n};\n", "struct Total::Sum {\n};\n",
        "template <>\nstruct Sum<int> {\n};\n", "// struct Sum {};\n",
        "const char* kText = R\"(\nstruct Sum {\n};\n)\";\n",
        "struct Sum Make() { return {}; }\n"}) {
    EXPECT_THAT(FindRepeatedTypes({sum, Within("b/sum.h", code)}), IsEmpty())
        << code;
  }
  EXPECT_THAT(FindRepeatedTypes(
                  {sum, Within("b/sum.h", kSum, "namespace tributary::cuda")}),
              IsEmpty());
  const std::string unnamed =
      "namespace {\n" + std::string(kSum) + "}  // namespace\n";
  EXPECT_THAT(FindRepeatedTypes({sum, Within("b/sum.cc", unnamed),
                                 Within("c/sum.cc", unnamed)}),
              IsEmpty());
}

// Ten lines and two methods in its header, eight lines in two other files.
const SourceFile kQueue =
    Within("room/queue.h",
           "class Queue {\n"
           " public:\n"
           "  explicit Queue(int limit);\n"
           "  ~Queue();\n"
           "  Queue& operator=(const Queue&) = delete;\n"
           "  std::map<int, std::function<void()>> All() const {\n"
           "    return Call(1);\n"
           "  }\n"
           "  virtual void Add(std::function<int(int)> work) = 0;\n"
           "  int limit_ ABSL_GUARDED_BY(mu_) = Limit(3);\n"
           "  std::function<void(int)> work_ ABSL_GUARDED_BY(mu_);\n"
           "  struct Entry {\n"
           "    int Age() const;\n"
           "  };\n"
           "};\n");
const SourceFile kQueueCode =
    Within("room/queue.cc",
           "std::map<int, std::function<void()>> Queue::All() const {\n"
           "  return {'\\'', \"}\", 1'000};  // }\n"
           "}\n"
           "\n"
           "void Free() { Queue::All(); }\n");
const SourceFile kMoreCode = Within("room/queue_more.cc",
                                    "Queue::Queue(int limit)\n"
                                    "    : limit_(limit) {\n"
                                    "  work_ = {};\n"
                                    "}\n");

TEST(ClassCheckTest, CountsLinesOfAllFilesAndMethodsOfTheClassAlone) {
  const std::vector<SourceFile> files = {kMoreCode, kQueue, kQueueCode};
  EXPECT_THAT(CheckClassSizes(files, 22, 2), IsEmpty());
  EXPECT_THAT(CheckClassSizes(files, 21, 2),
              ElementsAre(HasSubstr("room/queue.h: Queue has 22 lines")));
  EXPECT_THAT(CheckClassSizes(files, 22, 1),
              ElementsAre(HasSubstr("room/queue.h: Queue has 2 methods")));
}

TEST(ClassCheckTest, CountsClassesOfUnnamedNamespacesByFile) {
  const std::string unnamed =
      "namespace {\n" + std::string(kSum) + "}  // namespace\n";
  EXPECT_THAT(CheckClassSizes(
                  {Within("a/a.cc", unnamed), Within("a/b.cc", unnamed)}, 3, 0),
              IsEmpty());
  EXPECT_THAT(CheckClassSizes({Within("a/a.cc", unnamed)}, 2, 0),
              ElementsAre(HasSubstr("a/a.cc: Sum has 3 lines")));
}

TEST(ClassCheckTest, FindsMembersOutsideOfTheirPair) {
  EXPECT_THAT(CheckClassHomes({kQueue, kQueueCode}), IsEmpty());
  EXPECT_THAT(CheckClassHomes({kQueue, kQueueCode, kMoreCode}),
              ElementsAre(HasSubstr("room/queue_more.cc defines a member of "
                                    "Queue, a class of room/queue.h")));
  EXPECT_THAT(
      CheckClassHomes({Within("include/tributary/queue.h",
                              "class Queue {\n  void Add();\n};\n"),
                       Within("library/queue.cc", "void Queue::Add() {\n}\n")}),
      IsEmpty());
}

TEST(ClassCheckTest, FindsHeadersThatAreNotNamedAfterTheirClass) {
  EXPECT_THAT(CheckClassHomes({Within("a/http_server.h",
                                      "struct Port {\n};\n"
                                      "class HttpServer {\n};\n")}),
              IsEmpty());
  EXPECT_THAT(
      CheckClassHomes({Within("a/server.h", "class HttpServer {\n};\n")}),
      ElementsAre(HasSubstr("a/server.h declares nothing with its name")));
  // Named after its function, and after what its functions do.
  EXPECT_THAT(CheckClassHomes({Within("a/serve.h",
                                      "class HttpServer {\n};\n"
                                      "void Serve(int port);\n"),
                               Within("a/ports.h",
                                      "struct Port {\n};\n"
                                      "Port FreePort();\n")}),
              IsEmpty());
}

}  // namespace
}  // namespace tributary
