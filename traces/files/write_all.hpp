// The one loop that writes bytes to a descriptor, and what writes them into a file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace foreshard::traces {

/// All of `bytes`; a call that a signal interrupts is made again. False with errno set where they did not all go.
[[nodiscard]] bool write_all(int descriptor, std::string_view bytes);

enum class Put : std::uint8_t { instead, behind };  ///< of what is in the file

/// Opens a file that is there, writes and closes it, as write_all().
[[nodiscard]] bool put_bytes(const std::string& path, std::string_view bytes, Put put);

}  // namespace foreshard::traces
