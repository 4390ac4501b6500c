#include "tests/worker/data/images/picture_test_util.h"

#include <cstdio>
// jpeglib.h needs the declarations of cstdio.
#include <jpeglib.h>
#include <png.h>

#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace tributary {
namespace {

void AppendBytes(png_structp png, png_bytep bytes, size_t count) {
  static_cast<std::string*>(png_get_io_ptr(png))
      ->append(reinterpret_cast<const char*>(bytes), count);
}

std::string WritePng(int64_t height, int64_t width, int depth, int color_type,
                     const std::string& rows, const std::string& palette,
                     bool interlaced) {
  std::string bytes;
  png_structp png =
      png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(png, &bytes, AppendBytes, nullptr);
  png_set_IHDR(png, info, static_cast<png_uint_32>(width),
               static_cast<png_uint_32>(height), depth, color_type,
               interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  if (!palette.empty()) {
    std::vector<png_color> colors(palette.size() / 3);
    memcpy(colors.data(), palette.data(), palette.size());
    png_set_PLTE(png, info, colors.data(), static_cast<int>(colors.size()));
  }
  const size_t row_bytes = rows.size() / static_cast<size_t>(height);
  std::vector<png_bytep> pointers;
  for (int64_t y = 0; y < height; ++y) {
    pointers.push_back(reinterpret_cast<png_bytep>(
        const_cast<char*>(rows.data() + static_cast<size_t>(y) * row_bytes)));
  }
  png_set_rows(png, info, pointers.data());
  png_write_png(png, info, PNG_TRANSFORM_IDENTITY, nullptr);
  png_destroy_write_struct(&png, &info);
  return bytes;
}

std::string BigEndian(int64_t number) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) {
    bytes.push_back(static_cast<char>(number >> shift));
  }
  return bytes;
}

}  // namespace

Picture MakePicture(int64_t height, int64_t width, int64_t channels,
                    uint32_t number) {
  Picture picture;
  picture.height = height;
  picture.width = width;
  picture.channels = channels;
  uint32_t state = number * 2654435761u + 1;
  for (int64_t i = 0; i < height * width * channels; ++i) {
    state = state * 1664525u + 1013904223u;
    picture.pixels.push_back(static_cast<uint8_t>(state >> 24));
  }
  return picture;
}

std::string EncodePng(const Picture& picture, bool interlaced) {
  return WritePng(
      picture.height, picture.width, 8,
      picture.channels == 1 ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB,
      std::string(picture.pixels.begin(), picture.pixels.end()), "",
      interlaced);
}

std::string EncodePngRows(int64_t height, int64_t width, int depth,
                          int color_type, const std::string& rows,
                          const std::string& palette) {
  return WritePng(height, width, depth, color_type, rows, palette,
                  /*interlaced=*/false);
}

std::string EncodeJpeg(int64_t height, int64_t width, int components,
                       const std::vector<uint8_t>& rows, bool progressive) {
  jpeg_compress_struct jpeg = {};
  jpeg_error_mgr errors;
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;  // NOLINT: libjpeg's type.
  jpeg_mem_dest(&jpeg, &bytes, &size);
  jpeg.image_width = static_cast<JDIMENSION>(width);
  jpeg.image_height = static_cast<JDIMENSION>(height);
  jpeg.input_components = components;
  jpeg.in_color_space = components == 1   ? JCS_GRAYSCALE
                        : components == 3 ? JCS_RGB
                        : components == 4 ? JCS_CMYK
                                          : JCS_UNKNOWN;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, 90, TRUE);
  if (progressive) jpeg_simple_progression(&jpeg);
  jpeg_start_compress(&jpeg, TRUE);
  while (jpeg.next_scanline < jpeg.image_height) {
    JSAMPROW row = const_cast<JSAMPROW>(rows.data()) +
                   jpeg.next_scanline * static_cast<size_t>(width) *
                       static_cast<size_t>(components);
    jpeg_write_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_compress(&jpeg);
  jpeg_destroy_compress(&jpeg);
  std::string encoded(reinterpret_cast<const char*>(bytes), size);
  free(bytes);
  return encoded;
}

std::string TarHeader(const std::string& name, int64_t size, char type,
                      const std::string& prefix) {
  std::string header(512, '\0');
  header.replace(0, name.size(), name);
  header.replace(100, 8, absl::StrFormat("%07o", 0644) + '\0');
  header.replace(124, 12, absl::StrFormat("%011o", size) + '\0');
  header[156] = type;
  header.replace(257, 8, std::string("ustar\00000", 8));
  header.replace(345, prefix.size(), prefix);
  header.replace(148, 8, 8, ' ');
  unsigned sum = 0;
  for (const char byte : header) sum += static_cast<unsigned char>(byte);
  header.replace(148, 8, absl::StrFormat("%06o", sum) + std::string("\0 ", 2));
  return header;
}

std::string TarFile(const std::string& name, const std::string& contents,
                    char type) {
  std::string member = absl::StrCat(
      TarHeader(name, static_cast<int64_t>(contents.size()), type), contents);
  member.resize((member.size() + 511) / 512 * 512);
  return member;
}

std::string TarEnd() { return std::string(1024, '\0'); }

std::string Npy(const std::string& type, const std::vector<int64_t>& shape,
                const std::string& contents) {
  std::string header = absl::StrCat(
      "{'descr': '", type, "', 'fortran_order': False, 'shape': (",
      absl::StrJoin(shape, ", "), shape.size() == 1 ? ",), }" : "), }");
  header.resize((header.size() + 11 + 63) / 64 * 64 - 11, ' ');
  header += '\n';
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes.push_back(static_cast<char>(header.size()));
  bytes.push_back(static_cast<char>(header.size() >> 8));
  return absl::StrCat(bytes, header, contents);
}

std::string Idx(const std::vector<int64_t>& shape,
                const std::string& contents) {
  std::string bytes = BigEndian(0x800 + static_cast<int64_t>(shape.size()));
  for (const int64_t size : shape) bytes += BigEndian(size);
  return bytes + contents;
}

}  // namespace tributary
