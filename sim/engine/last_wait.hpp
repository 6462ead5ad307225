// What an op waited for last before it began: who is late where others wait for it.
//
// Who: sim/engine/engine.hpp finds it for each op of a joint engine; sim/ranks counts waits by it (docs/ranks.md,
// "What holds the last rank up").
#pragma once

#include <cstdint>

#include "core/device/collective.hpp"

namespace foreshard::sim {

class LastWait {
 public:
  /// What its own GPU had before it: kernels, copies, SMs that were taken.
  constexpr LastWait() = default;
  /// Its host had not issued it.
  static constexpr LastWait host() { return LastWait(1); }
  /// A collective ended then.
  static constexpr LastWait collective(CommunicatorId communicator) {
    return LastWait(static_cast<std::uint16_t>(kFirst + communicator.value));
  }

  [[nodiscard]] constexpr bool is_host() const { return code_ == 1; }
  [[nodiscard]] constexpr bool is_collective() const { return code_ >= kFirst; }
  /// Of a collective.
  [[nodiscard]] constexpr CommunicatorId communicator() const { return {std::uint32_t{code_} - kFirst}; }
  [[nodiscard]] constexpr std::uint16_t code() const { return code_; }
  bool operator==(const LastWait&) const = default;

 private:
  static constexpr std::uint16_t kFirst = 2;
  constexpr explicit LastWait(std::uint16_t code) : code_(code) {}

  std::uint16_t code_ = 0;
};

}  // namespace foreshard::sim
