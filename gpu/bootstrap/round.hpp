// One collective call of Exchange as the rendezvous sees it: shares come in by rank, in any order. Used by the
// rendezvous server. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gpu/bootstrap/failure.hpp"
#include "gpu/bootstrap/message.hpp"

namespace foreshard::gpu {

class Round {
 public:
  explicit Round(std::uint32_t ranks) : shares_(ranks) {}

  /// Takes a rank's share. A failure (mismatch) where it asks for another call than the ranks before it, comes twice,
  /// or brings too much.
  [[nodiscard]] std::optional<RunFailure> enter(std::uint32_t rank, Enter enter);
  [[nodiscard]] bool complete() const { return came_ == shares_.size(); }
  /// All shares; the next round begins.
  [[nodiscard]] Gathered take();

 private:
  std::vector<std::optional<std::string>> shares_;
  std::size_t came_ = 0;
  std::uint64_t sequence_ = 0;
  std::uint32_t first_ = 0;  ///< the rank that came first
  std::string what_;
  std::size_t bytes_ = 0;
};

}  // namespace foreshard::gpu
