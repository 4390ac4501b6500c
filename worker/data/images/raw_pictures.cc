#include "worker/data/images/raw_pictures.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/data/images/decode_picture.h"

namespace tributary {

RawPictures::RawPictures(std::vector<RawFile> files, int64_t channels)
    : files_(std::move(files)), channels_(channels) {
  int64_t end = 0;
  for (const RawFile& file : files_) ends_.push_back(end += file.layout.count);
}

RawPictures::Place RawPictures::PlaceOf(int64_t index) const {
  const auto end = std::upper_bound(ends_.begin(), ends_.end(), index);
  const int64_t begin = end == ends_.begin() ? 0 : *(end - 1);
  return {&files_[static_cast<size_t>(end - ends_.begin())], index - begin};
}

int64_t RawPictures::Label(int64_t index) const {
  const Place place = PlaceOf(index);
  return place.file->layout.labels[static_cast<size_t>(place.index)];
}

std::string RawPictures::Name(int64_t index) const {
  const Place place = PlaceOf(index);
  return absl::StrCat(place.file->path, ": picture ", place.index);
}

absl::StatusOr<Picture> RawPictures::Read(int64_t index) const {
  const Place place = PlaceOf(index);
  const RawLayout& layout = place.file->layout;
  const char* const from =
      place.file->bytes.data() + layout.first + place.index * layout.stride;
  Picture picture;
  picture.height = layout.height;
  picture.width = layout.width;
  picture.channels = layout.channels;
  const int64_t pixels = layout.height * layout.width;
  picture.pixels.resize(static_cast<size_t>(pixels * layout.channels));
  uint8_t* const to = picture.pixels.data();
  if (!layout.planar || layout.channels == 1) {
    memcpy(to, from, picture.pixels.size());
  } else {
    for (int64_t c = 0; c < layout.channels; ++c) {
      for (int64_t i = 0; i < pixels; ++i) {
        to[i * layout.channels + c] =
            static_cast<uint8_t>(from[c * pixels + i]);
      }
    }
  }
  return WithChannels(std::move(picture), channels_);
}

absl::StatusOr<uint64_t> RawPictures::Hash(int64_t index) const {
  const Place place = PlaceOf(index);
  const RawLayout& layout = place.file->layout;
  return XXH3_64bits_withSeed(
      place.file->bytes.data() + layout.first + place.index * layout.stride,
      static_cast<size_t>(layout.height * layout.width * layout.channels),
      static_cast<XXH64_hash_t>(
          layout.labels[static_cast<size_t>(place.index)]));
}

}  // namespace tributary
