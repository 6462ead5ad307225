// The recorded PyTorch runs that reference tests are held against. They are not in the repository: the environment's
// FORESHARD_TRUTH names their folder, and a test skips where it does not:
//
//   const auto folder = truth_folder("runs");
//   if (!folder) FORESHARD_SKIP(kNoTruth);
#pragma once

#include <optional>
#include <string>

namespace foreshard::test {

inline constexpr const char* kNoTruth = "FORESHARD_TRUTH does not name the folder of the reference runs";

/// FORESHARD_TRUTH/`part`, one of "runs", "allocator", "collectives", or "" for the whole; nothing where it is not
/// there.
[[nodiscard]] std::optional<std::string> truth_folder(const std::string& part = {});

}  // namespace foreshard::test
