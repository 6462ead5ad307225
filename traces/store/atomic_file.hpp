// A file, or a folder of files, that appears under its name only when it is whole.
//
// Used by traces/store and by verbs that write other files. Write to temporary_path(), then commit(): the bytes are
// made durable (fsync) and the file is renamed. Destroyed without commit, the temporary file is removed; a handler of
// signals that ends the process calls remove_partial_files(). POSIX.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/base/error.hpp"

namespace foreshard::traces {

/// Whether a file can be created as `path`, or, with `replace`, take the place of one: found out before the work.
/// Errors: usage for a directory, a device or a FIFO (renaming a file over it would end it, also with `replace`), a
/// link to nothing, a file that is there without `replace`; input for a directory that is not there or cannot be
/// written to.
[[nodiscard]] Result<void> may_create(const std::string& path, bool replace);

class AtomicFile {
 public:
  /// Creates an empty temporary file beside `path`, or beside the file that `path` is a link to, with a name that
  /// nobody can foresee. Errors: those of may_create().
  [[nodiscard]] static Result<AtomicFile> create(const std::string& path, bool replace);

  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  [[nodiscard]] const std::string& temporary_path() const { return temporary_path_; }
  [[nodiscard]] Result<void> commit();

 private:
  [[nodiscard]] Result<void> take_name();
  AtomicFile(std::string path, std::string temporary_path, bool replace, std::size_t slot);

  std::string path_;
  std::string temporary_path_;  ///< empty: nothing left to remove
  bool replace_;
  std::size_t slot_;  ///< of remove_partial_files()
};

/// A folder that goes again when what it is for was not written.
class NewFolder {
 public:
  /// Creates it with its parents where it is not there. Errors: usage, where it is something else or cannot be made.
  [[nodiscard]] static Result<NewFolder> create(const std::string& path);

  NewFolder(NewFolder&& other) noexcept = default;
  NewFolder& operator=(NewFolder&&) = delete;
  ~NewFolder();
  void keep();

 private:
  struct Made {
    std::string path;
    std::size_t slot = 0;  ///< of remove_partial_files()
  };
  NewFolder() = default;

  std::vector<Made> made_;  ///< it and its parents, the innermost first; empty: it was there, or is to stay
};

/// A folder that appears under its name only with all of its files.
///
/// Write each of them below temporary_path(), then commit(): they are made durable, and the folder is renamed as a
/// whole. Destroyed without commit, all of it goes again, with the parents that were made for it.
class AtomicFolder {
 public:
  /// Creates a temporary folder for files of these `names` beside `path`. An empty folder may be there; with `replace`
  /// also one that holds files of these names and nothing else. Errors: usage for anything else that is there, the
  /// current folder and a mount point, which cannot be replaced; input where no folder can be made.
  [[nodiscard]] static Result<AtomicFolder> create(const std::string& path, bool replace,
                                                   std::vector<std::string> names);

  AtomicFolder(AtomicFolder&& other) noexcept;
  AtomicFolder& operator=(AtomicFolder&&) = delete;
  ~AtomicFolder();

  [[nodiscard]] const std::string& temporary_path() const { return temporary_path_; }
  [[nodiscard]] Result<void> commit();

 private:
  AtomicFolder(std::string path, bool replace, std::vector<std::string> names, NewFolder parent);
  void remove() const;
  [[nodiscard]] Result<void> take_name();

  std::string path_;
  std::string temporary_path_;  ///< empty: nothing left to remove
  bool replace_;
  std::vector<std::string> names_;
  std::vector<std::size_t> slots_;  ///< of remove_partial_files(): the folder's and its files'
  NewFolder parent_;
};

/// Removes the temporary files and new folders of this process, of whatever thread. Async-signal-safe.
void remove_partial_files() noexcept;

}  // namespace foreshard::traces
