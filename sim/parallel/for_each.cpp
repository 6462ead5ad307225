#include "sim/parallel/for_each.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace foreshard::sim {
namespace {

constexpr std::chrono::milliseconds kProgressPause{100};

struct Failure {
  std::mutex mutex;
  std::size_t index = 0;
  std::exception_ptr exception;

  void keep(std::size_t at) {
    const std::lock_guard lock(mutex);
    if (exception && index < at) return;
    index = at;
    exception = std::current_exception();
  }
};

}  // namespace

unsigned hardware_threads() {
  return std::max(1U, std::thread::hardware_concurrency());
}

void for_each(std::size_t count, unsigned threads, const std::function<void(std::size_t)>& work,
              const std::function<void(std::size_t)>& progress) {
  const std::size_t workers = std::min<std::size_t>(std::max(1U, threads), count);
  if (workers <= 1) {
    for (std::size_t i = 0; i < count; ++i) {
      work(i);
      if (progress) progress(i + 1);
    }
    return;
  }
  std::atomic<std::size_t> next{0};
  std::atomic<std::size_t> done{0};
  Failure failure;
  std::mutex mutex;
  std::condition_variable ended;
  std::size_t running = workers;
  const auto run = [&] {
    for (std::size_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) {
      try {
        work(i);
      } catch (...) {
        failure.keep(i);
        next.store(count);
      }
      done.fetch_add(1);
    }
    const std::lock_guard lock(mutex);
    --running;
    ended.notify_one();
  };
  std::vector<std::jthread> pool;
  while (pool.size() < (progress ? workers : workers - 1)) pool.emplace_back(run);
  if (!progress) run();
  {
    std::unique_lock lock(mutex);
    while (!ended.wait_for(lock, kProgressPause, [&] { return running == 0; })) {
      lock.unlock();
      if (progress) progress(done.load());
      lock.lock();
    }
  }
  pool.clear();
  if (failure.exception) std::rethrow_exception(failure.exception);
  if (progress) progress(count);
}

}  // namespace foreshard::sim
