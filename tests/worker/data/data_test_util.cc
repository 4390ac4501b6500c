#include "tests/worker/data/data_test_util.h"

#include <stdlib.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace tributary {

DataFolder::DataFolder() {
  std::string path = absl::StrCat(testing::TempDir(), "/data-XXXXXX");
  EXPECT_NE(mkdtemp(&path[0]), nullptr) << path;
  path_ = path;
}

DataFolder::~DataFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string DataFolder::PathOf(absl::string_view file) const {
  return absl::StrCat(path_, "/", file);
}

std::string DataFolder::Write(absl::string_view file,
                              absl::string_view bytes) const {
  const std::string path = PathOf(file);
  std::ofstream stream(path, std::ios::binary | std::ios::trunc);
  stream.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  EXPECT_TRUE(stream.flush().good()) << path;
  return path;
}

std::string Gzip(absl::string_view bytes) {
  z_stream stream = {};
  EXPECT_EQ(
      deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED,
                   /*windowBits=*/15 + 16, /*memLevel=*/8, Z_DEFAULT_STRATEGY),
      Z_OK);
  std::string result(deflateBound(&stream, bytes.size()), '\0');
  std::string input(bytes);
  stream.next_in = reinterpret_cast<Bytef*>(&input[0]);
  stream.avail_in = static_cast<uInt>(input.size());
  stream.next_out = reinterpret_cast<Bytef*>(&result[0]);
  stream.avail_out = static_cast<uInt>(result.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  result.resize(stream.total_out);
  deflateEnd(&stream);
  return result;
}

std::string BigEndian(uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) {
    bytes.push_back(static_cast<char>(value >> shift));
  }
  return bytes;
}

std::string IdxImagesFile(uint32_t count, uint32_t height, uint32_t width,
                          absl::string_view pixels) {
  return absl::StrCat(BigEndian(0x803), BigEndian(count), BigEndian(height),
                      BigEndian(width), pixels);
}

std::string IdxLabelsFile(const std::vector<int>& labels) {
  std::string bytes = absl::StrCat(
      BigEndian(0x801), BigEndian(static_cast<uint32_t>(labels.size())));
  for (const int label : labels) bytes.push_back(static_cast<char>(label));
  return bytes;
}

}  // namespace tributary
