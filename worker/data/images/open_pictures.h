// Opens the pictures of one part of the data (training or held-out).
#ifndef TRIBUTARY_WORKER_DATA_IMAGES_OPEN_PICTURES_H_
#define TRIBUTARY_WORKER_DATA_IMAGES_OPEN_PICTURES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "worker/data/images/picture_source.h"

namespace tributary {

// Appends the contents of the file at `path`, decompressed, to `bytes`.
using FileLoader =
    std::function<absl::Status(const std::string& path, std::string* bytes)>;

// Opens the files or folders of `paths`, of which there is at least one. If
// `*format` is AUTO, sets it to the format that the names and contents of the
// files indicate. For folders and archives, sets `classes` if it is empty (see
// EncodedPictures). Files of other formats are read with `load`. Returns
// NotFound if a file does not exist, and otherwise InvalidArgument, naming the
// file.
absl::StatusOr<std::unique_ptr<PictureSource>> OpenPictures(
    const google::protobuf::RepeatedPtrField<std::string>& paths,
    int64_t channels, const FileLoader& load, ImagesSpec::Format* format,
    std::vector<std::string>* classes);

// Opens pictures whose labels, if there are any, are not used: a JPEG or PNG
// file, a folder or a tar archive of these, or a file of another format without
// its file of labels. `format` is the format of the training data, or AUTO if
// it is unknown. Returns the same errors as OpenPictures.
absl::StatusOr<std::unique_ptr<PictureSource>> OpenUnlabeledPictures(
    const std::string& path, int64_t channels, const FileLoader& load,
    ImagesSpec::Format format);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_IMAGES_OPEN_PICTURES_H_
