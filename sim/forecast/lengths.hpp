// The sequence length of each step of a training run: a list, or a distribution that lengths are drawn from.
//
// Who: forecast.hpp; cli's plan, whose ranks draw theirs. Pure. A draw is a hash of seed and step
// (sim/engine/spread.hpp): it depends on no order and no thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"

namespace foreshard::sim {

/// Tokens of a sample; longer ones are refused.
inline constexpr std::uint32_t kMaxLength = 1U << 24U;

/// What --lengths takes, as a hint.
inline constexpr const char* kLengthForms =
    "give a file with one length a line, a histogram of LENGTH:WEIGHT as 512:10,1024:5, uniform:256..2048 or "
    "lognormal:700,0.55,256..2048";

/// Of a run of more lengths than that, what a change costs is planned at so many of them: each plan takes as long as a
/// change's forecast.
inline constexpr std::size_t kPlannedLengths = 5;

/// A length, and how many of a run's steps it stands for.
struct LengthShare {
  std::uint32_t length = 0;
  double share = 0;  ///< of the steps
};

class Lengths {
 public:
  /// Every step's is `length`.
  [[nodiscard]] static Lengths constant(std::uint32_t length);
  /// Of step `step`, from 0. A list ignores the seed, and begins anew behind its end.
  [[nodiscard]] std::uint32_t at(std::uint64_t seed, std::size_t step) const;
  /// Whether seeds differ.
  [[nodiscard]] bool drawn() const { return kind_ != Kind::list; }
  /// How many steps a list has; 0 of a distribution.
  [[nodiscard]] std::size_t size() const { return kind_ == Kind::list ? values_.size() : 0; }
  /// The same lengths to be drawn, each line of a list as often as another.
  [[nodiscard]] Lengths as_distribution() const;
  /// Every length that it can have, ascending.
  [[nodiscard]] std::vector<std::uint32_t> possible() const;
  /// The same, each rounded up to a multiple of `multiple`, as padding a batch does; 1 leaves them.
  [[nodiscard]] Lengths padded(std::uint32_t multiple) const;
  /// What the first `steps` are made of, in few lengths, ascending: each one and its share where they are no more than
  /// kPlannedLengths, else the nearest ranks of 10, 30, 50, 70 and 90 %, a fifth each. Requires: steps > 0.
  [[nodiscard]] std::vector<LengthShare> shares(std::uint64_t seed, std::size_t steps) const;
  /// Each distinct length of the first `steps` steps, ascending.
  [[nodiscard]] std::vector<std::uint32_t> distinct(std::uint64_t seed, std::size_t steps) const;

 private:
  friend Result<Lengths> parse_length_list(std::string_view text, const std::string& file);
  friend Result<Lengths> parse_distribution(std::string_view text);
  [[nodiscard]] std::uint32_t rounded(std::uint32_t length) const {
    return (length + multiple_ - 1) / multiple_ * multiple_;
  }
  enum class Kind : std::uint8_t { list = 0, histogram = 1, uniform = 2, lognormal = 3 };

  Kind kind_ = Kind::list;
  std::vector<std::uint32_t> values_;  // of a list by step; of a histogram ascending
  std::vector<std::uint64_t> up_to_;   // of a histogram: the sum of weights up to and with each value
  std::uint32_t least_ = 1;            // of uniform and lognormal
  std::uint32_t most_ = 1;
  double median_ = 0;  // of lognormal
  double sigma_ = 0;
  std::uint32_t multiple_ = 1;
};

/// One length a line, in tokens; blank lines and what follows a # are passed over. Errors (input) name `file` and line.
[[nodiscard]] Result<Lengths> parse_length_list(std::string_view text, const std::string& file);

/// "512:10,1024:5,2048:1": lengths with their weights; "uniform:256..2048": each as often;
/// "lognormal:700,0.55,256..2048": median, sigma of the logarithm, and the lengths that draws are cut to.
/// Errors: usage.
[[nodiscard]] Result<Lengths> parse_distribution(std::string_view text);

/// Whether the text is meant as parse_distribution() reads it, and not as a file's name.
[[nodiscard]] bool is_distribution(std::string_view text);

}  // namespace foreshard::sim
