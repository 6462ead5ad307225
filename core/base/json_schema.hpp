// The version of all JSON that foreshard answers with: of every verb's --json, and of the server's answers to SQL.
#pragma once

namespace foreshard {

/// Raised when a key changes its meaning or goes; a new key does not raise it (docs/exit_codes.md, "JSON").
inline constexpr int kJsonSchema = 1;

}  // namespace foreshard
