#include "tests/reference/known_misses.hpp"

#include <algorithm>
#include <array>
#include <span>

namespace foreshard::reference {
namespace {

struct Miss {
  std::string_view run;
  double error;
};

// Measured 2026-11-21 with the built-in H200 profile. The Hugging Face models' host is predicted too slow, that of
// llama-1b at 512 tokens too fast: the profile has one host speed, and these processes differ.
constexpr std::array kStep{Miss{"hf_gpt2", 0.282}, Miss{"hf_qwen3", 0.193}, Miss{"hf_qwen3_fwd1bwd1", 0.326},
                           Miss{"l1b_s512_async1", 0.175}, Miss{"l1b_s512_fwd2bwd2", 0.203}};

// Blocks that record_stream marked come back when an event is seen: a matter of time, not of the program.
constexpr std::array kReserved{Miss{"mlp8_stacks", 0.141}};

std::optional<double> find(std::span<const Miss> misses, std::string_view run) {
  const auto it = std::find_if(misses.begin(), misses.end(), [&](const Miss& m) { return m.run == run; });
  return it == misses.end() ? std::nullopt : std::optional(it->error);
}

}  // namespace

std::optional<double> known_step_miss(std::string_view run) {
  return find(kStep, run);
}

std::optional<double> known_reserved_miss(std::string_view run) {
  return find(kReserved, run);
}

}  // namespace foreshard::reference
