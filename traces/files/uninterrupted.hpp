// System calls that go on when a signal interrupts them.
#pragma once

#include <cerrno>

namespace foreshard::traces {

/// What `call` returns, made again while it fails with EINTR. Not for close(), which has closed all the same (Linux).
template <class Call>
[[nodiscard]] auto uninterrupted(const Call& call) {
  auto out = call();
  while (out < 0 && errno == EINTR) out = call();
  return out;
}

}  // namespace foreshard::traces
