// Writes small safetensors files for tests: headers as given, data of zero bytes.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace foreshard::traces {

/// A folder that goes when the test ends.
class Folder {
 public:
  Folder() {
    static int count = 0;
    path_ = std::filesystem::temp_directory_path() /
            ("foreshard_model_files_" + std::to_string(::getpid()) + "_" + std::to_string(count++));
    std::filesystem::create_directories(path_);
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  [[nodiscard]] std::string path(const std::string& name = {}) const { return (path_ / name).string(); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name, std::ios::binary) << text;
    return path(name);
  }

 private:
  std::filesystem::path path_;
};

/// 8 bytes of length, the header, `data_bytes` zeros.
inline std::string safetensors_bytes(const std::string& header, std::size_t data_bytes) {
  std::string out;
  std::uint64_t length = header.size();
  for (int i = 0; i < 8; ++i, length >>= 8) out.push_back(static_cast<char>(length & 0xFF));
  return out + header + std::string(data_bytes, '\0');
}

}  // namespace foreshard::traces
