// Lines are paths of a folder's files: what they are and which are chosen, or an Error; a chosen path is one of them.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/check.hpp"
#include "traces/folder/recording_folder.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  foreshard::traces::RecordingFiles found;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(line.size() < text.size() ? line.size() + 1 : line.size());
    if (auto file = foreshard::traces::recording_file(line)) found.files.push_back(std::move(*file));
  }
  const std::string folder = "d";
  for (const foreshard::traces::WantedRecording wanted : {foreshard::traces::WantedRecording{}, {1, 10}, {0, {}}}) {
    const auto chosen = choose_recording(folder, found, wanted);
    FORESHARD_CHECK(!chosen || !chosen->snapshot.empty() || !chosen->trace.empty(), "something to import");
  }
  return 0;
}
