// JPEG and PNG files in folders and tar archives.
#ifndef TRIBUTARY_WORKER_DATA_IMAGES_ENCODED_PICTURES_H_
#define TRIBUTARY_WORKER_DATA_IMAGES_ENCODED_PICTURES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/data/files/random_access_file.h"
#include "worker/data/images/picture_source.h"

namespace tributary {

// The place where an encoded picture is stored.
struct EncodedPicture {
  // Empty if the pictures have no labels.
  std::string class_name;
  // Name of the file in the class's folder. Without labels, the path of the
  // file relative to the folder, or the name of the archive's member.
  std::string file_name;
  std::string path;                 // The file, or the archive.
  const RandomAccessFile* archive;  // Null if it is a separate file.
  int64_t offset = 0;               // In the archive, in bytes.
  int64_t size = 0;                 // In the archive, in bytes.
};

// The pictures of one part of the data (training or held-out), ordered by class
// and then by file name. Names are compared byte by byte. Labels are the
// indexes of the classes. Pictures without classes all have the label 0.
class EncodedPictures final : public PictureSource {
 public:
  // Lists the pictures of `paths`, which are folders with one folder per class.
  // Names that begin with `.` are ignored. If `classes` is empty, sets it to
  // the sorted names of the classes. Decoding converts pictures to `channels`
  // channels. Returns NotFound if a path does not exist, and InvalidArgument,
  // naming the path, for a file whose name does not end in .jpg, .jpeg or .png,
  // for folders without pictures, and for a class that `classes` lacks.
  static absl::StatusOr<std::unique_ptr<EncodedPictures>> OpenFolders(
      absl::Span<const std::string> paths, int64_t channels,
      std::vector<std::string>* classes);
  // Like OpenFolders, for uncompressed tar archives. The names of their members
  // end in CLASS/FILE.
  static absl::StatusOr<std::unique_ptr<EncodedPictures>> OpenArchives(
      absl::Span<const std::string> paths, int64_t channels,
      std::vector<std::string>* classes);

  // Lists pictures without labels. `path` is a folder, whose subfolders are
  // also searched, a tar archive, or a single picture. The names of folders
  // have no meaning. Returns the same errors as OpenFolders and OpenArchives.
  static absl::StatusOr<std::unique_ptr<EncodedPictures>> OpenUnlabeled(
      const std::string& path, int64_t channels);

  // Returns the pictures in the order of their indexes.
  absl::Span<const EncodedPicture> pictures() const { return pictures_; }
  int64_t size() const override {
    return static_cast<int64_t>(pictures_.size());
  }
  int64_t Label(int64_t index) const override {
    return labels_[static_cast<size_t>(index)];
  }
  std::string Name(int64_t index) const override;
  absl::StatusOr<Picture> Read(int64_t index) const override;
  // Hashes class, file name, size, and the first and last 4096 bytes.
  absl::StatusOr<uint64_t> Hash(int64_t index) const override;
  absl::optional<uint64_t> Stamp(int64_t index) const override;

 private:
  explicit EncodedPictures(int64_t channels) : channels_(channels) {}

  // Opens the tar archive at `path`, and calls add(file, member) for each file
  // in it. `add` appends the file to pictures_ unless its name begins with `.`.
  template <typename Adder>
  absl::Status AddArchive(const std::string& path, const Adder& add);
  // Sorts the pictures by class, then by file name.
  void Sort();
  // Sorts the pictures and sets their labels, the indexes of their classes in
  // `classes`. If `classes` is empty, first sets it to the sorted names of the
  // classes. Returns InvalidArgument if `classes` lacks a picture's class.
  absl::Status Label(std::vector<std::string>* classes);
  // Calls read(file, offset, size) and returns its status. `file` is the open
  // file that contains picture `index`; the encoded picture is the `size` bytes
  // at `offset`. If the file cannot be opened, returns the error instead.
  template <typename Reader>
  absl::Status WithFile(int64_t index, const Reader& read) const;

  const int64_t channels_;
  std::vector<std::unique_ptr<RandomAccessFile>> archives_;
  std::vector<EncodedPicture> pictures_;
  std::vector<int64_t> labels_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_IMAGES_ENCODED_PICTURES_H_
