// Which program this is, to the byte: what was computed by another one may not be what this one computes.
#pragma once

#include <string>

namespace foreshard::cli {

/// The GNU build id that the linker wrote into the executable, in hexadecimal; empty where it wrote none.
[[nodiscard]] std::string build_id();

}  // namespace foreshard::cli
