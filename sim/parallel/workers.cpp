#include "sim/parallel/workers.hpp"

#include <exception>

namespace foreshard::sim {
namespace {

/// Looks for work before a thread sleeps, some tens of microseconds: what lies between two calls of a job.
constexpr int kLooks = 2000;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

}  // namespace

Workers::Workers(unsigned threads) {
  if (threads < 2) return;
  threads_.reserve(threads - 1);
  try {
    while (threads_.size() < threads - 1) threads_.emplace_back([this] { run(); });
  } catch (const std::exception&) {  // those that started wait for work: thrown on, their destructors would, for ever
  }
}

Workers::~Workers() {
  ends_ = true;
  ++calls_;
  calls_.notify_all();
}

void Workers::for_each(std::uint32_t count, const std::function<void(std::size_t)>& work) noexcept {
  work_ = &work;
  done_.store(0, std::memory_order_relaxed);
  left_.store(count, std::memory_order_release);
  if (!threads_.empty() && count > 1) {
    calls_.fetch_add(1, std::memory_order_release);
    calls_.notify_all();
  }
  take_pieces();
  for (int looks = 0; done_.load(std::memory_order_acquire) < count; ++looks)
    looks < kLooks ? pause() : std::this_thread::yield();
}

void Workers::take_pieces() {
  std::uint32_t left = left_.load(std::memory_order_acquire);
  while (left > 0) {
    if (!left_.compare_exchange_weak(left, left - 1, std::memory_order_acq_rel, std::memory_order_acquire)) continue;
    (*work_)(left - 1);
    done_.fetch_add(1, std::memory_order_release);
    left = left_.load(std::memory_order_acquire);
  }
}

void Workers::run() {
  for (;;) {
    const std::uint32_t calls = calls_.load(std::memory_order_acquire);
    if (ends_) return;  // asked behind the load: the last call says so before it counts
    take_pieces();
    for (int looks = 0; looks < kLooks && calls_.load(std::memory_order_acquire) == calls; ++looks) pause();
    calls_.wait(calls, std::memory_order_acquire);
  }
}

}  // namespace foreshard::sim
