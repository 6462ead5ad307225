// The one loop that writes bytes to a descriptor.
#pragma once

#include <string_view>

namespace foreshard::traces {

/// All of `bytes`; a call that a signal interrupts is made again. False with errno set where they did not all go.
[[nodiscard]] bool write_all(int descriptor, std::string_view bytes);

}  // namespace foreshard::traces
