// Threads that stay, for much work in small pieces: for_each.hpp starts its own each time, which takes as long as tens
// of microseconds of work.
//
// A thread without work looks for more for a while before it sleeps, so that the next pieces find it awake.
//
// Who: sim/ranks/job.cpp, for the ranks that go on at one time. One owner, whose thread works, too.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace foreshard::sim {

class Workers {
 public:
  /// `threads`: with the owner's; with one all runs on that. Where the system starts fewer (EAGAIN: a limit of threads
  /// or of memory), with those.
  explicit Workers(unsigned threads);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// Calls `work` once for each index below `count`, on any thread, in no order; it must only touch what belongs to its
  /// index, and not throw, which ends the process. Ends once all are done.
  void for_each(std::uint32_t count, const std::function<void(std::size_t)>& work) noexcept;

 private:
  void run();
  void take_pieces();

  const std::function<void(std::size_t)>* work_ = nullptr;
  std::atomic<std::uint32_t> left_{0};   // indices that nobody has taken: those below it
  std::atomic<std::uint32_t> done_{0};   // of this call
  std::atomic<std::uint32_t> calls_{0};  // changes where there is work, or no more ever
  std::atomic<bool> ends_{false};
  std::vector<std::jthread> threads_;
};

}  // namespace foreshard::sim
