#include "worker/data/images/png_decoder.h"

#include <png.h>

#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tributary {
namespace {

// Largest side, and largest auxiliary chunk (for example a color profile).
constexpr png_uint_32 kMaxSide = 1 << 20;
constexpr png_alloc_size_t kMaxChunkBytes = 8 << 20;

// A reader and the input that is left.
struct Reader {
  png_structp png;
  png_infop info;
  const char* next;
  size_t left;
  char message[200];
};

[[noreturn]] void Fail(png_structp png, png_const_charp message) {
  auto* const reader = static_cast<Reader*>(png_get_error_ptr(png));
  snprintf(reader->message, sizeof(reader->message), "%s", message);
  png_longjmp(png, 1);
}

// Warnings concern auxiliary chunks, which do not change the pixels.
void Ignore(png_structp, png_const_charp) {}

void ReadBytes(png_structp png, png_bytep to, size_t count) {
  auto* const reader = static_cast<Reader*>(png_get_io_ptr(png));
  if (count > reader->left) png_error(png, "the file ends too early");
  memcpy(to, reader->next, count);
  reader->next += count;
  reader->left -= count;
}

// Reads the header, and sets up the conversion to 8-bit gray or RGB. Only
// objects without destructors may exist in the functions below, because longjmp
// leaves them.
bool Start(Reader* reader) {
  png_structp const png = reader->png;
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  png_set_user_limits(png, kMaxSide, kMaxSide);
  png_set_chunk_malloc_max(png, kMaxChunkBytes);
  png_set_read_fn(png, reader, ReadBytes);
  png_read_info(png, reader->info);
  if (static_cast<int64_t>(png_get_image_height(png, reader->info)) *
          png_get_image_width(png, reader->info) >
      kMaxPicturePixels) {
    png_error(png, "it has too many pixels");
  }
  png_set_expand(png);
  png_set_strip_16(png);
  png_set_strip_alpha(png);
  png_set_interlace_handling(png);
  png_read_update_info(png, reader->info);
  return true;
}

bool ReadRows(png_bytepp rows, Reader* reader) {
  if (setjmp(png_jmpbuf(reader->png)) != 0) return false;
  png_read_image(reader->png, rows);
  png_read_end(reader->png, nullptr);
  return true;
}

}  // namespace

absl::StatusOr<Picture> DecodePng(absl::string_view bytes) {
  Reader reader = {};
  reader.next = bytes.data();
  reader.left = bytes.size();
  reader.png =
      png_create_read_struct(PNG_LIBPNG_VER_STRING, &reader, Fail, Ignore);
  if (reader.png != nullptr) reader.info = png_create_info_struct(reader.png);
  if (reader.info == nullptr) {
    png_destroy_read_struct(&reader.png, nullptr, nullptr);
    return absl::ResourceExhaustedError("no memory to decode a PNG file");
  }
  Picture picture;
  std::vector<png_bytep> rows;
  bool decoded = Start(&reader);
  if (decoded) {
    picture.height = png_get_image_height(reader.png, reader.info);
    picture.width = png_get_image_width(reader.png, reader.info);
    picture.channels = png_get_channels(reader.png, reader.info);
    const auto row_bytes =
        static_cast<size_t>(picture.width * picture.channels);
    picture.pixels.resize(static_cast<size_t>(picture.height) * row_bytes);
    for (int64_t row = 0; row < picture.height; ++row) {
      rows.push_back(picture.pixels.data() +
                     static_cast<size_t>(row) * row_bytes);
    }
    decoded = png_get_rowbytes(reader.png, reader.info) == row_bytes &&
              ReadRows(rows.data(), &reader);
  }
  png_destroy_read_struct(&reader.png, &reader.info, nullptr);
  if (decoded) return picture;
  return absl::InvalidArgumentError(
      absl::StrCat("this PNG file cannot be decoded: ", reader.message));
}

}  // namespace tributary
