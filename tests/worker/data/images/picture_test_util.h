// Writes pictures in the formats that data.images reads.
#ifndef TRIBUTARY_TESTS_WORKER_DATA_IMAGES_PICTURE_TEST_UTIL_H_
#define TRIBUTARY_TESTS_WORKER_DATA_IMAGES_PICTURE_TEST_UTIL_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "worker/data/images/picture.h"

namespace tributary {

// Returns a picture whose pixels depend on `number`.
Picture MakePicture(int64_t height, int64_t width, int64_t channels,
                    uint32_t number);

// Encodes a picture as PNG with 8 bits, interlaced or not.
std::string EncodePng(const Picture& picture, bool interlaced = false);
// Encodes raw rows as PNG of any color type and depth. `palette` has three
// bytes for each color.
std::string EncodePngRows(int64_t height, int64_t width, int depth,
                          int color_type, const std::string& rows,
                          const std::string& palette = "");
// Encodes as JPEG. `components` is the number of channels; with 4, the rows are
// CMYK, and with 2, the file names no color space.
std::string EncodeJpeg(int64_t height, int64_t width, int components,
                       const std::vector<uint8_t>& rows,
                       bool progressive = false);

// Returns a header of tar's format ustar, with a checksum.
std::string TarHeader(const std::string& name, int64_t size, char type = '0',
                      const std::string& prefix = "");
// Returns a member: header and padded contents.
std::string TarFile(const std::string& name, const std::string& contents,
                    char type = '0');
// Returns the end of an archive.
std::string TarEnd();

// Returns a NumPy array of the type, such as `|u1`.
std::string Npy(const std::string& type, const std::vector<int64_t>& shape,
                const std::string& contents);
// Returns an IDX file of unsigned bytes.
std::string Idx(const std::vector<int64_t>& shape, const std::string& contents);

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_WORKER_DATA_IMAGES_PICTURE_TEST_UTIL_H_
