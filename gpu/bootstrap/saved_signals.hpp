// A process's signal actions, put back: asio's signal_set leaves the default ones behind. Used by session_thread.hpp
// and supervisor.cpp. Not thread safe.
#pragma once

#include <signal.h>

#include <utility>
#include <vector>

namespace foreshard::gpu {

class SavedSignals {
 public:
  /// Takes note of the actions of `signals`. Construct before what changes them.
  explicit SavedSignals(const std::vector<int>& signals) {
    for (const int signal : signals) {
      struct sigaction action {};
      if (::sigaction(signal, nullptr, &action) == 0) actions_.emplace_back(signal, action);
    }
  }
  ~SavedSignals() { restore(); }
  SavedSignals(const SavedSignals&) = delete;
  SavedSignals& operator=(const SavedSignals&) = delete;

  void restore() const {
    for (const auto& [signal, action] : actions_) ::sigaction(signal, &action, nullptr);
  }

 private:
  std::vector<std::pair<int, struct sigaction>> actions_;
};

}  // namespace foreshard::gpu
