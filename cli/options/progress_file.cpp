#include "cli/options/progress_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "cli/options/options.hpp"
#include "core/base/json_io.hpp"
#include "traces/files/uninterrupted.hpp"
#include "traces/files/write_all.hpp"

namespace foreshard::cli {

ProgressFile::~ProgressFile() {
  finish();
}

Result<void> ProgressFile::open(const std::string& path, bool force, const Head& head) {
  FORESHARD_TRY(may_append(path, force));
  path_ = path;
  constexpr int kAppending = O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NONBLOCK;
  file_ = traces::uninterrupted([&] { return ::open(path.c_str(), kAppending, 0644); });
  if (file_ < 0 && errno == ENXIO)
    return fail(ErrorKind::input, "nobody reads from this pipe", path, "start its reader");
  if (file_ < 0) return fail(ErrorKind::input, std::string("cannot be written: ") + std::strerror(errno), path);
  ::fcntl(file_, F_SETFL, O_APPEND);  // a reader that is slow is waited for
  total_ = head.total;
  Json json{
      {"progress", 1}, {"title", head.title}, {"unit", head.unit}, {"total", head.total}, {"columns", head.columns}};
  if (head.limit > 0) json["limit_bytes"] = head.limit;
  if (!head.store.empty()) json["store"] = head.store;
  line(json);
  return {};
}

void ProgressFile::row(const Json& cells) {
  const std::lock_guard lock(mutex_);
  if (file_ < 0) return;
  ++done_;
  line({{"done", done_}, {"total", total_}, {"row", cells}});
}

void ProgressFile::finish() {
  finish(nullptr);
}

void ProgressFile::finish(const Json& best) {
  const std::lock_guard lock(mutex_);
  if (file_ < 0) return;
  Json json{{"finished", true}, {"done", done_}, {"total", total_}};
  if (!best.is_null()) json["best"] = best;
  line(json);
  ::close(file_);
  file_ = -1;
}

void ProgressFile::line(const Json& json) {
  if (file_ < 0 || !failure_.empty()) return;  // what it has stays a beginning of the whole
  if (!traces::write_all(file_, json_text(json) + "\n")) failure_ = std::strerror(errno);
}

Result<void> ProgressFile::result() {
  const std::lock_guard lock(mutex_);
  if (failure_.empty()) return {};
  return fail(ErrorKind::input, "the progress could not be written: " + failure_, path_);
}

}  // namespace foreshard::cli
