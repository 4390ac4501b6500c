#include "worker/data/images/jpeg_decoder.h"

#include <csetjmp>
#include <cstdio>
// jpeglib.h needs the declarations of cstdio.
#include <jpeglib.h>
// jerror.h needs those of jpeglib.h.
#include <jerror.h>

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tributary {
namespace {

// The memory that libjpeg may use besides the picture: progressive pictures
// keep all coefficients, two bytes for each sample.
constexpr long kMaxDecoderBytes = 1L << 30;  // NOLINT: libjpeg's type.

// A decompressor and its error handlers. `base` is first, because libjpeg
// passes handlers a pointer to it.
struct Decoder {
  jpeg_error_mgr base;
  jmp_buf failed;
  jpeg_decompress_struct jpeg;
  char message[JMSG_LENGTH_MAX];
  const char* unsupported;
};

[[noreturn]] void Fail(j_common_ptr jpeg) {
  auto* const decoder = reinterpret_cast<Decoder*>(jpeg->err);
  (*jpeg->err->format_message)(jpeg, decoder->message);
  longjmp(decoder->failed, 1);
}

// Called for warnings (level -1) and traces. Data after which libjpeg guesses
// pixels count as damaged.
void CheckWarning(j_common_ptr jpeg, int level) {
  if (level >= 0) return;
  switch (jpeg->err->msg_code) {
    case JWRN_EXTRANEOUS_DATA:
    case JWRN_ADOBE_XFORM:
    case JWRN_JFIF_MAJOR:
      return;
    default:
      Fail(jpeg);
  }
}

void Discard(j_common_ptr) {}

// Reads the header, and starts to decompress. Only objects without destructors
// may exist in the functions below, because longjmp leaves them.
bool Start(absl::string_view bytes, Decoder* decoder) {
  jpeg_decompress_struct* const jpeg = &decoder->jpeg;
  if (setjmp(decoder->failed) != 0) return false;
  jpeg_create_decompress(jpeg);
  jpeg->mem->max_memory_to_use = kMaxDecoderBytes;
  jpeg_mem_src(jpeg, reinterpret_cast<const unsigned char*>(bytes.data()),
               bytes.size());
  jpeg_read_header(jpeg, TRUE);
  if (static_cast<int64_t>(jpeg->image_height) * jpeg->image_width >
      kMaxPicturePixels) {
    decoder->unsupported = "it has too many pixels";
    return false;
  }
  if (jpeg->num_components != 1 && jpeg->num_components != 3) {
    decoder->unsupported =
        jpeg->num_components == 4
            ? "its colors are CMYK; convert it to RGB, for example with "
              "Pillow's convert(\"RGB\")"
            : "it has neither one nor three channels; convert it to RGB";
    return false;
  }
  jpeg->out_color_space = jpeg->num_components == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg->dct_method = JDCT_ISLOW;
  jpeg->do_fancy_upsampling = TRUE;
  jpeg_start_decompress(jpeg);
  return true;
}

bool ReadRows(uint8_t* pixels, Decoder* decoder) {
  jpeg_decompress_struct* const jpeg = &decoder->jpeg;
  if (setjmp(decoder->failed) != 0) return false;
  const size_t row_bytes =
      size_t{jpeg->output_width} * static_cast<size_t>(jpeg->output_components);
  while (jpeg->output_scanline < jpeg->output_height) {
    JSAMPROW row = pixels + jpeg->output_scanline * row_bytes;
    jpeg_read_scanlines(jpeg, &row, 1);
  }
  jpeg_finish_decompress(jpeg);
  return true;
}

}  // namespace

absl::StatusOr<Picture> DecodeJpeg(absl::string_view bytes) {
  Decoder decoder = {};
  decoder.jpeg.err = jpeg_std_error(&decoder.base);
  decoder.base.error_exit = Fail;
  decoder.base.emit_message = CheckWarning;
  decoder.base.output_message = Discard;
  Picture picture;
  bool decoded = Start(bytes, &decoder);
  if (decoded) {
    picture.height = decoder.jpeg.output_height;
    picture.width = decoder.jpeg.output_width;
    picture.channels = decoder.jpeg.output_components;
    picture.pixels.resize(
        static_cast<size_t>(picture.height * picture.width * picture.channels));
    decoded = ReadRows(picture.pixels.data(), &decoder);
  }
  jpeg_destroy_decompress(&decoder.jpeg);
  if (decoded) return picture;
  if (decoder.unsupported != nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("this JPEG file cannot be used: ", decoder.unsupported));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("this JPEG file is damaged: ", decoder.message));
}

}  // namespace tributary
