#include "cli/terminal/early_end.hpp"

#include <atomic>
#include <csignal>

namespace foreshard::cli {
namespace {

std::atomic<bool> ends_early{false};
std::atomic<int> kept_number{0};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

}  // namespace

EarlyEnd::EarlyEnd() {
  ends_early = true;
}

EarlyEnd::~EarlyEnd() {
  ends_early = false;
}

int kept_signal() noexcept {
  return kept_number;
}

bool keep_signal(int signal) noexcept {
  int none = 0;
  return (signal == SIGINT || signal == SIGTERM) && ends_early && kept_number.compare_exchange_strong(none, signal);
}

void forget_signal() noexcept {
  kept_number = 0;
}

}  // namespace foreshard::cli
