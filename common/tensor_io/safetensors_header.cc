#include "common/tensor_io/safetensors_header.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/text/counted.h"

namespace tributary {
namespace {

using nlohmann::json;

constexpr size_t kMaxDimensions = 64;

template <typename... Args>
absl::Status Error(const Args&... what) {
  return absl::DataLossError(absl::StrCat(what...));
}

// Names come from the file, so error messages escape and truncate them.
std::string Printable(absl::string_view name) {
  return absl::StrCat("\"", absl::CHexEscape(name.substr(0, 64)),
                      name.size() > 64 ? "...\"" : "\"");
}

// Receives the parts of the header from nlohmann's parser as they are parsed,
// so that repeated keys are detected and unknown data is not stored. Each
// function returns true if parsing may continue; otherwise error() gives the
// reason.
class HeaderReader : public nlohmann::json_sax<json> {
 public:
  SafetensorsHeader TakeHeader() { return std::move(header_); }
  const std::string& error() const { return error_; }

  bool start_object(std::size_t) override {
    switch (state_) {
      case State::kStart:
        return Go(State::kTop);
      case State::kMetadataValue:
        return Go(State::kMetadata);
      case State::kTensorValue:
        return Go(State::kTensor);
      default:
        return Unexpected("an object");
    }
  }

  bool key(string_t& key) override {
    switch (state_) {
      case State::kTop:
        return TopKey(key);
      case State::kMetadata:
        key_ = key;
        if (header_.metadata.count(key) > 0) {
          return Fail("__metadata__ has the key ", Printable(key), " twice");
        }
        return Go(State::kMetadataText);
      default:
        return TensorKey(key);
    }
  }

  bool end_object() override {
    if (state_ != State::kTensor) {
      return Go(state_ == State::kMetadata ? State::kTop : State::kEnd);
    }
    if (!has_dtype_ || !has_shape_ || !has_offsets_) {
      return Fail(Where(), "lacks dtype, shape or data_offsets");
    }
    if (offsets_.size() != 2) {
      return Fail(Where(), "data_offsets has ",
                  Counted(offsets_.size(), "number"), ", not 2");
    }
    tensor_.begin = offsets_[0];
    tensor_.end = offsets_[1];
    header_.tensors.push_back(std::move(tensor_));
    return Go(State::kTop);
  }

  bool start_array(std::size_t) override {
    if (state_ == State::kShapeValue) return Go(State::kShape);
    if (state_ == State::kOffsetsValue) return Go(State::kOffsets);
    return Unexpected("a list");
  }

  bool end_array() override { return Go(State::kTensor); }

  bool string(string_t& text) override {
    if (state_ == State::kMetadataText) {
      header_.metadata[key_] = text;
      return Go(State::kMetadata);
    }
    if (state_ == State::kDtypeValue) {
      tensor_.dtype = text;
      return Go(State::kTensor);
    }
    return Unexpected("a string");
  }

  bool number_unsigned(number_unsigned_t number) override {
    if (state_ != State::kShape && state_ != State::kOffsets) {
      return Unexpected("a number");
    }
    std::vector<int64_t>& list =
        state_ == State::kShape ? tensor_.shape : offsets_;
    if (number > static_cast<uint64_t>(INT64_MAX)) {
      return Fail(Where(), "the number ", number, " is too large");
    }
    if (list.size() >= kMaxDimensions) {
      return Fail(Where(), "a list has more than ", kMaxDimensions, " numbers");
    }
    list.push_back(static_cast<int64_t>(number));
    return true;
  }

  bool number_integer(number_integer_t number) override {
    return Fail(Where(), "the number ", number, " is negative");
  }
  bool number_float(number_float_t, const string_t& text) override {
    return Fail(Where(), "the number ", text.substr(0, 40),
                " is not a whole number in range");
  }
  bool boolean(bool) override { return Unexpected("true or false"); }
  bool null() override { return Unexpected("null"); }
  bool binary(binary_t&) override { return Unexpected("bytes"); }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    // Adds 8, the header's offset in the file. Positions count from 1.
    return Fail("offset ", 8 + (position > 0 ? position - 1 : 0),
                ": the header is not valid JSON");
  }

 private:
  enum class State {
    kStart,
    kTop,            // Between two tensors.
    kMetadataValue,  // After "__metadata__".
    kMetadata,
    kMetadataText,  // After a key of the metadata.
    kTensorValue,   // After a tensor's name.
    kTensor,
    kDtypeValue,
    kShapeValue,
    kShape,
    kOffsetsValue,
    kOffsets,
    kEnd,
  };

  bool Go(State state) {
    state_ = state;
    return true;
  }

  template <typename... Args>
  bool Fail(const Args&... what) {
    error_ = absl::StrCat(what...);
    return false;
  }

  bool Unexpected(absl::string_view what) {
    return Fail(Where(), "did not expect ", what);
  }

  std::string Where() const {
    if (state_ == State::kStart || state_ == State::kTop) return "header: ";
    if (state_ == State::kMetadataValue || state_ == State::kMetadata ||
        state_ == State::kMetadataText) {
      return "__metadata__: ";
    }
    return absl::StrCat("tensor ", Printable(tensor_.name), ": ");
  }

  bool TopKey(const std::string& key) {
    if (!names_.insert(key).second) {
      return Fail("header: ", Printable(key), " appears twice");
    }
    if (key == "__metadata__") return Go(State::kMetadataValue);
    tensor_ = TensorEntry();
    tensor_.name = key;
    offsets_.clear();
    has_dtype_ = has_shape_ = has_offsets_ = false;
    return Go(State::kTensorValue);
  }

  bool TensorKey(const std::string& key) {
    const auto first = [&](bool* seen, State next) {
      if (*seen) return Fail(Where(), key, " appears twice");
      *seen = true;
      return Go(next);
    };
    if (key == "dtype") return first(&has_dtype_, State::kDtypeValue);
    if (key == "shape") return first(&has_shape_, State::kShapeValue);
    if (key == "data_offsets") {
      return first(&has_offsets_, State::kOffsetsValue);
    }
    return Fail(Where(), "unknown key ", Printable(key));
  }

  State state_ = State::kStart;
  std::string error_;
  SafetensorsHeader header_;
  absl::flat_hash_set<std::string> names_;
  // The name of the tensor or metadata entry that is being read.
  std::string key_;
  TensorEntry tensor_;
  std::vector<int64_t> offsets_;
  bool has_dtype_ = false;
  bool has_shape_ = false;
  bool has_offsets_ = false;
};

// Checks that type and shape match the number of bytes from begin to end.
absl::Status CheckSize(const TensorEntry& tensor) {
  const std::string where =
      absl::StrCat("tensor ", Printable(tensor.name), ": ");
  int64_t bytes = BytesPerElement(tensor.dtype);
  if (bytes == 0) {
    return Error(where, "unknown dtype ", Printable(tensor.dtype));
  }
  for (const int64_t dimension : tensor.shape) {
    if (__builtin_mul_overflow(bytes, dimension, &bytes)) {
      return Error(where, "the shape has too many elements");
    }
  }
  if (tensor.end < tensor.begin || tensor.end - tensor.begin != bytes) {
    return Error(where, "dtype and shape need ", Counted(bytes, "byte"),
                 ", data_offsets are [", tensor.begin, ", ", tensor.end, "]");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view text,
                                                         int64_t data_bytes) {
  if (text.empty() || text.front() != '{') {
    return Error("offset 8: the header does not begin with {");
  }
  HeaderReader reader;
  if (!json::sax_parse(text.begin(), text.end(), &reader)) {
    return Error(reader.error());
  }
  SafetensorsHeader header = reader.TakeHeader();
  std::sort(header.tensors.begin(), header.tensors.end(),
            [](const TensorEntry& a, const TensorEntry& b) {
              return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
            });
  int64_t end = 0;
  for (const TensorEntry& tensor : header.tensors) {
    TRIBUTARY_RETURN_IF_ERROR(CheckSize(tensor));
    if (tensor.begin != end) {
      return Error("tensor ", Printable(tensor.name), ": begins at ",
                   tensor.begin, ", but the data before it end at ", end);
    }
    end = tensor.end;
  }
  if (end != data_bytes) {
    return Error("the tensors have ", Counted(end, "byte"),
                 ", but the file holds ", data_bytes, " after its header");
  }
  return header;
}

int64_t BytesPerElement(absl::string_view dtype) {
  struct Type {
    absl::string_view name;
    int64_t bytes;
  };
  static constexpr Type kTypes[] = {
      {"F64", 8},     {"I64", 8},     {"U64", 8},  {"F32", 4}, {"I32", 4},
      {"U32", 4},     {"F16", 2},     {"BF16", 2}, {"I16", 2}, {"U16", 2},
      {"F8_E5M2", 1}, {"F8_E4M3", 1}, {"I8", 1},   {"U8", 1},  {"BOOL", 1}};
  for (const Type& type : kTypes) {
    if (type.name == dtype) return type.bytes;
  }
  return 0;
}

}  // namespace tributary
