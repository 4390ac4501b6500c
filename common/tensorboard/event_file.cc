#include "common/tensorboard/event_file.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/os/file.h"
#include "common/os/process.h"
#include "common/tensorboard/event.pb.h"

namespace tributary {
namespace {

using tensorboard::Event;

constexpr int kFloat = 1;   // Tensor.dtype
constexpr int kString = 7;  // Tensor.dtype
constexpr int kTensor = 2;  // Metadata.data_class

// The table of the CRC-32C, bit-reversed polynomial 0x82f63b78.
constexpr std::array<uint32_t, 256> MakeCrcTable() {
  std::array<uint32_t, 256> table = {};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0);
    }
    table[byte] = crc;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kCrcTable = MakeCrcTable();

Event EventAt(absl::Time now, int64_t step) {
  Event event;
  event.set_wall_time(absl::ToDoubleSeconds(now - absl::UnixEpoch()));
  event.set_step(step);
  return event;
}

// Returns an event for the HParams plugin, which reads only the metadata.
std::string HParamsEvent(absl::Time now, const std::string& tag,
                         const tensorboard::HParams& data) {
  Event event = EventAt(now, 0);
  tensorboard::Summary::Value* const value =
      event.mutable_summary()->add_value();
  value->set_tag(tag);
  value->mutable_tensor()->set_dtype(kFloat);
  value->mutable_tensor()->mutable_tensor_shape()->add_dim();
  value->mutable_metadata()->mutable_plugin_data()->set_plugin_name("hparams");
  value->mutable_metadata()->mutable_plugin_data()->set_content(
      data.SerializeAsString());
  return event.SerializeAsString();
}

template <typename Number>
void AppendNumber(Number number, std::string* bytes) {
  char encoded[sizeof(number)];
  std::memcpy(encoded, &number, sizeof(number));
  bytes->append(encoded, sizeof(number));
}

}  // namespace

uint32_t MaskedCrc32c(absl::string_view bytes) {
  uint32_t crc = ~0u;
  for (const char c : bytes) {
    crc = kCrcTable[(crc ^ static_cast<uint8_t>(c)) & 0xff] ^ (crc >> 8);
  }
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

absl::StatusOr<std::unique_ptr<EventFile>> EventFile::Create(
    const std::string& folder, absl::Time now) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return FileError(error.value(), "cannot create folder", folder);
  std::string path;
  for (int number = 0;; ++number) {
    path = absl::StrFormat("%s/events.out.tfevents.%010d.%s.%03d", folder,
                           absl::ToUnixSeconds(now), HostName(), number);
    if (!PathExists(path)) break;
  }
  std::ofstream file(path, std::ios::binary);
  if (!file) return FileError(errno, "cannot write", path);
  auto made = std::unique_ptr<EventFile>(new EventFile(path, std::move(file)));
  Event event = EventAt(now, 0);
  event.set_file_version("brain.Event:2");
  made->Write(event.SerializeAsString());
  if (!made->status().ok()) return made->status();
  return made;
}

void EventFile::Write(const std::string& event) {
  std::string record;
  AppendNumber(static_cast<uint64_t>(event.size()), &record);
  AppendNumber(MaskedCrc32c(record), &record);
  record += event;
  AppendNumber(MaskedCrc32c(event), &record);
  file_.write(record.data(), static_cast<std::streamsize>(record.size()));
  file_.flush();
  if (file_) return;
  status_ = FileError(errno, "cannot write", path_);
  file_.clear();
}

void EventFile::AddRestart(absl::Time now, int64_t step) {
  Event event = EventAt(now, step);
  event.mutable_session_log()->set_status(tensorboard::SessionLog::START);
  Write(event.SerializeAsString());
}

void EventFile::AddScalars(absl::Time now, int64_t step,
                           const std::map<std::string, double>& values) {
  Event event = EventAt(now, step);
  for (const auto& [tag, number] : values) {
    tensorboard::Summary::Value* const value =
        event.mutable_summary()->add_value();
    value->set_tag(tag);
    value->set_simple_value(static_cast<float>(number));
  }
  Write(event.SerializeAsString());
}

void EventFile::AddText(absl::Time now, int64_t step, absl::string_view tag,
                        absl::string_view text) {
  Event event = EventAt(now, step);
  tensorboard::Summary::Value* const value =
      event.mutable_summary()->add_value();
  value->set_tag(std::string(tag));
  value->mutable_tensor()->set_dtype(kString);
  value->mutable_tensor()->mutable_tensor_shape();
  value->mutable_tensor()->add_string_val(std::string(text));
  value->mutable_metadata()->mutable_plugin_data()->set_plugin_name("text");
  value->mutable_metadata()->set_data_class(kTensor);
  Write(event.SerializeAsString());
}

void EventFile::AddSessionStart(
    absl::Time now, const std::map<std::string, HyperParameter>& parameters) {
  tensorboard::HParams data;
  tensorboard::HParams::SessionStart* const start =
      data.mutable_session_start_info();
  for (const auto& [name, parameter] : parameters) {
    google::protobuf::Value& value = (*start->mutable_hparams())[name];
    if (parameter.text.empty()) {
      value.set_number_value(parameter.number);
    } else {
      value.set_string_value(parameter.text);
    }
  }
  start->set_start_time_secs(absl::ToDoubleSeconds(now - absl::UnixEpoch()));
  Write(HParamsEvent(now, "_hparams_/session_start_info", data));
}

void EventFile::AddSessionEnd(absl::Time now, bool success) {
  tensorboard::HParams data;
  data.mutable_session_end_info()->set_status(success ? 1 : 2);
  data.mutable_session_end_info()->set_end_time_secs(
      absl::ToDoubleSeconds(now - absl::UnixEpoch()));
  Write(HParamsEvent(now, "_hparams_/session_end_info", data));
}

}  // namespace tributary
