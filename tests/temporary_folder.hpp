// A folder for what a test writes: new, under the system's temporary folder, gone with the object. A test writes
// nowhere else.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace foreshard::test {

class TemporaryFolder {
 public:
  /// Throws std::runtime_error where no folder can be made.
  TemporaryFolder();
  /// Removes the folder with all that is in it.
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// The path of a file of this name in the folder, there or not.
  [[nodiscard]] std::string file(const std::string& name) const { return (path_ / name).string(); }
  /// Writes the file, over what was there; its path. The folders of `name` must be there.
  std::string write(const std::string& name, std::string_view bytes) const;

 private:
  std::filesystem::path path_;
};

/// Writes the file, over what was there. Throws std::runtime_error where it cannot.
void write_file(const std::filesystem::path& path, std::string_view bytes);
/// The bytes of a file; empty where there is none.
[[nodiscard]] std::string file_bytes(const std::filesystem::path& path);

}  // namespace foreshard::test
