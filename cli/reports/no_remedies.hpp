// What a report says where the user wanted no remedies: the option's name, which its texts look for.
#pragma once

namespace foreshard::cli {

inline constexpr const char* kNoRemedies = "--no-remedies";

}  // namespace foreshard::cli
