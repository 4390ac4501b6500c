// All the ways in which texts, or no data at all, can be wrong.
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "tests/worker/data/data_test_util.h"
#include "tests/worker/data/wrong_data_fixture.h"

namespace tributary {
namespace {

MakeData TextWith(const std::string& bytes) {
  return With(TextJob, "text", bytes);
}

// Valid text, and another file with these bytes.
MakeData TextAnd(const std::string& file, const std::string& bytes) {
  return Set(With(TextJob, file, bytes), "data.text.path[1]=DIR/" + file);
}

TEST(WrongTextDataTest, Files) {
  ExpectRefused({{Set(TextJob, "data.text.path[1]=DIR/none"), {"DIR/none: "}}},
                absl::StatusCode::kNotFound);
  ExpectRefused({
      {Set(TextJob, "data.text={}"), {"data.text.path: "}},
      {TextWith(""), {"DIR/text: is empty"}},
      {TextWith("1"), {"DIR/text: 1 byte "}},
      {TextWith("12345678"),
       {"DIR/text: 8 bytes ", "7 are left", "model.gpt.context 4 "}},
      {TextWith("123456789"), {"DIR/text: 9 bytes ", "1 are held out"}},
      {TextAnd("x.npy", "\x93NUMPY and its numbers"),
       {"DIR/x.npy: is a NumPy array (.npy); data.text ", "use data.tokens"}},
      {TextAnd("train.bin", std::string("\1\0\2\0\3\2\4\0", 8)),
       {"DIR/train.bin: is binary: 3 of the first 8 ", "use data.tokens"}},
      {TextAnd("train.bin", "\x88\xd4\x34\x01 and its numbers"),
       {"DIR/train.bin: is a token file of llm.c", "use data.tokens"}},
      {TextAnd("text.gz", Gzip("some text").substr(0, 20)),
       {"DIR/text.gz: byte 20: "}},
      {Set(With(TextJob, "ranks.bin", "x"),
           "data.text.tokenizer=DIR/ranks.bin"),
       {"data.text.tokenizer: DIR/ranks.bin: "}},
  });
}

TEST(WrongTextDataTest, JobsThatDoNotFit) {
  ExpectRefused({
      {Set(TextJob, "data.text.validation_fraction=1"),
       {"data.text.validation_fraction: 1;"}},
      {Set(TextJob, "model.mlp={}"), {"data.text: ", "model.gpt"}},
      {Set(TextJob, "model.loss=MEAN_SQUARED_ERROR"),
       {"model.loss: MEAN_SQUARED_ERROR", "data.text"}},
      {[](const DataFolder&) { return JobSpec(); }, {"data: must set one of"}},
  });
}

}  // namespace
}  // namespace tributary
