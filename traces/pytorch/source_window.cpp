#include "traces/pytorch/source_window.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/units.hpp"

namespace foreshard::traces {
namespace {

constexpr std::size_t kReadAtOnce = 256 * kKiB;

}  // namespace

/// Grows with what the source gives, not with `count`: a length in a damaged file can be anything.
Result<void> SourceWindow::fill(std::size_t count) {
  bytes_.erase(0, begin_);
  end_ -= begin_;
  begin_ = 0;
  while (end_ < count) {
    bytes_.resize(end_ + kReadAtOnce);
    const auto read = source_.read({bytes_.data() + end_, kReadAtOnce});
    FORESHARD_TRY(read);
    end_ += *read;
    if (source_.position() > limit_)
      return fail(ErrorKind::input, fmt::format("the file holds more than {}", format_bytes(limit_)), source_.name());
    if (*read < kReadAtOnce) break;
  }
  bytes_.resize(end_);
  return {};
}

}  // namespace foreshard::traces
