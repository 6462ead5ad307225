#include "gpu/bootstrap/agreement.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace foreshard::gpu {
namespace {

RunFailure mismatch(std::uint32_t rank, std::string cause, std::string hint) {
  return {ErrorKind::mismatch, rank, {}, std::move(cause), {}, std::move(hint)};
}

constexpr const char* kSameCommand = "start every rank with the same command, on the same build of foreshard";

/// The rank whose settings most ranks have; of equals the lowest.
std::size_t reference(std::span<const Hello> hellos) {
  std::size_t best = 0, most = 0;
  for (std::size_t i = 0; i < hellos.size() && most * 2 <= hellos.size(); ++i) {
    const auto same = static_cast<std::size_t>(std::count_if(
        hellos.begin(), hellos.end(), [&](const Hello& other) { return other.settings == hellos[i].settings; }));
    if (same > most) {
      most = same;
      best = i;
    }
  }
  return best;
}

const Setting* find(const std::vector<Setting>& settings, const std::string& key) {
  const auto found = std::find_if(settings.begin(), settings.end(), [&](const Setting& s) { return s.key == key; });
  return found == settings.end() ? nullptr : &*found;
}

/// "--batch is 4 there and 2 at rank 0": of the first key, in the reference's order, that differs.
std::string difference(const Hello& other, const Hello& reference) {
  const auto say = [&](const std::string& key, const Setting* there, const Setting* here) {
    return fmt::format("was started with other settings: {} is {} there and {} at rank {}", key,
                       there == nullptr ? "not set" : "'" + there->value + "'",
                       here == nullptr ? "not set" : "'" + here->value + "'", reference.rank);
  };
  for (const Setting& here : reference.settings) {
    const Setting* there = find(other.settings, here.key);
    if (there == nullptr || there->value != here.value) return say(here.key, there, &here);
  }
  for (const Setting& there : other.settings)
    if (find(reference.settings, there.key) == nullptr) return say(there.key, &there, nullptr);
  return fmt::format("was started with the same settings as rank {} in another order", reference.rank);
}

std::optional<RunFailure> check_hosts(std::span<const Hello> hellos) {
  for (const Hello& hello : hellos) {
    const Hello& first = hellos[hello.rank - hello.local_rank];
    if (first.local_rank == 0 && first.local_ranks == hello.local_ranks && first.host == hello.host) continue;
    return mismatch(
        hello.rank,
        fmt::format("reports local rank {} of {} on host {}, but rank {} reports local rank {} of {} on host {}",
                    hello.local_rank, hello.local_ranks, hello.host, first.rank, first.local_rank, first.local_ranks,
                    first.host),
        "the ranks of a host must have consecutive numbers: srun --distribution=block");
  }
  return std::nullopt;
}

}  // namespace

std::optional<RunFailure> check_numbers(const Hello& hello, std::uint32_t ranks) {
  if (hello.ranks != ranks)
    return mismatch(hello.rank, fmt::format("was started as one of {} ranks, not {}", hello.ranks, ranks),
                    kSameCommand);
  if (hello.rank < ranks && hello.local_rank <= hello.rank && hello.local_rank < hello.local_ranks &&
      hello.local_ranks <= ranks - (hello.rank - hello.local_rank))
    return std::nullopt;
  return mismatch(hello.rank,
                  fmt::format("reports local rank {} of {} on its host, in a run of {} ranks", hello.local_rank,
                              hello.local_ranks, ranks),
                  "the ranks of a host must have consecutive numbers");
}

std::optional<RunFailure> first_disagreement(std::span<const Hello> hellos) {
  if (auto wrong = check_hosts(hellos)) return wrong;
  const Hello& expected = hellos[reference(hellos)];
  for (const Hello& hello : hellos)
    if (hello.settings != expected.settings) return mismatch(hello.rank, difference(hello, expected), kSameCommand);
  return std::nullopt;
}

}  // namespace foreshard::gpu
