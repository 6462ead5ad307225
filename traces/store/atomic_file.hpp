// A file that appears under its name only when it is whole.
//
// Used by traces/store and by verbs that write other files. Write to temporary_path(), then commit(): the bytes are
// made durable (fsync) and the file is renamed. Destroyed without commit, the temporary file is removed. POSIX.
#pragma once

#include <string>

#include "core/base/error.hpp"

namespace foreshard::traces {

class AtomicFile {
 public:
  /// Creates an empty temporary file in the directory of `path`, with a name no other writer has.
  /// Fails (usage) when `path` exists and `replace` is not set.
  [[nodiscard]] static Result<AtomicFile> create(const std::string& path, bool replace);

  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  [[nodiscard]] const std::string& temporary_path() const { return temporary_path_; }
  [[nodiscard]] Result<void> commit();

 private:
  AtomicFile(std::string path, std::string temporary_path, bool replace);

  std::string path_;
  std::string temporary_path_;  ///< empty: nothing left to remove
  bool replace_;
};

}  // namespace foreshard::traces
