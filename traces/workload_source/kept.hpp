// The latest values by a key, each made once, by whoever asks for it first; others who ask meanwhile wait for it.
//
// Who: workloads_of.cpp. Thread-safe.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace foreshard::traces {

template <class Value>
class Kept {
 public:
  explicit Kept(std::size_t most) : most_(most) {}

  template <class Make>
  Value get(const std::string& key, Make&& make) {
    const std::shared_ptr<Entry> entry = find(key);
    std::call_once(entry->once, [&] { entry->value.emplace(make()); });
    return *entry->value;
  }

 private:
  struct Entry {
    std::once_flag once;
    std::optional<Value> value;
  };

  std::shared_ptr<Entry> find(const std::string& key) {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<Entry>& entry = entries_[key];
    if (entry)
      std::erase(order_, key);
    else
      entry = std::make_shared<Entry>();
    std::shared_ptr<Entry> found = entry;
    order_.push_back(key);
    if (order_.size() > most_) {
      entries_.erase(order_.front());
      order_.pop_front();
    }
    return found;
  }

  std::size_t most_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Entry>> entries_;
  std::deque<std::string> order_;  // the one that was asked for longest ago first
};

}  // namespace foreshard::traces
