#include "gpu/bootstrap/round.hpp"

#include <fmt/core.h>

#include <utility>

namespace foreshard::gpu {

std::optional<RunFailure> Round::enter(std::uint32_t rank, Enter enter) {
  const auto mismatch = [&](std::string cause) {
    return RunFailure{ErrorKind::mismatch, rank, enter.what, std::move(cause), {}, {}};
  };
  if (shares_[rank].has_value() || enter.sequence != sequence_)
    return mismatch(fmt::format("comes to collective call {}, the others are at {}", enter.sequence, sequence_));
  if (came_ == 0) {
    what_ = enter.what;
    first_ = rank;
  }
  if (enter.what != what_)
    return mismatch(fmt::format("asks for '{}' where rank {} asks for '{}'", enter.what, first_, what_));
  bytes_ += enter.bytes.size();
  if (enter.bytes.size() > kMaxShareBytes || bytes_ > kMaxRoundBytes)
    return mismatch(fmt::format("brings {} bytes to '{}': too much", enter.bytes.size(), what_));
  shares_[rank] = std::move(enter.bytes);
  ++came_;
  return std::nullopt;
}

Gathered Round::take() {
  Gathered out{sequence_, {}};
  for (std::optional<std::string>& share : shares_) {
    out.bytes.push_back(std::move(*share));
    share.reset();
  }
  ++sequence_;
  came_ = bytes_ = 0;
  return out;
}

}  // namespace foreshard::gpu
