// What a rank does now, written by its workers and read by its heartbeat without a lock.
//
// A seqlock over words: a writer makes the version odd, writes, makes it even again; a reader takes a copy whose
// version was even and the same before and after. A writer that meets another one counts its operation and leaves the
// text to that one. Cost of a write: about as much as copying 95 bytes.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "gpu/bootstrap/timeouts.hpp"

namespace foreshard::gpu {

class LastOperation {
 public:
  static constexpr std::size_t kMaxBytes = 95;

  struct Snapshot {
    std::uint64_t progress = 0;  ///< operations so far
    Milliseconds timeout{0};
    std::string text;
  };

  void set(std::string_view text, Milliseconds timeout) {
    std::array<char, kWords * 8> bytes{};
    std::memcpy(bytes.data(), text.data(), std::min(text.size(), kMaxBytes));
    std::uint64_t version = version_.load(std::memory_order_relaxed);
    if (version % 2 == 0 && version_.compare_exchange_strong(version, version + 1, std::memory_order_acquire)) {
      std::atomic_thread_fence(std::memory_order_release);
      for (std::size_t i = 0; i < kWords; ++i) {
        std::uint64_t word;
        std::memcpy(&word, bytes.data() + 8 * i, 8);
        words_[i].store(word, std::memory_order_relaxed);
      }
      timeout_ms_.store(timeout.count(), std::memory_order_relaxed);
      version_.store(version + 2, std::memory_order_release);
    }
    progress_.fetch_add(1, std::memory_order_release);
  }

  [[nodiscard]] Snapshot get() const {
    for (;;) {
      const std::uint64_t version = version_.load(std::memory_order_acquire);
      Snapshot out{
          progress_.load(std::memory_order_acquire), Milliseconds(timeout_ms_.load(std::memory_order_relaxed)), {}};
      std::array<char, kWords * 8> bytes;
      for (std::size_t i = 0; i < kWords; ++i) {
        const std::uint64_t word = words_[i].load(std::memory_order_relaxed);
        std::memcpy(bytes.data() + 8 * i, &word, 8);
      }
      std::atomic_thread_fence(std::memory_order_acquire);
      if (version % 2 != 0 || version_.load(std::memory_order_relaxed) != version) continue;
      out.text = std::string(bytes.data(), strnlen(bytes.data(), kMaxBytes));
      return out;
    }
  }

 private:
  static constexpr std::size_t kWords = 12;  // kMaxBytes and a zero

  std::atomic<std::uint64_t> version_{0};
  std::atomic<std::uint64_t> progress_{0};
  std::atomic<std::int64_t> timeout_ms_{0};
  std::array<std::atomic<std::uint64_t>, kWords> words_{};
};

}  // namespace foreshard::gpu
