#include <string>

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/parameter_server.pb.h"
#include "tests/proto/vectors.h"

namespace tributary {
namespace {

// Adds the message that `text` describes.
template <typename Message>
void Add(const std::string& text, Vectors* list) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message))
      << text;
  list->push_back({{"message", message.GetDescriptor()->name()},
                   {"text", text},
                   {"bytes", HexOf(message.SerializeAsString())}});
}

// A worker that fetches weights learns that three chunks have version 8,
// fetches two of them and, ahead, version 9, and receives one.
Vectors FetchVectors() {
  Vectors list = Vectors::array();
  Add<WorkerMessage>(
      "hello { incarnation: 300 attempt: 1 fetches: true chunk_range { begin: "
      "0 end: 128 } }",
      &list);
  Add<ServerMessage>(
      "in_memory { weights { chunk: 0 version: 8 } weights { chunk: 3 version: "
      "8 } weights { chunk: 200 version: 8 } }",
      &list);
  Add<WorkerMessage>("fetch { version: 8 chunk: 3 chunk: 200 }", &list);
  Add<WorkerMessage>("fetch { version: 9 chunk: 0 }", &list);
  // Fields of value 0 have no bytes.
  Add<WorkerMessage>("fetch { chunk: 0 }", &list);
  Add<ServerMessage>(
      "weights { chunk: 3 version: 8 payload: \"\\000\\000\\200?\" }", &list);
  return list;
}

}  // namespace

Vectors MessageVectors() { return {{"fetches", FetchVectors()}}; }

}  // namespace tributary
