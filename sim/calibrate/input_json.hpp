// An object of others' JSON, as far as measurements need it: read with the place of what is wrong.
//
// Used by the readers of this folder. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "core/base/error.hpp"

namespace foreshard::sim {

/// Reads members of one object; remembers the first thing that is wrong.
class InputObject {
 public:
  /// `place` is what errors name: "file row 3".
  InputObject(const nlohmann::json& object, std::string place);

  [[nodiscard]] bool has(const char* key) const;
  /// A finite number above 0 (nccl-tests writes some as strings: those are read too).
  double positive(const char* key);
  /// A whole number from `least` to `most`.
  std::uint64_t whole(const char* key, std::uint64_t least, std::uint64_t most);
  /// Bytes from `least`: a whole number, or as nccl-tests abbreviates them ("128M", nccl_size.hpp).
  std::uint64_t size(const char* key, std::uint64_t least);
  std::string text(const char* key);
  /// True or false; false where the key is absent.
  bool flag(const char* key);
  void fail(std::string what, std::string hint = {});
  [[nodiscard]] const Error* error() const { return failed_ ? &error_ : nullptr; }

 private:
  [[nodiscard]] const nlohmann::json* find(const char* key);

  const nlohmann::json& object_;
  std::string place_;
  bool failed_ = false;
  Error error_;
};

}  // namespace foreshard::sim
