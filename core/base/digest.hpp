// A digest of bytes: XXH3 with 64 bits, written "xxh3:" and 16 hexadecimal digits. It tells inputs apart; it does not
// protect against anyone. The same on every machine. Pure.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace foreshard {

class Digest {
 public:
  Digest();
  ~Digest();
  Digest(const Digest&) = delete;
  Digest& operator=(const Digest&) = delete;

  void add(std::string_view bytes);
  /// A part with its name and length, so that no two lists of parts give the same bytes.
  void add_part(std::string_view name, std::string_view bytes);
  /// "xxh3:0123456789abcdef" of everything so far.
  [[nodiscard]] std::string text() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

[[nodiscard]] std::string digest_of(std::string_view bytes);

}  // namespace foreshard
